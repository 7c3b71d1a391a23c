//! Tests that a body runs to its `Ok` only once, and that every later call gets the same result.

use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use leasehold::{LockError, LockPool, watch_replays};
use leasehold_tests::rerun::fails_with;
use leasehold_tests::stores::Store;
use leasehold_tests::wait;
use leasehold_tests::{on_every_store_of_leases, on_stores};

use super::{DAY, End, HANG, OrderError, Shop, TTL, click, click_by_hand, order, patient_click};
use crate::bodies::is_released;

/// Fails if a later click runs the body, gets another result, or is not reported as a replay.
async fn a_later_click_gets_the_first_result(store: &Store) {
    let (pool, other) = (store.pool().await, store.pool().await);
    let shop = Shop::new();
    let asked = Instant::now();
    let first = watch_replays(click(&pool, &shop, End::Paid)).await;
    assert_eq!(first, (Ok(order(1)), false));
    is_released(&*store.probe, "order", asked).await;
    for pool in [&pool, &other, &pool] {
        let later = watch_replays(click(pool, &shop, End::Declined)).await;
        assert_eq!(later, (Ok(order(1)), true));
    }
    assert_eq!(shop.bodies(), 1);
    assert!(!store.probe.exists("order"), "the lock itself is free");
}

/// Fails if a click during the body of the first click is not refused.
async fn a_concurrent_click_is_refused(store: &Store) {
    let (pool, other) = (store.pool().await, store.pool().await);
    let shop = Shop::slow();
    let first = click(&pool, &shop, End::Paid);
    let second = async {
        shop.begun.notified().await;
        for pool in [&pool, &other] {
            let refused = click(pool, &shop, End::Paid).await;
            let contended = |error: &LockError| matches!(error, LockError::Contended { .. });
            assert!(
                matches!(&refused, Err(OrderError::Lock(error)) if contended(error)),
                "{refused:?}"
            );
        }
        shop.go_on();
    };
    let (first, ()) = tokio::join!(first, second);
    assert_eq!(first, Ok(order(1)));
    assert_eq!(shop.bodies(), 1);
}

/// Fails if a waiting click runs the body, in the same process or in another process.
async fn a_waiting_click_gets_the_result(store: &Store) {
    let (pool, other) = (store.pool().await, store.pool().await);
    let shop = Shop::slow();
    let clicks = [&pool, &pool, &other, &pool, &other, &other, &pool, &other];
    let all = join_all(clicks.map(|pool| patient_click(pool, &shop)));
    let waiting = async {
        // `join_all` has polled every click by now, so each click has requested the lock.
        shop.begun.notified().await;
        shop.go_on();
    };
    let both = async { tokio::join!(all, waiting) };
    let (all, ()) = wait::within("all clicks", HANG, both).await;
    for answer in all {
        assert_eq!(answer, Ok(order(1)));
    }
    assert_eq!(shop.bodies(), 1);
}

/// Fails if any result except `Ok` is kept.
async fn the_next_click_after_a_failure_runs(store: &Store) {
    let pool = store.pool().await;
    let shop = Shop::new();
    let asked = Instant::now();
    let declined = click(&pool, &shop, End::Declined).await;
    assert_eq!(declined, Err(OrderError::Declined));
    is_released(&*store.probe, "order", asked).await;
    let asked = Instant::now();
    let panics = AssertUnwindSafe(click(&pool, &shop, End::Panics)).catch_unwind();
    assert!(panics.await.is_err());
    is_released(&*store.probe, "order", asked).await;
    // Consumes the notification left from the earlier bodies.
    shop.begun.notified().await;
    tokio::select! {
        ended = click(&pool, &shop, End::Hangs) => panic!("{ended:?}"),
        () = shop.begun.notified() => {}
    }
    // The dropped call releases its lock in the background, so the next click waits.
    let fourth = wait::within("the next click", HANG, patient_click(&pool, &shop)).await;
    assert_eq!(fourth, Ok(order(4)));
    assert_eq!(click(&pool, &shop, End::Declined).await, Ok(order(4)));
}

/// Fails if a result is kept although the lease of its body has ended.
async fn a_lost_lock_keeps_nothing(store: &Store) {
    let (pool, other) = (store.pool().await, store.pool().await);
    let shop = Shop::new();
    let short = Duration::from_millis(300);
    let request = || pool.lock("order").ttl(short).wait(HANG);
    // The body blocks its thread beyond the end of the lease in its last poll. So it returns its
    // result before it can be dropped.
    let body = async || {
        let paid = shop.order(End::Paid).await;
        std::thread::sleep(3 * short);
        paid
    };
    // On a busy machine, a short lease may end before its body begins.
    let late = async {
        loop {
            let late = request().run_replayed(DAY, body()).await;
            if 0 < shop.bodies() {
                return late;
            }
        }
    };
    let late = wait::within("the body", HANG, late).await;
    assert!(
        matches!(late, Ok(Ok(_)) | Err(LockError::Lost { .. })),
        "{late:?}"
    );
    assert_eq!(click_by_hand(&other, &shop).await, Ok(order(2)));
}

/// Number of rounds of the next test. A round tests nothing if the store reserves no fence for the
/// second waiting call: the process then cannot pass the lock to this call.
const ROUNDS: u32 = 20;

/// A call without `replay` and then a `replay` call wait in one process. Fails if a kept result
/// prevents the first of them from getting the lock. Also fails if the process then passes the lock
/// to the `replay` call, which must get the kept result instead.
async fn calls_without_replay_ignore_the_result(store: &Store) {
    let (pool, other) = (store.pool().await, store.pool().await);
    let shop = Shop::new();
    click(&pool, &shop, End::Paid).await.expect("the first");
    let request = |pool: &LockPool| pool.lock("order").ttl(TTL).wait(HANG);
    for _ in 0..ROUNDS {
        let holder = request(&other).acquire().await.expect("free");
        // Both calls wait before the release, so that the store reserves a fence for the second
        // call when it grants the lock to the first. If the request of the second call arrives too
        // late, no fence is reserved, and the round tests nothing.
        let plain = wait::started(request(&pool).acquire()).await;
        let waiting = wait::started(patient_click(&pool, &shop)).await;
        holder.release().await.expect("still held");
        let plain = async { plain.await.expect("its turn").release().await };
        let both = async { tokio::join!(plain, waiting) };
        let (plain, waiting) = wait::within("both", HANG, both).await;
        plain.expect("still held");
        assert_eq!(waiting, Ok(order(1)), "handed the lock inside the process");
        assert_eq!(shop.bodies(), 1);
    }
}

/// The caller of a detached `replay` call is dropped while the body runs. Fails if the result of
/// this body is lost, so that the next call runs the body again.
async fn a_detached_body_keeps_its_result(store: &Store) {
    let pool = store.pool().await;
    let shop = Shop::slow();
    let click = || {
        let (pool, shop) = (pool.clone(), std::sync::Arc::clone(&shop));
        super::requests::detached_click(pool, shop)
    };
    let mut caller = Box::pin(click());
    tokio::select! {
        _ = &mut caller => panic!("the body waits"),
        () = shop.begun.notified() => {}
    }
    drop(caller);
    shop.go_on();
    let second = wait::within("the result", HANG, click()).await;
    assert_eq!(second, Ok(order(1)));
    assert_eq!(shop.bodies(), 1);
}

on_every_store_of_leases!(
    a_later_click_gets_the_first_result,
    a_concurrent_click_is_refused,
    a_waiting_click_gets_the_result,
    the_next_click_after_a_failure_runs,
    a_lost_lock_keeps_nothing,
    calls_without_replay_ignore_the_result,
    a_detached_body_keeps_its_result,
);

on_stores!(sentinel cluster: (
    a_later_click_gets_the_first_result,
    a_concurrent_click_is_refused,
    a_waiting_click_gets_the_result,
    the_next_click_after_a_failure_runs,
    a_lost_lock_keeps_nothing,
));

/// Fails if the named test does not detect a seeded bug: an error is kept as if it were a result.
#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn a_kept_error_is_detected() {
    let test = "bodies::replay::once::redis::the_next_click_after_a_failure_runs";
    fails_with("RecordedAfterErr", test);
}

/// Fails if the named test does not detect a seeded bug: a result is kept although the lock was
/// lost.
#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn a_kept_result_of_a_lost_lock_is_detected() {
    let test = "bodies::replay::once::redis::a_lost_lock_keeps_nothing";
    fails_with("RecordedWithoutCheck", test);
}

/// Fails if the named test does not detect a seeded bug: the lock passes to a `replay` call that a
/// kept result would answer.
#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn a_hand_over_past_a_result_is_detected() {
    let test = "bodies::replay::once::redis::calls_without_replay_ignore_the_result";
    fails_with("ReplayHandedOver", test);
}
