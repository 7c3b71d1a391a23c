//! Tests that all keys of a lock are in one slot, even if the key or the namespace contains braces.

use std::time::Duration;

use leasehold::{LockError, LockPool};
use leasehold_tests::lateness::Excuse;
use leasehold_tests::redis_probe::RedisProbe;
use leasehold_tests::wait;

use super::{IO_TIMEOUT, LONG, SHARED, TTL, connect, take};

const KEYS: [&str; 9] = [
    "plain",
    "{tag}:a",
    "{}",
    "{",
    "}",
    "}{",
    "a{b}c{d}",
    "{{x}}",
    "ü{ö}:%7B",
];
const NAMESPACES: [&str; 6] = ["braces", "", "{shop}", "{", "}a", "{}b"];

async fn pool(namespace: &str) -> LockPool {
    let pool = LockPool::builder().url(SHARED.url()).namespace(namespace);
    wait::connected(pool.io_timeout(IO_TIMEOUT)).await
}

/// Fails with CROSSSLOT if the key of the queue, of the shares or of the fence counter is in
/// another slot than the lock.
#[tokio::test(flavor = "multi_thread")]
async fn keys_with_braces_stay_in_one_slot() {
    for namespace in NAMESPACES {
        let (one, two) = (pool(namespace).await, pool(namespace).await);
        for key in KEYS {
            let held = take(&one, key).await;
            let waiting = wait::started(two.lock(key).ttl(TTL).wait(LONG).acquire()).await;
            let first = held.fence();
            held.release().await.expect("still held");
            let mut handed = waiting.await.expect("its turn");
            assert!(first < handed.fence(), "{namespace}:{key}");
            handed.downgrade().await.expect("it becomes a share");
            let other = one.lock(key).ttl(TTL).shared().acquire().await;
            other.expect("shared").release().await.expect("still held");
            handed.release().await.expect("still held");
            let permits = [&one, &two].map(|pool| pool.lock(key).ttl(TTL).permits(2));
            for permit in permits {
                // On a busy machine, the previous release may not have reached the server yet.
                let permit = permit.wait(TTL / 2).acquire().await;
                drop(permit.expect("there are two"));
            }
        }
    }
}

/// Fails if the key on the server differs from the key that other clients use with `SET NX PX`.
#[tokio::test(flavor = "multi_thread")]
async fn the_lock_key_matches_other_clients() {
    let pool = connect(&SHARED.url()).await;
    for key in ["usual", "{usual}:2"] {
        let wire = format!("lock:{key}");
        let probe: &RedisProbe = SHARED.probe_of(&wire);
        let held = take(&pool, key).await;
        let value = probe.value(&wire).expect("the key is there");
        assert_eq!(Some(value.fence), held.fence().map(leasehold::Fence::get));
        assert!(!probe.set_nx(&wire, "other", TTL), "it is held");
        held.release().await.expect("still held");
        let other_takes_it = || probe.set_nx(&wire, "other", LONG);
        wait::until_async("it is free", TTL / 2, other_takes_it).await;
        let error = pool.lock(key).ttl(TTL).acquire().await;
        let error = error.expect_err("another has it");
        assert!(matches!(error, LockError::Contended { .. }), "{error:?}");
        assert!(probe.delete(&wire));
    }
}

/// Fails if released locks leave any keys behind, except the fence counters.
#[tokio::test(flavor = "multi_thread")]
async fn locks_leave_only_fence_counters_behind() {
    const NAMESPACE: &str = "traces";
    let excuse = Excuse::begin();
    let pool = pool(NAMESPACE).await;
    for key in 0..20 {
        take(&pool, &format!("k:{key}"))
            .await
            .release()
            .await
            .expect("held");
        let share = pool.lock(format!("k:{key}")).ttl(TTL).shared();
        let share = share.wait(TTL / 2).acquire().await;
        share.expect("free").release().await.expect("held");
    }
    let left = || {
        let mut left = SHARED.keys();
        left.retain(|key| key.starts_with(NAMESPACE) && !key.ends_with(":fence"));
        left
    };
    // On a busy machine, the last releases may not have reached the server yet.
    let limit = excuse.so_far() + Duration::from_millis(500);
    let gone = wait::try_until(limit, || left().is_empty());
    assert!(gone.is_some(), "{:?}", left());
}

/// Fails if a call with several keys requires them to be in one slot. Also fails if the call does
/// not take all of these keys, or does not release all of them.
#[tokio::test(flavor = "multi_thread")]
async fn several_keys_may_be_in_several_slots() {
    let pool = connect(&SHARED.url()).await;
    let keys = ["several:c", "several:a", "several:b"];
    let held = pool.lock_all(keys).ttl(TTL).acquire().await.expect("free");
    for key in keys {
        assert!(held.fence_of(key).is_some());
        let error = pool.lock(key).ttl(TTL).acquire().await;
        assert!(error.expect_err("it is held").is_contention());
    }
    held.release().await.expect("held");
    for key in keys {
        let free = pool.lock(key).ttl(TTL).wait(TTL / 2).acquire().await;
        free.expect("it is free").release().await.expect("held");
    }
}
