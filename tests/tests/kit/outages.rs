//! Tests of outages and delays of the kit's store.

use std::time::Duration;

use leasehold::LockError;
use leasehold::testing::{EventKind, Kit};
use tokio::time::{Instant, sleep};

use super::{is_contended, is_lost, request, secs};

fn is_unavailable<T>(result: &Result<T, LockError>) -> bool {
    matches!(result, Err(LockError::Unavailable { .. }))
}

/// Fails if a request succeeds while the store is down, or if no request succeeds after the store
/// is up again.
#[tokio::test(start_paused = true)]
async fn no_request_succeeds_while_the_store_is_down() {
    let kit = Kit::new();
    kit.store_down();
    let ended = request(&kit)
        .run(async { panic!("the body runs without the lock") })
        .await;
    let error = ended.expect_err("the store is down");
    assert!(error.is_unavailable(), "{error}");
    let other = kit.hold("order:42").await; // its separate connection is up, and the lock is free
    other.release().await;
    kit.store_up();
    assert_eq!(request(&kit).run(async { 7 }).await, Ok(7));
    assert_eq!(kit.history().refusals(), 1, "{}", kit.history());
}

/// Fails if an inspection, a check or a forced release succeeds while the store is down.
#[tokio::test(start_paused = true)]
async fn no_inspection_succeeds_while_the_store_is_down() {
    let kit = Kit::new();
    let pool = kit.pool();
    let held = request(&kit).acquire().await.expect("it is free");
    kit.store_down();
    assert!(is_unavailable(&pool.inspect("order:42").await));
    assert!(is_unavailable(&pool.force_release("order:42").await));
    assert!(is_unavailable(&pool.check().await));
    let listed = pool.locks("*").next().await.expect("an error");
    assert!(is_unavailable(&listed));
    kit.store_up();
    assert!(pool.check().await.is_ok() && held.check().is_ok());
}

/// Fails if a call without `wait` waits for a store that is known to be away. Also fails if a
/// waiting call does not get the lock after the store is up again.
#[tokio::test(start_paused = true)]
async fn calls_continue_when_the_store_is_back() {
    let kit = Kit::new();
    kit.store_down();
    let begun = Instant::now();
    assert!(is_unavailable(&request(&kit).acquire().await));
    let after = begun.elapsed();
    assert!(after < Duration::from_millis(2), "{after:?}");

    let waits = tokio::spawn(request(&kit).wait(secs(30)).acquire());
    sleep(secs(10)).await;
    kit.store_up();
    let begun = Instant::now();
    let guard = waits.await.expect("no panic").expect("the store is back");
    assert!(
        begun.elapsed() < Duration::from_millis(2),
        "{:?}",
        begun.elapsed()
    );
    drop(guard);
}

/// Fails if a lock survives an outage longer than its lease, or is lost in a shorter outage.
#[tokio::test(start_paused = true)]
async fn a_held_lock_lives_until_its_lease_ends() {
    for (outage, lives) in [(secs(4), true), (secs(11), false)] {
        let kit = Kit::new();
        let guard = request(&kit)
            .watchdog()
            .acquire()
            .await
            .expect("it is free");
        kit.store_down();
        sleep(outage).await;
        kit.store_up();
        sleep(secs(20)).await;
        assert_eq!(
            guard.check().is_ok(),
            lives,
            "{outage:?}: {}",
            kit.history()
        );
        let held = kit.history().losses() == 0;
        assert_eq!(held, lives, "{}", kit.history());
    }
}

/// The store goes down while an answer is under way. Fails if the answer still arrives, or if the
/// lock that it has granted stays held.
#[tokio::test(start_paused = true)]
async fn answers_in_flight_are_lost() {
    let kit = Kit::new();
    kit.delay(Duration::from_millis(500));
    let call = tokio::spawn(request(&kit).acquire());
    sleep(Duration::from_millis(100)).await; // the store has executed the request
    kit.store_down();
    assert!(is_unavailable(&call.await.expect("no panic")));
    kit.store_up();
    kit.delay(Duration::ZERO);
    sleep(secs(5)).await; // the engine removes what the request has set
    let other = kit.hold("order:42").await;
    drop(other);
}

/// Fails if an answer comes earlier or later than the delay. Also fails if the lease counts from
/// the answer instead of from the request.
#[tokio::test(start_paused = true)]
async fn answers_are_delayed_exactly() {
    let kit = Kit::new();
    for millis in [0, 1, 250, 999] {
        let delay = Duration::from_millis(millis);
        kit.delay(delay);
        let begun = Instant::now();
        let guard = request(&kit).acquire().await.expect("it is slow, and free");
        let after = begun.elapsed();
        assert!(
            delay <= after && after <= delay + Duration::from_millis(1),
            "{after:?}"
        );
        let kept = secs(10).saturating_sub(guard.remaining());
        assert!(
            delay <= kept,
            "the lease is counted from the request: {kept:?}"
        );
        kit.delay(Duration::ZERO);
        guard.release().await.expect("it lasts");
    }
}

/// An answer comes after the time-out of its request. Fails if the answer counts, or if the lock
/// that the request has taken is not removed.
#[tokio::test(start_paused = true)]
async fn an_answer_after_the_timeout_does_not_count() {
    let kit = Kit::new();
    kit.delay(Duration::from_millis(1_500));
    assert!(is_unavailable(&request(&kit).acquire().await));
    assert_eq!(kit.history().grants(), 0, "{}", kit.history());
    sleep(secs(5)).await;
    let other = kit.hold("order:42").await;
    assert!(
        is_unavailable(&request(&kit).acquire().await),
        "it receives too late that it is held"
    );
    drop(other);
}

/// Fails if a lease survives renewals that take longer than the lease.
#[tokio::test(start_paused = true)]
async fn a_slow_store_costs_the_lease() {
    let kit = Kit::new();
    let lock = kit.pool().lock("order:42").ttl(secs(1)).watchdog();
    let ended = lock.run(async {
        kit.delay(secs(2));
        sleep(secs(30)).await;
    });
    assert!(is_lost(&ended.await));
    assert!(kit.history().is_exclusive(), "{}", kit.history());
    let lost = kit
        .history()
        .iter()
        .find(|event| event.kind == EventKind::Lost)
        .map(|event| event.at);
    assert!(lost.is_some_and(|at| at < secs(1)), "{lost:?}");
}

/// Fails if two calls have a lock at the same time because the store is slow.
#[tokio::test(start_paused = true)]
async fn a_slow_store_still_excludes() {
    let kit = Kit::new();
    kit.delay(Duration::from_millis(300));
    let first = tokio::spawn(request(&kit).acquire());
    sleep(Duration::from_millis(400)).await;
    let second = request(&kit).acquire().await;
    assert!(is_contended(&second), "{second:?}");
    drop(first.await);
    assert!(kit.history().is_exclusive(), "{}", kit.history());
}
