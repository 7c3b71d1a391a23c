//! Tests of every way in which an annotated function can end. Each way is run 100 times in each of
//! three environments.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use leasehold::{LockPool, LockPoolBuilder};
use leasehold_tests::probe::Probe;
use leasehold_tests::session_server::SessionServer;
use leasehold_tests::stores::NO_OUTAGE;
use leasehold_tests::wait;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;

use super::RELEASE;

mod cluster;
mod endings;
mod etcd;
mod memory;
mod postgres;
mod redis;
mod redlock;
mod sentinel;
mod ways;
mod zookeeper;
pub(crate) use endings::{runtime_dropped, workers_blocked};
pub(crate) use ways::Way;

/// Number of runs of each way in each environment.
const TIMES: u32 = 100;
/// Number of concurrent runs.
const THREADS: u32 = 10;
/// Time limit for one call to end, in any `Way`. A call takes longer only if it hangs.
const HANG: Duration = Duration::from_secs(30);
/// Ttl of a lock that the probe takes as another holder. It is longer than the test, so the pool is
/// at fault if this lock changes or ends.
const FOREIGN: Duration = Duration::from_secs(300);

/// Time limit for a key to become free after its function has ended. In most ways the ttl is longer
/// than this limit, so only a release frees the key in time. In the other ways, the lease has
/// already ended.
const BOUND: Duration = Duration::from_secs(10);

/// The store of the locks, and a probe, which looks at the locks without the code under test.
pub(crate) struct Store {
    pub(crate) url: String,
    pub(crate) probe: Arc<dyn Probe>,
}

impl Store {
    /// Returns a store on the shared server of type `S`. On this store, locks belong to sessions.
    fn of_sessions<S: SessionServer>() -> Self {
        let server = S::shared();
        Self {
            url: server.url("exits"),
            probe: Arc::new(server.probe("exits", "lock:")),
        }
    }

    /// Returns the builder of a pool with a long `io_timeout`. A busy machine may delay the
    /// answers, and no test in this folder includes an outage.
    fn pool(&self) -> LockPoolBuilder {
        LockPool::builder().url(&self.url).io_timeout(NO_OUTAGE)
    }
}

/// One call of an annotated function.
pub(crate) struct Case {
    pub(crate) pool: LockPool,
    pub(crate) key: String,
    pub(crate) probe: Arc<dyn Probe>,
    pub(crate) entered: Notify,
    /// Time shortly before the call.
    began: Instant,
    /// One entry for each ended body. The entry is true if the key still existed while the body's
    /// destructors ran.
    held_at_end: Mutex<Vec<bool>>,
}

impl Case {
    /// Notifies the test that the body has begun. The body must own the returned witness, so that
    /// it is dropped with the body.
    pub(crate) fn enter(self: &Arc<Self>) -> Witness {
        self.entered.notify_one();
        Witness(Arc::clone(self))
    }

    /// Returns the number of ended bodies.
    pub(crate) fn ends(&self) -> usize {
        let ends = self.held_at_end.lock();
        ends.unwrap_or_else(PoisonError::into_inner).len()
    }
}

/// A value that the body owns. Its destructor records whether the key still exists.
pub(crate) struct Witness(Arc<Case>);

impl Drop for Witness {
    fn drop(&mut self) {
        let held = self.0.probe.exists(&self.0.key);
        let mut ends = self
            .0
            .held_at_end
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        ends.push(held);
    }
}

/// Environment in which an annotated function runs.
#[derive(Debug, Clone, Copy)]
enum Surrounding {
    /// A task on a runtime that continues to run.
    Task,
    /// Under `block_on`, on a runtime that idles afterwards.
    BlockOn,
    /// Under `block_on`, on a runtime shut down immediately afterwards.
    ShutDown,
}

/// Ends annotated functions in one way, many times. After each run, checks that the lock is free,
/// or belongs to another holder if `way` requires that. If the lease must outlast the body, checks
/// that the body's destructors ran inside the lock. Finally, checks that no lock of another holder
/// was changed.
pub(crate) fn repeat(store: &Store, way: Way) {
    let shared = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime starts");
    let pool = shared.block_on(wait::connected(store.pool()));
    let next = AtomicU32::new(0);
    let foreign = Mutex::new(Vec::new());
    for surrounding in [
        Surrounding::Task,
        Surrounding::BlockOn,
        Surrounding::ShutDown,
    ] {
        let until = next.load(Ordering::Relaxed) + TIMES;
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    while let Some(number) = take_number(&next, until) {
                        let case = case(store, &pool, format!("{way:?}-{number}"));
                        let end = run(way, &case, surrounding, &shared);
                        check(way, &case, surrounding, end);
                        foreign.lock().expect("no panic").push(case.key.clone());
                    }
                });
            }
        });
    }
    for key in foreign.into_inner().expect("no panic") {
        assert!(
            store.probe.untouched(&key),
            "{key}: another holder's lock was touched"
        );
        store.probe.give_back(&key);
    }
}

fn take_number(next: &AtomicU32, until: u32) -> Option<u32> {
    next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |number| {
        (number < until).then_some(number + 1)
    })
    .ok()
}

fn case(store: &Store, pool: &LockPool, key: String) -> Arc<Case> {
    Arc::new(Case {
        pool: pool.clone(),
        key,
        probe: Arc::clone(&store.probe),
        entered: Notify::new(),
        began: Instant::now(),
        held_at_end: Mutex::default(),
    })
}

/// Runs the case. For `Surrounding::BlockOn`, returns the runtime, which must live until the checks
/// are done.
fn run(way: Way, case: &Arc<Case>, surrounding: Surrounding, shared: &Runtime) -> Option<Runtime> {
    let leaving = ways::leave(way, Arc::clone(case));
    let leaving = async move { wait::within("the way out", HANG, leaving).await };
    if matches!(surrounding, Surrounding::Task) {
        let ended = shared.block_on(shared.spawn(leaving));
        expect_end(way, ended.is_err_and(|error| error.is_panic()));
        return None;
    }
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime starts");
    let ended = catch_unwind(AssertUnwindSafe(|| runtime.block_on(leaving)));
    expect_end(way, ended.is_err());
    matches!(surrounding, Surrounding::BlockOn).then_some(runtime)
}

fn expect_end(way: Way, panicked: bool) {
    assert_eq!(panicked, way.panics(), "{way:?}: panicked");
}

fn check(way: Way, case: &Arc<Case>, surrounding: Surrounding, runtime: Option<Runtime>) {
    let what = format!("{} ({surrounding:?})", case.key);
    // A call waits for the answer to its release for at most `RELEASE`. On a busy machine, it may
    // return without this answer.
    let answered = case.began.elapsed() < RELEASE;
    if way.leaves_another_holder() {
        assert!(
            case.probe.untouched(&case.key),
            "{what}: the thief's lock was touched"
        );
    } else if way.awaits_its_release() && answered {
        // Fails if the release begins only after the function has returned.
        assert!(
            case.probe.take(&case.key, FOREIGN),
            "{what}: not free at once"
        );
    } else {
        // Fails if the lock is not released. No ttl ends during this wait: each ttl is longer than
        // `BOUND`, or has already ended.
        wait::until(&format!("{what}: free again"), BOUND, || {
            case.probe.take(&case.key, FOREIGN)
        });
    }
    let ends = case
        .held_at_end
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    match way.destructors_run_inside() {
        // Fails if the release is sent before the body is dropped.
        Some(true) => assert_eq!(*ends, [true], "{what}: destructors inside the lock"),
        Some(false) => assert_eq!(ends.len(), 1, "{what}: the body is dropped once"),
        None => {}
    }
    drop(runtime);
}

/// Generates a test for each listed `Way`, with the locks in `$store`.
macro_rules! ways_out {
    ($store:expr $(, $name:ident: $way:ident)* $(,)?) => {
        $crate::bodies::exits::ways_out! {
            @each $store,
            last_expression: LastExpression,
            early_return: EarlyReturn,
            question_mark: QuestionMark,
            owned_argument: OwnedArgument,
            panic: Panic,
            panic_in_a_task: PanicInTask,
            dropped_by_select: Select,
            dropped_by_timeout: Timeout,
            aborted: Abort,
            dropped: PlainDrop,
            dropped_while_acquiring: DroppedWhileAcquiring,
            dropped_while_queueing: DroppedWhileQueueing,
            the_lease_expires: Expired,
            the_body_outlives_the_lease: Outlived,
            $($name: $way,)*
        }

        #[test]
        fn the_runtime_is_dropped() {
            super::runtime_dropped(&$store);
        }

        #[test]
        fn all_workers_are_blocked() {
            super::workers_blocked(&$store);
        }
    };
    (@each $store:expr, $($name:ident: $way:ident,)+) => {
        $(
            #[test]
            fn $name() {
                super::repeat(&$store, super::Way::$way);
            }
        )+
    };
}
pub(crate) use ways_out;
