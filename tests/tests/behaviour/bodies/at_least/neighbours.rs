//! Calls that want a lock that stays: of this process and of another, and calls nested in it.

use std::time::Instant;

use leasehold::{LockError, LockPool};
use leasehold_tests::lateness::Excuse;
use leasehold_tests::stores::Store;
use leasehold_tests::wait;
use leasehold_tests::{on_etcd, on_every_store_of_leases};
use tokio::time::sleep;

use super::{AT_LEAST, HANG, NEARLY, TTL, is_free_early, request, taken};

on_every_store_of_leases! {
    who_waits_waits_on,
    it_is_not_handed_over_early,
    a_nested_call_keeps_nothing,
}

on_etcd! {
    who_waits_waits_on,
    it_is_not_handed_over_early,
    a_nested_call_keeps_nothing,
}

/// Waits for the lock, and says when it had it.
async fn waits(pool: &LockPool) -> Result<Instant, LockError> {
    let guard = pool.lock("k").ttl(TTL).wait(HANG).acquire().await?;
    let at = Instant::now();
    guard.release().await?;
    Ok(at)
}

/// Fails if a call that waits is let in early, or sleeps on when the lock is free.
async fn who_waits_waits_on(store: &Store) {
    let (pool, other) = (store.pool().await, store.pool().await);
    let (start, excuse) = (Instant::now(), Excuse::begin());
    let guard = taken(&pool, "k").await;
    let release = async {
        // So that both are asleep until much later by then.
        sleep(AT_LEAST / 4).await;
        guard.release().await
    };
    let all = async { tokio::try_join!(release, waits(&pool), waits(&other)) };
    let ((), here, there) = wait::within("all", HANG, all).await.expect("all get in");
    let (first, second) = (here.min(there) - start, here.max(there) - start);
    assert!(AT_LEAST <= first, "in after {first:?}");
    // A slow machine is slow; a poll that was missed would be the rest of the ttl.
    let most = HANG / 2 + excuse.so_far();
    assert!(second < most, "in after {second:?}");
}

/// Fails if a lock is handed over inside the process before its time: after a release, and after a
/// drop.
async fn it_is_not_handed_over_early(store: &Store) {
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
        // From the second call on, other calls wait when the lock is taken.
        let all = async { tokio::try_join!(waits(drops), waits(drops), waits(drops)) };
        let (first, second, third) = wait::within("all", HANG, all).await.expect("all get in");
        let mut times = [first, second, third];
        times.sort_unstable();
        for pair in times.windows(2) {
            let after = pair[1] - pair[0];
            assert!(NEARLY <= after, "in after {after:?} of {AT_LEAST:?}");
        }
    }
}

/// Fails if a call that enters a lock keeps it: the call that took it decides.
async fn a_nested_call_keeps_nothing(store: &Store) {
    let pool = store.pool().await;
    let start = Instant::now();
    let nested = pool.lock("k").ttl(TTL).at_least(TTL).reentrant();
    let outer = pool.lock("k").ttl(TTL).run(nested.run(async {}));
    outer.await.expect("it is free").expect("it is entered");
    is_free_early(store, "k", start, TTL).await;
}
