//! Options of blocking functions.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use leasehold::{LockError, LockPool, distributed_lock, watch_replays};
use leasehold_tests::stores::Store;
use leasehold_tests::{on_every_store_of_leases, on_stores};

use super::{HANG, LONG, Result, TTL, on_a_thread, where_blocking_is_allowed};

on_every_store_of_leases!(
    two_readers_are_inside_together,
    two_permits_are_in_use_together,
    a_lock_is_kept_after_the_work,
    a_later_call_gets_the_result,
    a_wait_ends,
    max_hold_ends_a_lease,
);

on_stores!(sentinel cluster redlock etcd zookeeper: (a_wait_ends, max_hold_ends_a_lease));

#[distributed_lock(key = "k", ttl = "20s", wait = "50s", shared, pool = pool)]
fn reads(pool: &LockPool, meet: &Barrier) -> Result {
    meet.wait();
    Ok(())
}

#[distributed_lock(key = "k", ttl = "20s", wait = "50s", permits = 2, pool = pool)]
fn has_a_permit(pool: &LockPool, meet: &Barrier) -> Result {
    meet.wait();
    Ok(())
}

async fn both_are_inside(store: &Store, call: fn(&LockPool, &Barrier) -> Result) {
    let meet = Arc::new(Barrier::new(2));
    let (one, other) = (store.pool().await, store.pool().await);
    let inside = |pool: LockPool| {
        let meet = Arc::clone(&meet);
        on_a_thread(move || call(&pool, &meet))
    };
    let ended = tokio::join!(inside(one), inside(other));
    assert_eq!(ended, (Ok(()), Ok(())));
}

/// Fails if `shared` has no effect on a blocking function.
async fn two_readers_are_inside_together(store: &Store) {
    both_are_inside(store, reads).await;
}

/// Fails if `permits` has no effect on a blocking function.
async fn two_permits_are_in_use_together(store: &Store) {
    both_are_inside(store, has_a_permit).await;
}

#[distributed_lock(key = "held", ttl = "20s", wait = "50s", cooldown = "20s", pool = pool)]
fn pays(pool: &LockPool) -> Result<bool> {
    Ok(pool.is_held("held"))
}

#[distributed_lock(key = "least", ttl = "20s", wait = "50s", min_hold = "20s", pool = pool)]
fn sweeps(pool: &LockPool) -> Result<bool> {
    Ok(pool.is_held("least"))
}

/// Fails if the lock of a blocking function with `cooldown` or `min_hold` is free when the function
/// has returned.
async fn a_lock_is_kept_after_the_work(store: &Store) {
    let (pool, other) = (store.pool().await, store.pool().await);
    let ended = on_a_thread(move || (pays(&pool), sweeps(&pool))).await;
    assert_eq!(ended, (Ok(true), Ok(true)));
    for key in ["held", "least"] {
        let refused = other.lock(key).ttl(TTL).acquire().await.map(drop);
        let refused = refused.expect_err("it stays");
        assert!(refused.is_contention(), "{key}: {refused}");
    }
}

#[distributed_lock(
    key = "order",
    ttl = "20s",
    wait = "50s",
    replay = "1h",
    fingerprint = cart,
    pool = pool
)]
fn orders(pool: &LockPool, cart: u32, runs: &AtomicU32) -> Result<u32> {
    runs.fetch_add(1, Ordering::SeqCst);
    Ok(cart + u32::from(pool.is_held("order")))
}

/// Fails if a later call of a blocking function with `replay` runs the body again. Also fails if a
/// call with another fingerprint gets the kept result.
async fn a_later_call_gets_the_result(store: &Store) {
    let pool = store.pool().await;
    let runs = Arc::new(AtomicU32::new(0));
    let (calls, counts) = (pool.clone(), Arc::clone(&runs));
    let ended = where_blocking_is_allowed(move || {
        let first = orders(&calls, 7, &counts);
        (
            first,
            orders(&calls, 7, &counts),
            orders(&calls, 9, &counts),
        )
    });
    let (first, second, third) = ended.await;
    assert_eq!((first, second), (Ok(8), Ok(8)));
    assert!(third.is_err_and(|error| error.is_mismatch()));
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    // This blocking call runs while the future of `watch_replays` is polled. `watch_replays` must
    // report that the call got a kept result.
    let watched = watch_replays(async { orders(&pool, 7, &runs) }).await;
    assert_eq!(watched, (Ok(8), true));
}

/// Another call holds the lock. Fails if a blocking call gives up before its `wait` is over, or
/// hangs.
async fn a_wait_ends(store: &Store) {
    const BUDGET: Duration = Duration::from_millis(300);
    let (pool, other) = (store.pool().await, store.pool().await);
    let request = other.lock("k").ttl(TTL).wait(LONG);
    let guard = request.watchdog().acquire().await.expect("free");
    let ended = on_a_thread(move || {
        let started = std::time::Instant::now();
        let guard = pool.lock("k").ttl(TTL).wait(BUDGET).acquire_blocking();
        (guard.map(drop), started.elapsed())
    });
    let (ended, took) = ended.await;
    assert!(BUDGET <= took && took < HANG, "{took:?}");
    // On a busy machine, the store may not answer within the `wait`. The error then reports the
    // store as unavailable.
    let in_time = |error: &LockError| error.is_contention() || error.is_unavailable();
    assert!(ended.as_ref().is_err_and(in_time), "{ended:?}");
    guard.release().await.expect("still held");
}

/// Fails if `max_hold` does not end the lease of a blocking body.
async fn max_hold_ends_a_lease(store: &Store) {
    let pool = store.pool().await;
    let ended = on_a_thread(move || {
        let ttl = Duration::from_secs(1);
        let request = pool.lock("k").ttl(ttl).watchdog().max_hold(ttl * 2);
        let body = || leasehold_tests::wait::until("the end", HANG, || !pool.is_held("k"));
        request.wait(LONG).run_blocking(body)
    });
    let ended = ended.await.map(drop);
    assert!(matches!(ended, Err(LockError::Lost { .. })), "{ended:?}");
}

/// With `on_current_runtime`, the pool's engine runs on the only thread of this test. Fails if a
/// blocking call parks this thread instead of being refused.
#[tokio::test]
async fn the_thread_of_the_engine_is_not_parked() {
    let builder = LockPool::builder().url("memory://").on_current_runtime();
    let pool = builder.connect().await.expect("it is in memory");
    let refused = pool.lock("k").ttl(TTL).acquire_blocking().map(drop);
    assert!(
        matches!(refused, Err(LockError::Config { .. })),
        "{refused:?}"
    );
    let guard = pool.lock("k").ttl(TTL).acquire().await.expect("free");
    let refused = guard.release_blocking();
    assert!(
        matches!(refused, Err(LockError::Config { .. })),
        "{refused:?}"
    );
    let calls = pool.clone();
    let ended = where_blocking_is_allowed(move || {
        let request = calls.lock("k").ttl(TTL).wait(LONG);
        request.run_blocking(|| calls.is_held("k"))
    });
    assert_eq!(ended.await, Ok(true));
}
