//! Tests of `LockPool::locks`: the locks that match a pattern.

use std::collections::BTreeSet;
use std::time::Duration;

use leasehold::{LockGuard, LockPool, LockState};
use leasehold_tests::stores::Store;
use leasehold_tests::{on_etcd, on_every_store_of_leases, on_stores, on_zookeeper};

use super::seen;

/// A ttl longer than any of these tests, which hold hundreds of locks.
const TTL: Duration = Duration::from_secs(60);

on_every_store_of_leases!(
    only_matching_locks_are_listed,
    a_list_of_several_pages_is_complete,
    a_list_can_be_empty,
    a_slowly_read_list_skips_released_locks,
);

on_etcd!(
    only_matching_locks_are_listed,
    a_list_of_several_pages_is_complete,
    a_list_can_be_empty,
    a_slowly_read_list_skips_released_locks,
);

on_zookeeper!(
    only_matching_locks_are_listed,
    a_list_of_several_pages_is_complete,
    a_list_can_be_empty,
    a_slowly_read_list_skips_released_locks,
);

on_stores!(sentinel cluster redlock: (
    only_matching_locks_are_listed,
    a_list_of_several_pages_is_complete,
));

/// A key that sorts after all other keys.
const LAST: &str = "\u{10ffff}\u{10ffff}";

async fn take(pool: &LockPool, key: &str) -> LockGuard {
    let guard = pool.lock(key).ttl(TTL).acquire().await;
    guard.unwrap_or_else(|error| panic!("{key}: {error}"))
}

async fn keys(pool: &LockPool, pattern: &str) -> Vec<String> {
    let (mut locks, mut keys) = (pool.locks(pattern), Vec::new());
    while let Some(lock) = locks.next().await {
        let lock = lock.expect("the store answers");
        assert!(lock.is_taken(), "{lock:?}");
        keys.push(lock.key);
    }
    keys.sort_unstable();
    keys
}

async fn only_matching_locks_are_listed(store: &Store) {
    let pool = store.pool().await;
    let names = [
        "order:1",
        "order:22",
        "order:1*",
        "ordér:1",
        "[a]",
        "cart:1",
        r"back\slash",
        "100%",
        LAST,
    ];
    let mut held = Vec::new();
    for name in names {
        held.push(take(&pool, name).await);
    }
    for (pattern, expected) in [
        (LAST, vec![LAST]),
        ("order:*", vec!["order:1", "order:1*", "order:22"]),
        ("order:?", vec!["order:1"]),
        ("ord?r:1", vec!["order:1", "ordér:1"]),
        (r"order:1\*", vec!["order:1*"]),
        ("[a]", vec!["[a]"]),
        ("*:1", vec!["cart:1", "order:1", "ordér:1"]),
        (r"back\\slash", vec![r"back\slash"]),
        ("100%", vec!["100%"]),
        ("order", vec![]),
        ("", vec![]),
    ] {
        assert_eq!(keys(&pool, pattern).await, expected, "{pattern}");
    }
    let mut all: Vec<String> = names.map(str::to_owned).to_vec();
    all.sort_unstable();
    assert_eq!(keys(&pool, "*").await, all);
}

/// Fails if a lock at the end of a page of the list is missing, or if the list does not end.
async fn a_list_of_several_pages_is_complete(store: &Store) {
    let pool = store.pool().await;
    let mut held = Vec::new();
    for number in 0..700 {
        held.push(take(&pool, &format!("many:{number}")).await);
    }
    let other = pool.lock("many:shared").ttl(TTL);
    // Stores with sessions and Redlock have no shared locks.
    let is_exclusive = store.has_sessions() || !store.has_queue();
    let other = if is_exclusive { other } else { other.shared() };
    let other = other.acquire().await.expect("free");
    let found: BTreeSet<String> = keys(&pool, "many:*").await.into_iter().collect();
    assert_eq!(found.len(), 701);
    drop((held, other));
}

async fn a_list_can_be_empty(store: &Store) {
    let pool = store.pool().await;
    assert_eq!(keys(&pool, "*").await, Vec::<String>::new());
    let guard = take(&pool, "gone").await;
    guard.release().await.expect("held");
    seen(&pool, "gone", |lock| !lock.is_taken()).await;
    assert_eq!(keys(&pool, "*").await, Vec::<String>::new());
}

/// Fails if a slowly read list ends early, or contains free locks.
async fn a_slowly_read_list_skips_released_locks(store: &Store) {
    let pool = store.pool().await;
    let mut held = Vec::new();
    for number in 0..500 {
        held.push(take(&pool, &format!("slow:{number}")).await);
    }
    let stays = take(&pool, "slow:stays").await;
    let (mut locks, mut found) = (pool.locks("slow:*"), BTreeSet::new());
    while let Some(lock) = locks.next().await {
        let lock = lock.expect("the store answers");
        assert_ne!(lock.state, LockState::Free);
        found.insert(lock.key);
        if let Some(guard) = held.pop() {
            guard.release().await.expect("held");
        }
    }
    assert!(found.contains("slow:stays"), "{} found", found.len());
    stays.release().await.expect("held");
}
