//! Tests of bodies that end together with their runtime, and of guards that are dropped while all
//! workers of their runtime are blocked.

use std::future::pending;
use std::time::Duration;

use leasehold::{LockPool, distributed_lock};
use leasehold_tests::blocked::Blocked;
use leasehold_tests::wait;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

use super::{BOUND, FOREIGN, Store, TIMES};

fn runtime(workers: usize) -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_all()
        .build()
        .expect("a runtime starts")
}

#[distributed_lock(key = "<key>", ttl = "20s", watchdog, pool = pool, on_error = |error| panic!("{error}"))]
async fn stays(pool: LockPool, key: String, entered: oneshot::Sender<()>) {
    entered.send(()).expect("the test waits for it");
    pending::<()>().await;
}

/// Ends a runtime while a body runs on it: by a drop, a shutdown in the background, or a shutdown
/// with a time limit.
pub(crate) fn runtime_dropped(store: &Store) {
    // The pool connects on a runtime that ends at once. The pool must outlive this runtime.
    let pool = runtime(1).block_on(wait::connected(store.pool()));
    for number in 0..TIMES {
        let key = format!("runtime-dropped-{number}");
        let runtime = runtime(1);
        let (entered, seen) = oneshot::channel();
        runtime.spawn(stays(pool.clone(), key.clone(), entered));
        runtime.block_on(seen).expect("the body begins");
        assert!(store.probe.exists(&key));
        match number % 3 {
            0 => drop(runtime),
            1 => runtime.shutdown_background(),
            _ => runtime.shutdown_timeout(Duration::from_secs(1)),
        }
        // Fails if the release needs the runtime of the function that held the lock.
        wait::until(&key, BOUND, || store.probe.take(&key, FOREIGN));
        assert!(store.probe.untouched(&key));
    }
}

/// Drops a guard while every worker of its runtime is blocked.
pub(crate) fn workers_blocked(store: &Store) {
    let runtime = runtime(2);
    let pool = runtime.block_on(wait::connected(store.pool()));
    for number in 0..TIMES {
        let key = format!("workers-blocked-{number}");
        let request = pool.lock(&*key).ttl(Duration::from_secs(20)).watchdog();
        let guard = runtime.block_on(request.acquire()).expect("it is free");
        let blocked = Blocked::all(&runtime);
        drop(guard);
        // Fails if the release needs a free worker of the runtime that dropped the guard.
        wait::until(&key, BOUND, || store.probe.take(&key, FOREIGN));
        drop(blocked);
    }
}
