//! The ways in which a blocking body can end. Each of them releases the lock.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use leasehold::{LockError, LockPool, distributed_lock};
use leasehold_tests::stores::Store;
use leasehold_tests::{on_stores, wait};

use super::super::is_released;
use super::{LONG, Result, TTL, on_a_thread};

on_stores!(memory redis sentinel cluster redlock postgres etcd zookeeper: (
    a_panic_releases,
    a_question_mark_releases,
    a_dropped_guard_is_released,
    a_shut_down_pool_refuses,
));

#[distributed_lock(key = "k", ttl = "20s", wait = "50s", pool = pool)]
fn panics(pool: &LockPool) -> Result {
    panic!("as the test wants it, in {:?}", pool.is_held("k"))
}

/// Fails if a panic of a blocking body keeps the lock, or does not reach the caller.
async fn a_panic_releases(store: &Store) {
    let (pool, asked) = (store.pool().await, Instant::now());
    let ended = on_a_thread(move || {
        let function = catch_unwind(AssertUnwindSafe(|| panics(&pool))).is_err();
        let request = pool.lock("k").ttl(TTL).wait(LONG);
        let run =
            || request.run_blocking(|| assert!(pool.is_held("other"), "as the test wants it"));
        (function, catch_unwind(AssertUnwindSafe(run)).is_err())
    });
    assert_eq!(ended.await, (true, true));
    is_released(&*store.probe, "k", asked).await;
}

#[distributed_lock(key = "k", ttl = "20s", wait = "50s", pool = pool)]
fn fails(pool: &LockPool) -> Result<u32> {
    Err(LockError::ShuttingDown)?;
    Ok(u32::from(pool.is_held("k")))
}

/// Fails if a blocking body that returns an error with `?` keeps the lock.
async fn a_question_mark_releases(store: &Store) {
    let (pool, asked) = (store.pool().await, Instant::now());
    let ended = on_a_thread(move || fails(&pool)).await;
    assert_eq!(ended, Err(LockError::ShuttingDown));
    is_released(&*store.probe, "k", asked).await;
}

/// A guard is dropped on a thread without a runtime. Fails if its lock is not released.
async fn a_dropped_guard_is_released(store: &Store) {
    let pool = store.pool().await;
    on_a_thread(move || {
        for _ in 0..3 {
            // This wait is shorter than the ttl, so only a release can have freed the lock.
            let guard = pool.lock("k").ttl(TTL).wait(TTL / 2).acquire_blocking();
            drop(guard.expect("it comes free"));
        }
    })
    .await;
    wait::until_async("it is released", TTL / 2, || !store.probe.exists("k")).await;
}

/// Fails if a blocking call hangs after its pool has shut down.
async fn a_shut_down_pool_refuses(store: &Store) {
    let pool = store.pool().await;
    pool.shutdown(LONG).await;
    let ended = on_a_thread(move || {
        let guard = pool.lock("k").ttl(TTL).wait(LONG).acquire_blocking();
        guard.map(drop)
    });
    assert_eq!(ended.await, Err(LockError::ShuttingDown));
}
