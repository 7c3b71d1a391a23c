//! Tests of `LockPool::inspect`: one lock, in each of its states.

use std::time::{Duration, SystemTime};

use futures_util::future::{Either, select};
use leasehold::{LockError, LockInfo, LockPool, LockState};
use leasehold_tests::lateness::Excuse;
use leasehold_tests::stores::Store;
use leasehold_tests::{on_etcd, on_every_store_of_leases, on_stores, on_zookeeper};

use super::{BEYOND, HOLDER, LONG, TTL, holds, is_here, seen, shows, while_held};

/// Time for which the store reserves a released lock for the first waiting process.
const CLAIM: Duration = Duration::from_secs(1);

on_every_store_of_leases!(
    a_free_lock_is_shown_as_free,
    an_exclusive_lock_is_shown,
    the_remaining_time_is_shown,
    an_annotated_function_is_named,
    readers,
    permits,
    a_downgraded_lock_is_shown_as_shared,
    a_kept_lock_is_shown,
    waiting_processes_are_shown,
    invalid_keys_cannot_be_inspected,
);

on_etcd!(
    a_free_lock_is_shown_as_free,
    an_exclusive_lock_is_shown,
    the_remaining_time_is_shown,
    an_annotated_function_is_named,
    a_kept_lock_is_shown,
    waiting_processes_are_shown,
    invalid_keys_cannot_be_inspected,
);

on_zookeeper!(
    a_free_lock_is_shown_as_free,
    an_exclusive_lock_is_shown,
    the_remaining_time_is_shown,
    an_annotated_function_is_named,
    waiting_processes_are_shown,
    invalid_keys_cannot_be_inspected,
);

on_stores!(sentinel cluster: (
    a_free_lock_is_shown_as_free,
    an_exclusive_lock_is_shown,
    the_remaining_time_is_shown,
    an_annotated_function_is_named,
));

// `an_exclusive_lock_is_shown` is missing here, because a lock on Redlock also shows its number of
// nodes. `seeing::deployments` tests this number.
on_stores!(redlock: (
    a_free_lock_is_shown_as_free,
    the_remaining_time_is_shown,
    an_annotated_function_is_named,
));

async fn look(pool: &LockPool, key: &str) -> LockInfo {
    pool.inspect(key).await.expect("the store answers")
}

async fn a_free_lock_is_shown_as_free(store: &Store) {
    let pool = store.pool().await;
    for key in ["never", "used"] {
        let lock = seen(&pool, key, |lock| lock.state == LockState::Free).await;
        assert_eq!(lock.key, key);
        assert!(lock.holders.is_empty() && lock.waiting.is_empty());
        assert_eq!(lock.kept_until, None);
        let guard = pool.lock("used").ttl(TTL).acquire().await.expect("free");
        guard.release().await.expect("held");
    }
}

async fn an_exclusive_lock_is_shown(store: &Store) {
    let (pool, other) = (store.pool().await, store.pool().await);
    let begun = SystemTime::now();
    let guard = pool.lock("k").ttl(TTL).acquire().await.expect("free");
    // Each pool must get the same result, and an inspection must change nothing.
    for pool in [&pool, &other, &pool] {
        let lock = look(pool, "k").await;
        assert_eq!(lock.state, LockState::Exclusive);
        assert_eq!(lock.holders.len(), 1);
        shows(store, &lock.holders[0], "", begun);
        assert_eq!(lock.fence, guard.fence());
        assert_eq!(lock.holders[0].fence, guard.fence());
        assert_eq!(lock.holders[0].nodes, None);
    }
    guard.release().await.expect("held");
    seen(&other, "k", |lock| lock.state == LockState::Free).await;
}

/// Fails if the shown time is not the remaining time of the lease. It must be at most the ttl, and
/// at least the time left for the holder. It must also become shorter.
async fn the_remaining_time_is_shown(store: &Store) {
    let (pool, other) = (store.pool().await, store.pool().await);
    let has_end = !store.has_sessions() || store.reports_ends();
    // The remaining time of a session is in whole seconds, and may be longer than the ttl.
    let (rounded, beyond) = if store.has_sessions() {
        (Duration::from_secs(1), BEYOND)
    } else {
        (Duration::ZERO, Duration::ZERO)
    };
    for (key, ttl) in [("half", TTL / 2), ("whole", TTL)] {
        let guard = pool.lock(key).ttl(ttl).acquire().await.expect("free");
        let first = look(&other, key).await.holders[0].expires_in;
        let least = guard.remaining();
        assert_eq!(first.is_some(), has_end);
        if let Some(first) = first {
            assert!(least <= first + rounded, "{first:?} of at least {least:?}");
            assert!(first <= ttl + beyond, "{first:?} of {ttl:?}");
            let shorter = |left: Duration| left < first;
            let is_shorter = |lock: &LockInfo| lock.holders[0].expires_in.is_some_and(shorter);
            seen(&other, key, is_shorter).await;
        }
        guard.release().await.expect("held");
    }
}

async fn an_annotated_function_is_named(store: &Store) {
    let begun = SystemTime::now();
    while_held(store, async |pool, _| {
        let lock = look(pool, "k").await;
        shows(store, &lock.holders[0], HOLDER, begun);
    })
    .await;
}

async fn readers(store: &Store) {
    let (pool, other) = (store.pool().await, store.pool().await);
    let begun = SystemTime::now();
    let one = pool.lock("r").ttl(TTL).shared().acquire().await;
    let two = other.lock("r").ttl(TTL).shared().acquire().await;
    let (one, two) = (one.expect("free"), two.expect("beside a reader"));
    let lock = look(&other, "r").await;
    assert_eq!(lock.state, LockState::Shared);
    assert_eq!(lock.holders.len(), 2);
    for holder in &lock.holders {
        holds(holder, "", begun);
    }
    let mut fences: Vec<_> = lock.holders.iter().map(|holder| holder.fence).collect();
    fences.sort_unstable();
    assert_eq!(fences, [one.fence(), two.fence()]);
    assert_eq!(lock.fence, two.fence());
    one.release().await.expect("held");
    seen(&other, "r", |lock| lock.holders.len() == 1).await;
    two.release().await.expect("held");
    seen(&other, "r", |lock| lock.state == LockState::Free).await;
}

async fn permits(store: &Store) {
    let pool = store.pool().await;
    let begun = SystemTime::now();
    let mut held = Vec::new();
    for count in 1..=3 {
        let request = pool.lock("p").ttl(TTL).permits(3).min_hold(TTL);
        held.push(request.acquire().await.expect("there is a permit"));
        let lock = look(&pool, "p").await;
        assert_eq!(lock.state, LockState::Permits { limit: 3 });
        assert_eq!(lock.holders.len(), count);
        holds(&lock.holders[count - 1], "", begun);
    }
    for guard in held {
        guard.release().await.expect("held");
        let lock = look(&pool, "p").await;
        assert_eq!(lock.holders.len(), 3, "a permit that is kept is in use");
        let owners = lock
            .holders
            .iter()
            .filter_map(|holder| holder.owner.as_ref());
        assert_eq!(owners.count(), 3, "{lock:?}");
    }
}

async fn a_downgraded_lock_is_shown_as_shared(store: &Store) {
    let pool = store.pool().await;
    let begun = SystemTime::now();
    let mut guard = pool.lock("d").ttl(TTL).acquire().await.expect("free");
    guard.downgrade().await.expect("held");
    let lock = seen(&pool, "d", |lock| lock.state == LockState::Shared).await;
    holds(&lock.holders[0], "", begun);
    assert_eq!(lock.holders[0].fence, guard.fence());
    guard.release().await.expect("held");
}

async fn a_kept_lock_is_shown(store: &Store) {
    let pool = store.pool().await;
    let guard = pool.lock("kept").ttl(TTL).acquire().await.expect("free");
    let (fence, begun) = (guard.fence(), SystemTime::now());
    guard.release_after(TTL).await.expect("held");
    let lock = seen(&pool, "kept", |lock| lock.state == LockState::Kept).await;
    assert!(lock.holders.is_empty());
    assert_eq!(lock.fence, fence);
    let until = lock.kept_until.expect("it is known until when");
    // In etcd, the lease of a kept lock is rounded to whole seconds, so it may end later than the
    // ttl.
    let beyond = if store.has_sessions() {
        BEYOND
    } else {
        Duration::from_millis(20)
    };
    let most = SystemTime::now() + TTL + beyond;
    assert!(begun + TTL / 2 < until && until <= most, "{until:?}");
}

/// Fails if a waiting process is not shown, or if its `since` changes when it repeats its request.
async fn waiting_processes_are_shown(store: &Store) {
    let (holder, one, two) = (store.pool().await, store.pool().await, store.pool().await);
    let guard = holder.lock("w").ttl(TTL).acquire().await.expect("free");
    let (begun, excuse) = (SystemTime::now(), Excuse::begin());
    let first = tokio::spawn(one.lock("w").ttl(TTL).wait(LONG).acquire());
    let lock = seen(&holder, "w", |lock| lock.waiting.len() == 1).await;
    let since = lock.waiting[0].since;
    assert_eq!(since.is_some(), store.reports_times());
    let second = two.lock("w").ttl(TTL).wait(LONG);
    let second = if store.has_sessions() {
        second
    } else {
        second.shared()
    };
    let second = tokio::spawn(second.acquire());
    let lock = seen(&holder, "w", |lock| lock.waiting.len() == 2).await;
    assert_eq!(lock.state, LockState::Exclusive);
    for waiter in &lock.waiting {
        is_here(waiter.owner.as_ref(), "");
        if store.reports_times() {
            let since = waiter.since.expect("it is known since when");
            assert!(begun - super::ROUNDED <= since, "{since:?}");
        }
    }
    // After this sleep, the first process has repeated its request.
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    let lock = seen(&holder, "w", |lock| lock.waiting.len() == 2).await;
    // If a process repeats its request seconds too late, it loses its place in the queue. It then
    // gets a new place with a new `since`.
    let kept = excuse.so_far() < CLAIM;
    let again = lock.waiting[0].since.filter(|_| kept);
    if let (Some(since), Some(again)) = (since, again) {
        let apart = again.max(since).duration_since(again.min(since));
        assert!(
            apart.is_ok_and(|apart| apart < super::ROUNDED),
            "it waits since then"
        );
    }
    guard.release().await.expect("held");
    let served = select(first, second).await;
    let in_order = matches!(served, Either::Left(_));
    assert!(
        in_order || CLAIM < excuse.so_far(),
        "the first is passed over"
    );
    let (served, other) = served.into_inner();
    let served = served.expect("no panic").expect("its turn comes");
    let lock = seen(&holder, "w", |lock| lock.waiting.len() == 1).await;
    assert!(lock.state == LockState::Exclusive || !in_order, "{lock:?}");
    served.release().await.expect("held");
    let other = other.await.expect("no panic").expect("its turn comes");
    seen(&holder, "w", |lock| lock.waiting.is_empty()).await;
    other.release().await.expect("held");
}

async fn invalid_keys_cannot_be_inspected(store: &Store) {
    let pool = store.pool().await;
    for key in ["", "%leasehold:fence", &"k".repeat(513)] {
        for error in [
            pool.inspect(key).await.expect_err("no lock"),
            pool.force_release(key).await.expect_err("no lock"),
        ] {
            assert!(matches!(error, LockError::InvalidKey { .. }), "{error}");
        }
    }
}
