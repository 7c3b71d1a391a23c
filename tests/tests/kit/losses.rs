//! Tests of locks lost at a point that the test chooses.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;
use std::time::Duration;

use leasehold::testing::{EventKind, Kit, Point};
use leasehold::{LockError, distributed_lock};
use leasehold_tests::wait;
use tokio::time::{Instant, sleep};

use super::{is_contended, is_lost, request, secs};

/// Counts its own polls. After each poll, a timer of one millisecond wakes it for the next one.
async fn polls(count: &Cell<u32>) {
    loop {
        let mut sleep = Box::pin(sleep(Duration::from_millis(1)));
        poll_fn(|cx| {
            if sleep.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            count.set(count.get() + 1);
            Poll::Pending
        })
        .await;
    }
}

/// Fails if the loss comes one poll early or late. Also fails if a body begins although it should
/// lose its lock before its first poll.
#[tokio::test(start_paused = true)]
async fn a_body_is_polled_exactly_as_often_as_set() {
    for expected in 0..5 {
        let (kit, count) = (Kit::new(), Cell::new(0));
        kit.lose_when("order:42", Point::AfterPolls(expected));
        let ended = request(&kit).run(polls(&count)).await;
        assert!(is_lost(&ended), "{ended:?}");
        assert_eq!(count.get(), expected);
        assert_eq!(kit.history().losses(), 1, "{}", kit.history());
    }
}

#[distributed_lock(key = "order:42", ttl = "10s")]
fn runs_to_its_end(count: &AtomicU32) -> Result<u32, LockError> {
    Ok(count.fetch_add(1, Ordering::SeqCst) + 1)
}

/// Fails if the kit cannot take away the lock of a blocking body before the body begins, or while
/// it runs.
#[tokio::test(start_paused = true)]
async fn a_blocking_body_loses_its_lock() {
    for (after, ran) in [(0, 0), (1, 1)] {
        let (kit, count) = (Kit::new(), Arc::new(AtomicU32::new(0)));
        kit.lose_when("order:42", Point::AfterPolls(after));
        let (pool, counts) = (kit.pool(), Arc::clone(&count));
        let call = move || pool.scope_blocking(|| runs_to_its_end(&counts));
        let ended = tokio::task::spawn_blocking(call).await.expect("no panic");
        assert!(is_lost(&ended), "{ended:?}");
        assert_eq!(count.load(Ordering::SeqCst), ran);
        assert_eq!(kit.history().losses(), 1, "{}", kit.history());
    }
}

/// Fails if a body that wakes itself in each poll is polled again after the kit has taken its lock
/// away.
#[tokio::test(start_paused = true)]
async fn a_busy_body_is_polled_exactly_as_often_as_set() {
    let (kit, mut count) = (Kit::new(), 0);
    kit.lose_when("order:42", Point::AfterPolls(3));
    let body = poll_fn(|cx| {
        count += 1;
        cx.waker().wake_by_ref();
        Poll::<()>::Pending
    });
    assert!(is_lost(&request(&kit).run(body).await));
    assert_eq!(count, 3);
}

/// Fails if a loss wakes the task once more than necessary. The next body of the task would then be
/// polled once too often.
#[tokio::test(start_paused = true)]
async fn a_loss_adds_no_poll_to_the_next_body() {
    for expected in [2, 1, 2, 3] {
        let (kit, count) = (Kit::new(), Cell::new(0));
        kit.lose_when("order:42", Point::AfterPolls(expected));
        assert!(is_lost(&request(&kit).run(polls(&count)).await));
        let last = kit.history().iter().last().map(|event| event.at);
        let millis = Duration::from_millis(u64::from(expected) - 1);
        assert_eq!(
            last,
            Some(millis),
            "one poll each millisecond: {}",
            kit.history()
        );
    }
}

/// Fails if a body is not polled exactly as often as set, with several worker threads and in real
/// time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_on_several_threads_is_polled_exactly_as_set() {
    for _ in 0..50 {
        let kit = Kit::new();
        kit.lose_when("order:42", Point::AfterPolls(3));
        let request = request(&kit);
        let task = tokio::spawn(async move {
            let mut count = 0;
            let body = poll_fn(|cx| {
                count += 1;
                cx.waker().wake_by_ref();
                Poll::<()>::Pending
            });
            let ended = request.run(body).await;
            (ended, count)
        });
        let (ended, count) = task.await.expect("no panic");
        assert!(is_lost(&ended), "{ended:?}");
        assert_eq!(count, 3);
    }
}

/// The kit takes the lock away after two polls, but the first bodies end in their second poll.
/// Fails if these bodies lose the lock, or if a later body with a third poll keeps it.
#[tokio::test(start_paused = true)]
async fn a_body_that_ends_before_its_loss_succeeds() {
    let kit = Kit::new();
    kit.lose_when("order:42", Point::AfterPolls(2));
    let two = || tokio::task::yield_now();
    assert_eq!(request(&kit).run(two()).await, Ok(()));
    assert_eq!(request(&kit).run(two()).await, Ok(()));
    let three = async || {
        tokio::task::yield_now().await;
        sleep(secs(1)).await;
    };
    assert!(is_lost(&request(&kit).run(three()).await));
    let again = request(&kit).run(three()).await;
    assert_eq!(again, Ok(()), "a loss happens once");
}

/// Fails if the store still has the lock after its holder has lost it.
#[tokio::test(start_paused = true)]
async fn a_lost_lock_is_free_in_the_store() {
    let kit = Kit::new();
    kit.lose_when("order:42", Point::After(secs(2)));
    let guard = request(&kit).acquire().await.expect("it is free");
    let refused = kit.pool().lock("order:42").ttl(secs(10)).acquire().await;
    assert!(is_contended(&refused));
    wait::within("the loss", secs(100), guard.lost()).await;
    let other = kit.hold("order:42").await;
    assert!(guard.fence() < other.fence());
    assert!(kit.history().is_exclusive(), "{}", kit.history());
}

/// Fails if a loss by time does not come exactly the given time after the grant. The test sets the
/// loss before the grant, after the grant, and when the given time is already over.
#[tokio::test(start_paused = true)]
async fn a_loss_by_time_is_counted_from_the_grant() {
    let kit = Kit::new();
    kit.lose_when("order:42", Point::After(secs(25)));
    let begun = Instant::now();
    let guard = request(&kit)
        .watchdog()
        .acquire()
        .await
        .expect("it is free");
    wait::within("the loss", secs(100), guard.lost()).await;
    let after = begun.elapsed();
    assert!(
        secs(25) <= after && after < secs(25) + Duration::from_millis(2),
        "{after:?}"
    );
    drop(guard);

    let begun = Instant::now();
    let guard = request(&kit)
        .watchdog()
        .acquire()
        .await
        .expect("it is free");
    sleep(secs(4)).await;
    kit.lose_when("order:42", Point::After(secs(5)));
    wait::within("the loss", secs(100), guard.lost()).await;
    let after = begun.elapsed();
    assert!(
        secs(5) <= after && after < secs(5) + Duration::from_millis(2),
        "{after:?}"
    );
    drop(guard);

    let guard = request(&kit)
        .watchdog()
        .acquire()
        .await
        .expect("it is free");
    sleep(secs(9)).await;
    kit.lose_when("order:42", Point::After(secs(5)));
    let begun = Instant::now();
    wait::within("the loss", secs(100), guard.lost()).await;
    assert!(
        begun.elapsed() < Duration::from_millis(2),
        "its time was over"
    );
}

/// Fails if a renewal succeeds after the store has lost the lock, or if another lock is also lost.
#[tokio::test(start_paused = true)]
async fn a_loss_can_happen_at_the_next_renewal() {
    let kit = Kit::new();
    let lock = |key| kit.pool().lock(key).ttl(secs(9)).watchdog().acquire();
    let (guard, other) = (lock("order:42").await, lock("order:43").await);
    let (guard, other) = (guard.expect("it is free"), other.expect("it is free"));
    sleep(secs(4)).await;
    assert_eq!(
        kit.history().of("order:42").renewals(),
        1,
        "{}",
        kit.history()
    );
    kit.lose_when("order:42", Point::NextRenewal);
    let begun = Instant::now();
    wait::within("the loss", secs(100), guard.lost()).await;
    assert!(
        begun.elapsed() <= secs(2),
        "at the renewal after six seconds"
    );
    assert!(other.check().is_ok());
}

/// Fails if a loss just before the release changes the result of a finished body. Also fails if the
/// release of a guard does not report such a loss.
#[tokio::test(start_paused = true)]
async fn a_loss_before_the_release_keeps_the_result() {
    let kit = Kit::new();
    kit.lose_when("order:42", Point::BeforeRelease);
    assert_eq!(request(&kit).run(async { 7 }).await, Ok(7));
    let last = kit.history().iter().last().map(|event| event.kind.clone());
    assert_eq!(last, Some(EventKind::GoneAtRelease));

    kit.lose_when("order:42", Point::BeforeRelease);
    let guard = request(&kit).acquire().await.expect("it is free");
    assert!(is_lost(&guard.release().await));
    assert!(request(&kit).acquire().await.is_ok(), "and is over");
}

/// A body loses its lock before its end. Fails if the removal of this lock counts as its release,
/// so that a planned loss before a release does not happen to the next call.
#[tokio::test(start_paused = true)]
async fn the_removal_of_a_lost_lock_is_no_release() {
    let kit = Kit::new();
    kit.lose_when("order:42", Point::AfterPolls(1));
    kit.lose_when("order:42", Point::BeforeRelease);
    let ended = request(&kit).run(polls(&Cell::new(0))).await;
    assert!(is_lost(&ended), "{ended:?}");
    let guard = request(&kit).acquire().await.expect("it is free");
    assert!(is_lost(&guard.release().await));
}

/// Fails if a loss affects another key, another kit or another holder of the same kit.
#[tokio::test(start_paused = true)]
async fn a_loss_affects_one_lock() {
    let (kit, twin) = (Kit::new(), Kit::new());
    let other = kit.hold("order:42").await;
    kit.lose_when("order:42", Point::After(secs(1)));
    let body = || async { sleep(secs(3)).await };
    let key = |kit: &Kit, key: &str| kit.pool().lock(key).ttl(secs(10)).run(body());
    assert_eq!(key(&kit, "order:43").await, Ok(()));
    assert_eq!(key(&twin, "order:42").await, Ok(()));
    assert!(
        is_contended(&key(&kit, "order:42").await),
        "the other holder has it still"
    );
    other.release().await;
    assert!(is_lost(&key(&kit, "order:42").await));
}

/// Fails if the loss of one lock does not end all locks of its call.
#[tokio::test(start_paused = true)]
async fn a_call_with_several_locks_loses_all() {
    #[distributed_lock(key = ["account:<from>", "account:<to>"], ttl = "10s")]
    async fn transfer(from: u64, to: u64, steps: &RefCell<Vec<&str>>) -> Result<(), LockError> {
        steps.borrow_mut().push("taken");
        sleep(secs(1)).await;
        steps.borrow_mut().push("given");
        Ok(())
    }

    let (kit, steps) = (Kit::new(), RefCell::default());
    kit.lose_when("account:2", Point::AfterPolls(1));
    let ended = kit.scope(transfer(1, 2, &steps)).await;
    assert!(is_lost(&ended), "{ended:?}");
    assert_eq!(steps.take(), ["taken"]);
    let both = kit
        .pool()
        .lock_all(["account:1", "account:2"])
        .ttl(secs(10))
        .acquire()
        .await;
    assert!(both.is_ok(), "both are free");
}

/// Fails if a body with `on_lost = "continue"` is dropped, or cannot detect the loss by `check`.
#[tokio::test(start_paused = true)]
async fn a_continuing_body_is_notified_of_the_loss() {
    #[distributed_lock(key = "order:<id>", ttl = "10s", guard = lock, on_lost = "continue")]
    async fn goes_on(id: u64) -> Result<bool, LockError> {
        sleep(secs(1)).await;
        assert_ne!(id, 0);
        Ok(lock.check().is_err())
    }

    let kit = Kit::new();
    kit.lose_when("order:42", Point::AfterPolls(1));
    assert_eq!(kit.scope(goes_on(42)).await, Ok(true));
}

/// Fails if only one of two calls with a shared lock loses the lock, or if the store still has it.
#[tokio::test(start_paused = true)]
async fn shares_are_lost_with_their_key() {
    let kit = Kit::new();
    let share = || request(&kit).shared().acquire();
    let (one, two) = (share().await.expect("free"), share().await.expect("shared"));
    let other = kit.hold("order:42").shared().await;
    kit.lose_when("order:42", Point::After(secs(1)));
    sleep(secs(2)).await;
    assert!(one.check().is_err() && two.check().is_err());
    other.release().await;
    assert!(request(&kit).acquire().await.is_ok(), "no share is left");
}
