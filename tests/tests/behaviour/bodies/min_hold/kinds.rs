//! Tests of `min_hold` with several keys, shared locks and permits.

use std::time::Instant;

use leasehold::{LockError, LockPool, distributed_lock};
use leasehold_tests::stores::Store;
use leasehold_tests::wait;
use leasehold_tests::{on_etcd, on_every_store_of_leases, on_stores};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::{HANG, MIN_HOLD, NEARLY, TTL, comes_free, request, retry_after, taken};

on_every_store_of_leases! {
    all_of_several_keys_stay,
    at_least_counts_from_the_last_of_several_keys,
    a_share_stays_and_lets_readers_in,
    a_downgraded_lock_stays_as_a_share,
    a_permit_stays_in_use,
    at_least_limits_the_rate_of_permits,
}

// etcd has no shared locks and no permits, so their tests are missing here.
on_etcd! {
    all_of_several_keys_stay,
    at_least_counts_from_the_last_of_several_keys,
}

on_stores!(redlock: (all_of_several_keys_stay));

on_stores!(sentinel cluster: (
    all_of_several_keys_stay,
    a_permit_stays_in_use,
));

#[distributed_lock(key = ["a", "b"], ttl = "20s", min_hold = "800ms", pool = pool)]
async fn both(pool: &LockPool) -> Result<(), LockError> {
    Ok(())
}

async fn all_of_several_keys_stay(store: &Store) {
    let pool = store.pool().await;
    let start = Instant::now();
    both(&pool).await.expect("both are free");
    for key in ["a", "b"] {
        comes_free(store, key, start, MIN_HOLD).await;
    }
}

/// Fails if `min_hold` is counted from the grant of the first key, while the call still waits for
/// the second key.
async fn at_least_counts_from_the_last_of_several_keys(store: &Store) {
    let (pool, other) = (store.pool().await, store.pool().await);
    let in_the_way = taken(&other, "b").await;
    let all = pool.lock_all(["a", "b"]).ttl(TTL).min_hold(MIN_HOLD);
    let release = async {
        sleep(MIN_HOLD / 2).await;
        in_the_way.release().await
    };
    let takes = async {
        let guard = all.wait(HANG).acquire().await?;
        Ok::<_, LockError>((Instant::now(), guard))
    };
    let calls = async { tokio::try_join!(release, takes) };
    let calls = wait::within("both", HANG, calls).await;
    let ((), (start, guard)) = calls.expect("in turn");
    drop(guard);
    for key in ["a", "b"] {
        comes_free(store, key, start, NEARLY).await;
    }
}

/// Fails if a shared lock that `min_hold` keeps held becomes free too early, or keeps a reader out.
async fn a_share_stays_and_lets_readers_in(store: &Store) {
    let (pool, other) = (store.pool().await, store.pool().await);
    let start = Instant::now();
    let reader = request(&pool, "k").shared();
    reader.run(async {}).await.expect("it is free");
    for pool in [&pool, &other] {
        let reader = pool.lock("k").ttl(TTL).shared().acquire().await;
        reader
            .expect("readers share")
            .release()
            .await
            .expect("held");
    }
    comes_free(store, "k", start, MIN_HOLD).await;
}

async fn a_downgraded_lock_stays_as_a_share(store: &Store) {
    let pool = store.pool().await;
    let start = Instant::now();
    let mut guard = taken(&pool, "k").await;
    guard.downgrade().await.expect("it is held");
    guard.release().await.expect("it is held");
    let reader = pool.lock("k").ttl(TTL).shared().acquire().await;
    reader
        .expect("readers share")
        .release()
        .await
        .expect("held");
    comes_free(store, "k", start, MIN_HOLD).await;
}

/// Fails if a permit is free again before `min_hold` has passed. Also fails if the `retry_after` of
/// a refused call is longer than `min_hold`.
async fn a_permit_stays_in_use(store: &Store) {
    let (pool, other) = (store.pool().await, store.pool().await);
    let permit = |pool: &LockPool| request(pool, "k").permits(1);
    let start = Instant::now();
    let taken = permit(&pool).acquire().await.expect("it is free");
    taken.release().await.expect("it is held");
    let again = permit(&other).acquire().await;
    if start.elapsed() < MIN_HOLD {
        let left = retry_after(again);
        assert!(left <= MIN_HOLD, "{left:?}");
    } else {
        drop(again);
    }
    let waits = permit(&other).wait(HANG).acquire().await;
    drop(waits.expect("its time ends"));
    let after = start.elapsed();
    assert!(MIN_HOLD <= after, "in after {after:?}");
    assert!(after < HANG, "in after {after:?}");
}

/// Fails if, within one `min_hold`, more calls begin than there are permits.
async fn at_least_limits_the_rate_of_permits(store: &Store) {
    let pools = [store.pool().await, store.pool().await];
    let mut calls = JoinSet::new();
    for number in 0..6 {
        let request = request(&pools[number % 2], "rate").permits(2);
        calls.spawn(async move {
            let guard = request.wait(HANG).acquire().await.expect("in its turn");
            let begun = Instant::now();
            guard.release().await.expect("it is held");
            begun
        });
    }
    let mut begun = calls.join_all().await;
    begun.sort_unstable();
    for three in begun.windows(3) {
        let within = three[2] - three[0];
        assert!(NEARLY <= within, "three began within {within:?}");
    }
}
