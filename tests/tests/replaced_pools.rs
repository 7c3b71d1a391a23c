//! Checks that a pool can be replaced once it no longer grants locks. The tests are in a separate
//! program, because installed pools belong to the process.

use std::sync::{Arc, Barrier};
use std::time::Duration;

use leasehold::{LockError, LockPool, distributed_lock};
use tokio::runtime::Runtime;

const LIMIT: Duration = Duration::from_secs(10);
const RACERS: usize = 8;

#[distributed_lock(key = "k", ttl = "10s")]
async fn installed() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "k", ttl = "10s", pool = "other")]
async fn named() -> Result<(), LockError> {
    Ok(())
}

fn runtime() -> Runtime {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all();
    runtime.build().expect("a runtime starts")
}

/// Returns a pool whose engine has stopped because its runtime was dropped.
fn stopped() -> LockPool {
    let gone = runtime();
    let builder = LockPool::builder().url("memory://").on_current_runtime();
    let pool = gone.block_on(builder.connect()).expect("it opens");
    drop(gone);
    pool
}

fn living(runtime: &Runtime) -> LockPool {
    let pool = runtime.block_on(LockPool::connect("memory://"));
    pool.expect("it opens")
}

#[track_caller]
fn is_second(installed: Result<(), LockError>) {
    let error = installed.expect_err("there is one already");
    assert!(matches!(error, LockError::Config { .. }), "{error:?}");
    assert!(error.to_string().contains("installed"), "{error}");
}

fn has_stopped(ended: &Result<(), LockError>) -> bool {
    matches!(ended, Err(LockError::Unavailable { source }) if source.code() == "stopped")
}

/// One way to install a pool, and a call that uses the pool installed in this way.
struct Place {
    install: fn(&LockPool) -> Result<(), LockError>,
    call: fn(&Runtime) -> Result<(), LockError>,
}

const PLACES: [Place; 2] = [
    Place {
        install: LockPool::install,
        call: |runtime| runtime.block_on(installed()),
    },
    Place {
        install: |pool| pool.install_as("other"),
        call: |runtime| runtime.block_on(named()),
    },
];

/// Fails if a stopped pool cannot be replaced, because the process would then need a restart. Also
/// fails if a working pool is replaced.
#[test]
fn only_an_ended_pool_is_replaced() {
    let runtime = runtime();
    for Place { install, call } in PLACES {
        install(&stopped()).expect("the first");
        assert!(has_stopped(&call(&runtime)));
        let second = living(&runtime);
        install(&second).expect("the first has stopped");
        call(&runtime).expect("the second serves");
        is_second(install(&living(&runtime)));
        is_second(install(&second));
        call(&runtime).expect("the second serves still");
        runtime.block_on(second.shutdown(LIMIT));
        assert_eq!(call(&runtime), Err(LockError::ShuttingDown));
        races(&runtime, install);
        call(&runtime).expect("the winner serves");
    }
    is_second(runtime.block_on(leasehold::init("memory://")));
    runtime.block_on(leasehold::shutdown(LIMIT));
    assert_eq!(runtime.block_on(installed()), Err(LockError::ShuttingDown));
    let again = runtime.block_on(leasehold::init("memory://"));
    again.expect("what was installed is shut down");
    runtime.block_on(installed()).expect("it serves");
}

/// Asserts that exactly one pool is installed if several threads replace a stopped pool at the same
/// time.
fn races(runtime: &Runtime, install: fn(&LockPool) -> Result<(), LockError>) {
    let mut last: Option<LockPool> = None;
    for round in 0..50 {
        if let Some(last) = last.take() {
            runtime.block_on(last.shutdown(LIMIT));
        }
        let start = Arc::new(Barrier::new(RACERS));
        let racers: Vec<_> = (0..RACERS)
            .map(|_| {
                let (pool, start) = (living(runtime), Arc::clone(&start));
                std::thread::spawn(move || {
                    start.wait();
                    install(&pool).is_ok().then_some(pool)
                })
            })
            .collect();
        let racers = racers
            .into_iter()
            .map(|racer| racer.join().expect("no panic"));
        let mut winners: Vec<LockPool> = racers.flatten().collect();
        assert_eq!(winners.len(), 1, "round {round}");
        last = winners.pop();
    }
}
