//! Tests of `is_held` and `assert_held!`, which check that code runs inside its lock. Both belong
//! to the production API instead of the testing kit.

use std::future::poll_fn;
use std::panic::catch_unwind;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use leasehold::testing::{Kit, Point};
use leasehold::{LockError, LockPool, assert_held, distributed_lock, is_held};
use tokio::sync::Notify;
use tokio::time::sleep;

use super::{is_lost, request, secs};

/// Returns true if the lock `account:7` is held here. Represents code in another module of a
/// service, which gets no argument from the locked function.
fn book() -> bool {
    is_held("account:7")
}

/// Calls `book` through `levels` nested async calls, each with a boxed future.
fn deep(levels: u32) -> std::pin::Pin<Box<dyn Future<Output = bool> + Send>> {
    Box::pin(async move {
        tokio::task::yield_now().await;
        if levels == 0 {
            book()
        } else {
            deep(levels - 1).await
        }
    })
}

#[distributed_lock(key = "account:<id>", ttl = "10s")]
async fn withdraw(id: u64) -> Result<bool, LockError> {
    Ok(book())
}

#[distributed_lock(key = "account:<id>", ttl = "10s", reentrant)]
async fn charge_fee(id: u64) -> Result<bool, LockError> {
    Ok(deep(3).await)
}

/// Fails if `is_held` returns false in a function that a lock's body calls, at any depth. Also
/// fails if it returns true outside of the body, or for another key.
#[tokio::test(start_paused = true)]
async fn the_lock_is_held_on_the_whole_call_path() {
    let kit = Kit::new();
    assert!(!is_held("account:7"));
    assert_eq!(kit.scope(withdraw(7)).await, Ok(true));
    assert_eq!(kit.scope(withdraw(8)).await, Ok(false), "another account");
    assert!(!is_held("account:7"));
    let body = kit.pool().lock("account:7").ttl(secs(10)).run(async {
        let at_once = book();
        sleep(secs(1)).await;
        let (one, two) = tokio::join!(deep(0), deep(5));
        let selected = tokio::select! { held = deep(2) => held };
        let nested = kit.scope(charge_fee(7)).await;
        (at_once, one, two, selected, nested)
    });
    assert_eq!(body.await, Ok((true, true, true, true, Ok(true))));
}

/// Fails if `is_held` returns true outside of the lock's body: in another task, in a task of
/// `tokio::spawn`, or while a guard has the lock.
#[tokio::test(start_paused = true)]
async fn the_lock_is_not_held_outside_of_its_body() {
    let kit = Kit::new();
    let inside = Arc::new(Notify::new());
    let reported = Arc::clone(&inside);
    let call = tokio::spawn(kit.pool().lock("account:7").ttl(secs(10)).run(async move {
        reported.notify_one();
        sleep(secs(1)).await;
        book()
    }));
    inside.notified().await;
    assert!(!book(), "this task has no lock");
    assert_eq!(call.await.expect("no panic"), Ok(true));

    let outside = kit
        .pool()
        .lock("account:7")
        .ttl(secs(10))
        .run(async { tokio::spawn(async { book() }).await.expect("no panic") });
    assert_eq!(outside.await, Ok(false), "a plain task leaves the path");
    let guard = kit.pool().lock("account:7").ttl(secs(10)).acquire().await;
    assert!(!book(), "a guard has no body");
    drop(guard);
}

/// A body starts tasks with `leasehold::spawn`. Fails if a task does not count as inside the body's
/// lock, or still counts after the release. Also fails if a task can acquire the held lock again.
#[tokio::test(start_paused = true)]
async fn a_task_sees_the_lock_of_its_caller_while_it_lasts() {
    let kit = Kit::new();
    let go_on = Arc::new(Notify::new());
    let reported = Arc::clone(&go_on);
    let body = async {
        let in_task = leasehold::spawn(async {
            let in_tasks_task = leasehold::spawn(async { book() });
            (book(), in_tasks_task.await.expect("no panic"))
        });
        let later = leasehold::spawn(async move {
            reported.notified().await;
            book()
        });
        let entered = leasehold::spawn(charge_fee(7)).await.expect("no panic");
        (in_task.await.expect("no panic"), later, entered)
    };
    let body = kit.pool().lock("account:7").ttl(secs(10)).run(body);
    let (held, later, entered) = kit.scope(body).await.expect("it is free");
    assert_eq!(held, (true, true));
    assert!(entered.is_err_and(|error| error.is_contention()));
    go_on.notify_one();
    assert!(!later.await.expect("no panic"), "the lock is released");
}

/// A body continues after the loss of its lease. Fails if the lock still counts as held in the rest
/// of the body, or in a task of the body.
#[tokio::test(start_paused = true)]
async fn a_lost_lock_is_not_held() {
    #[distributed_lock(key = "account:<id>", ttl = "10s", on_lost = "continue")]
    async fn goes_on(id: u64) -> Result<[bool; 3], LockError> {
        assert_ne!(id, 0);
        let before = book();
        let task = leasehold::spawn(async {
            sleep(secs(2)).await;
            book()
        });
        sleep(secs(1)).await;
        Ok([before, book(), task.await.expect("no panic")])
    }

    let kit = Kit::new();
    kit.lose_when("account:7", Point::AfterPolls(1));
    assert_eq!(kit.scope(goes_on(7)).await, Ok([true, false, false]));

    // The lease can also end within one poll, while the body blocks its thread. On a busy machine,
    // the lease may end before the body begins, so the test may need several attempts.
    let pool = LockPool::connect("memory://").await.expect("it opens");
    let seen = loop {
        let body = poll_fn(|_| {
            let before = book();
            std::thread::sleep(Duration::from_millis(150));
            Poll::Ready((before, book()))
        });
        let lock = pool
            .lock("account:7")
            .ttl(Duration::from_millis(100))
            .wait(secs(20));
        if let Ok(seen @ (true, _)) = lock.run(body).await {
            break seen;
        }
    };
    assert_eq!(seen, (true, false));
}

/// Fails if a detached body counts as outside its own lock, or as outside the lock of the enclosing
/// call.
#[tokio::test(start_paused = true)]
async fn a_detached_body_is_inside_of_its_lock() {
    let kit = Kit::new();
    let pool = kit.pool();
    let body = kit.pool().lock("account:7").ttl(secs(10)).run(async move {
        let inner = pool.lock("order:42").ttl(secs(10));
        inner
            .run_detached(async { (is_held("order:42"), book()) })
            .await
    });
    assert_eq!(body.await, Ok(Ok((true, true))));
}

/// Fails if a shared lock, a permit or one of several locks does not count as held.
#[tokio::test(start_paused = true)]
async fn every_kind_of_lock_counts_as_held() {
    let kit = Kit::new();
    let lock = || kit.pool().lock("account:7").ttl(secs(10));
    assert_eq!(lock().shared().run(async { book() }).await, Ok(true));
    assert_eq!(lock().permits(2).run(async { book() }).await, Ok(true));
    let both = kit
        .pool()
        .lock_all(["account:8", "account:7"])
        .ttl(secs(10));
    let seen = both.run(async { (book(), is_held("account:8"), is_held("account:9")) });
    assert_eq!(seen.await, Ok((true, true, false)));
}

/// Fails if a pool reports another pool's lock as held.
#[tokio::test(start_paused = true)]
async fn a_pool_reports_only_its_own_locks_as_held() {
    let (one, two) = (Kit::new().pool(), Kit::new().pool());
    let seen = one.lock("account:7").ttl(secs(10)).run(async {
        (
            one.is_held("account:7"),
            two.is_held("account:7"),
            book(),
            one.is_held("account:8"),
        )
    });
    assert_eq!(seen.await, Ok((true, false, true, false)));
    assert!(!one.is_held("account:7"));
}

fn text_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .expect("a text")
}

/// Fails if `assert_held!` passes outside of the lock, or if its message does not explain why the
/// lock is not held there.
#[tokio::test(start_paused = true)]
async fn the_assertion_explains_the_position_of_the_code() {
    fn panic_text(check: impl FnOnce() + std::panic::UnwindSafe) -> String {
        text_of(&*catch_unwind(check).expect_err("it is not held"))
    }

    let kit = Kit::new();
    let outside = panic_text(|| assert_held!("account:7"));
    assert!(
        outside.contains("the lock `account:7` is not held here"),
        "{outside}"
    );
    assert!(outside.contains("leasehold::spawn"), "{outside}");
    let in_another = request(&kit)
        .run(async { panic_text(|| assert_held!("account:7")) })
        .await;
    let in_another = in_another.expect("it is free");
    assert!(
        in_another.contains("this call path holds `order:42`"),
        "{in_another}"
    );
    let with_text = panic_text(|| assert_held!("account:7", "booking {}", 7));
    assert!(
        with_text.starts_with("booking 7: the lock `account:7`"),
        "{with_text}"
    );

    let inside = kit.pool().lock("account:7").ttl(secs(10)).run(async {
        assert_held!("account:7");
        assert_held!(format!("account:{}", 7));
        assert_held!(String::from("account:7"), "with a text");
    });
    assert_eq!(inside.await, Ok(()));
}

/// Fails if the message of `assert_held!` does not report that the lease is over.
#[tokio::test(start_paused = true)]
async fn the_assertion_reports_a_lost_lock() {
    #[distributed_lock(key = "account:<id>", ttl = "10s", on_lost = "continue")]
    async fn goes_on(id: u64) -> Result<String, LockError> {
        sleep(secs(1)).await;
        let panic = catch_unwind(|| assert_held!(format!("account:{id}")));
        Ok(text_of(&*panic.expect_err("it is lost")))
    }

    let kit = Kit::new();
    kit.lose_when("account:7", Point::AfterPolls(1));
    let text = kit.scope(goes_on(7)).await.expect("it goes on");
    assert!(text.contains("its lease is over"), "{text}");
}

/// A body is dropped because its lease was lost. Fails if the lock still counts as held during the
/// drop.
#[tokio::test(start_paused = true)]
async fn a_body_is_dropped_outside_of_its_lost_lock() {
    struct Asks(Arc<std::sync::Mutex<Option<bool>>>);
    impl Drop for Asks {
        fn drop(&mut self) {
            *self.0.lock().expect("no panic") = Some(book());
        }
    }

    let (kit, seen) = (Kit::new(), Arc::default());
    kit.lose_when("account:7", Point::AfterPolls(1));
    let asks = Asks(Arc::clone(&seen));
    let body = kit.pool().lock("account:7").ttl(secs(10)).run(async move {
        sleep(secs(1)).await;
        drop(asks);
    });
    assert!(is_lost(&body.await));
    assert_eq!(*seen.lock().expect("no panic"), Some(false));
}
