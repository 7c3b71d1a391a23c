//! Requirement 5: however an annotated function ends, its lock is released.

use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

use leasehold::{LockError, LockPool, distributed_lock};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use super::ground::{EVERYWHERE, Ground, Requirement, connect, local_runtime, on_threads, runtime};
use super::sheet::Sheet;

pub(super) const REQUIREMENT: Requirement = Requirement {
    number: 5,
    what: "released however the function ends",
    stores: EVERYWHERE,
    run,
};

const BOUND: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Return,
    QuestionMark,
    EarlyReturn,
    PanicInTask,
    PanicInBlockOn,
    Drop,
    Abort,
    Select,
    Timeout,
    RuntimeDrop,
}

const WAYS: [Way; 10] = [
    Way::Return,
    Way::QuestionMark,
    Way::EarlyReturn,
    Way::PanicInTask,
    Way::PanicInBlockOn,
    Way::Drop,
    Way::Abort,
    Way::Select,
    Way::Timeout,
    Way::RuntimeDrop,
];

type Entered = oneshot::Sender<()>;

#[distributed_lock(key = "<key>", ttl = "30s", watchdog, pool = pool)]
async fn leaves(pool: LockPool, key: String, way: Way, entered: Entered) -> Result<(), LockError> {
    // The caller may have dropped the receiver already, because not every `Way` waits for this
    // message. So an error is ignored.
    let _ = entered.send(());
    tokio::task::yield_now().await;
    if way == Way::EarlyReturn {
        return Ok(());
    }
    match way {
        Way::Return => Ok(()),
        Way::QuestionMark => Err(LockError::NotInstalled)?,
        Way::PanicInTask | Way::PanicInBlockOn => resume_unwind(Box::new("the body panics")),
        _ => pending().await,
    }
}

fn run(ground: &Ground, sheet: &Sheet) {
    let each = ground.count(1_000, 20);
    let ways = u64::try_from(WAYS.len()).unwrap_or(0);
    let place = ground.place("exits");
    let shared = runtime(2);
    let pool = shared.block_on(connect(&place.url));
    on_threads(8, each * ways, &mut ground.random(5), |_, _, next| {
        while let Some(number) = next() {
            let way = WAYS[usize::try_from(number % ways).unwrap_or(0)];
            let key = format!("{way:?}-{number}");
            leave(way, &pool, &key, &shared);
            let left = Instant::now();
            while place.probe.exists(&key) && left.elapsed() < BOUND {
                std::thread::sleep(Duration::from_millis(1));
            }
            sheet.release(left.elapsed());
            if place.probe.exists(&key) {
                sheet.orphan(format!("{key} is still locked after {BOUND:?}"));
            }
        }
    });
    sheet.sections(each * ways);
    sheet.reached("times each of 10 ways", each, 1_000);
}

fn leave(way: Way, pool: &LockPool, key: &str, shared: &Runtime) {
    let (entered, inside) = oneshot::channel();
    let call = leaves(pool.clone(), key.to_owned(), way, entered);
    match way {
        Way::Return | Way::QuestionMark | Way::EarlyReturn => {
            let ended = shared.block_on(shared.spawn(call)).expect("no panic");
            assert_eq!(
                ended.is_err(),
                way == Way::QuestionMark,
                "{way:?}: {ended:?}"
            );
        }
        Way::PanicInTask => assert!(shared.block_on(shared.spawn(call)).is_err()),
        Way::PanicInBlockOn => {
            let runtime = local_runtime();
            assert!(catch_unwind(AssertUnwindSafe(|| runtime.block_on(call))).is_err());
        }
        Way::Drop => shared.block_on(async {
            let mut call = Box::pin(call);
            tokio::select! {
                biased;
                _ = &mut call => unreachable!("it stays"),
                _ = inside => {}
            }
            drop(call);
        }),
        Way::Select => shared.block_on(async {
            tokio::select! {
                _ = call => unreachable!("it stays"),
                _ = inside => {}
            }
        }),
        Way::Abort => {
            let task = shared.spawn(call);
            shared.block_on(inside).expect("the body begins");
            task.abort();
            assert!(
                shared
                    .block_on(task)
                    .is_err_and(|error| error.is_cancelled())
            );
        }
        Way::Timeout => shared.block_on(async {
            let mut call = Box::pin(call);
            tokio::select! {
                _ = &mut call => unreachable!("it stays"),
                _ = inside => {}
            }
            let ended = tokio::time::timeout(Duration::from_micros(100), call).await;
            assert!(ended.is_err(), "{ended:?}");
        }),
        Way::RuntimeDrop => {
            let runtime = runtime(1);
            runtime.spawn(call);
            runtime.block_on(inside).expect("the body begins");
            drop(runtime);
        }
    }
}
