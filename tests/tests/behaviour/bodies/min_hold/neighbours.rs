//! Tests of `min_hold` with other calls for the same lock: from this process, from another process,
//! and nested.

use std::time::Instant;

use leasehold::{LockError, LockPool};
use leasehold_tests::lateness::Excuse;
use leasehold_tests::stores::Store;
use leasehold_tests::wait;
use leasehold_tests::{on_etcd, on_every_store_of_leases};
use tokio::time::sleep;

use super::{HANG, MIN_HOLD, NEARLY, TTL, is_free_early, request, taken};

on_every_store_of_leases! {
    a_waiting_call_waits_until_at_least_has_passed,
    a_staying_lock_is_not_handed_over_early,
    a_nested_call_does_not_make_the_lock_stay,
}

on_etcd! {
    a_waiting_call_waits_until_at_least_has_passed,
    a_staying_lock_is_not_handed_over_early,
    a_nested_call_does_not_make_the_lock_stay,
}

/// Waits for the lock, and returns the time of the grant.
async fn waits(pool: &LockPool) -> Result<Instant, LockError> {
    let guard = pool.lock("k").ttl(TTL).wait(HANG).acquire().await?;
    let at = Instant::now();
    guard.release().await?;
    Ok(at)
}

/// Fails if a waiting call gets the lock before `min_hold` has passed, or keeps sleeping after the
/// lock is free.
async fn a_waiting_call_waits_until_at_least_has_passed(store: &Store) {
    let (pool, other) = (store.pool().await, store.pool().await);
    let (start, excuse) = (Instant::now(), Excuse::begin());
    let guard = taken(&pool, "k").await;
    let release = async {
        // During this sleep, both waiting calls are refused for the first time. The lock still has
        // its ttl, so they plan to sleep far beyond `min_hold`.
        sleep(MIN_HOLD / 4).await;
        guard.release().await
    };
    let all = async { tokio::try_join!(release, waits(&pool), waits(&other)) };
    let ((), here, there) = wait::within("all", HANG, all).await.expect("all get in");
    let (first, second) = (here.min(there) - start, here.max(there) - start);
    assert!(MIN_HOLD <= first, "in after {first:?}");
    // A call that does not repeat its request at the end of `min_hold` would wait for the rest of
    // the ttl. That is far longer than this bound.
    let most = HANG / 2 + excuse.so_far();
    assert!(second < most, "in after {second:?}");
}

/// Fails if the process passes the lock to its next call before `min_hold` has passed, after a
/// release or after a drop.
async fn a_staying_lock_is_not_handed_over_early(store: &Store) {
    let pool = store.pool().await;
    let waits = async |drops: bool| {
        let guard = request(&pool, "k").wait(HANG).acquire().await?;
        let at = Instant::now();
        if drops {
            drop(guard);
        } else {
            guard.release().await?;
        }
        Ok::<_, LockError>(at)
    };
    for drops in [false, true] {
        // The first call gets the lock at once. The other two calls already wait when the lock is
        // released.
        let all = async { tokio::try_join!(waits(drops), waits(drops), waits(drops)) };
        let (first, second, third) = wait::within("all", HANG, all).await.expect("all get in");
        let mut times = [first, second, third];
        times.sort_unstable();
        for pair in times.windows(2) {
            let after = pair[1] - pair[0];
            assert!(NEARLY <= after, "in after {after:?} of {MIN_HOLD:?}");
        }
    }
}

/// Fails if the `min_hold` of a nested call keeps the lock held. Only the `min_hold` of the call
/// that took the lock counts.
async fn a_nested_call_does_not_make_the_lock_stay(store: &Store) {
    let pool = store.pool().await;
    let start = Instant::now();
    let nested = pool.lock("k").ttl(TTL).min_hold(TTL).reentrant();
    let outer = pool.lock("k").ttl(TTL).run(nested.run(async {}));
    outer.await.expect("it is free").expect("it is entered");
    is_free_early(store, "k", start, TTL).await;
}
