//! Tests of leases on tokio's paused clock, with an engine on the test's own runtime. Hours pass in
//! milliseconds, and every deadline is exact to the millisecond.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use leasehold::{LockError, LockPool, distributed_lock};
use tokio::time::{Instant, sleep};

const SECOND: Duration = Duration::from_secs(1);

/// Tolerance for the runtime's timers, which have a resolution of a millisecond and round up.
const TICK: Duration = Duration::from_millis(2);

async fn pool() -> LockPool {
    LockPool::builder()
        .url("memory://")
        .on_current_runtime()
        .connect()
        .await
        .expect("the memory store connects")
}

fn assert_close(actual: Duration, expected: Duration) {
    assert!(
        expected <= actual && actual <= expected + TICK,
        "{actual:?} instead of {expected:?}"
    );
}

/// Fails unless the body without a watchdog is dropped at the signal time `S`: `ttl/20` before the
/// deadline, which is `ttl/100 + 2 ms` before the end of the ttl.
#[tokio::test(start_paused = true)]
async fn a_body_without_a_watchdog_is_dropped_at_the_soft_end() {
    let pool = pool().await;
    let start = Instant::now();
    let ended = pool.lock("k").ttl(10 * SECOND).run(pending::<()>()).await;
    assert!(matches!(ended, Err(LockError::Lost { .. })), "{ended:?}");
    assert_close(start.elapsed(), Duration::from_millis(9_398));
}

/// Two nested calls of one body exclude each other. Fails if the second call does not stop waiting
/// for the first at the end of its own `wait`.
#[tokio::test(start_paused = true)]
async fn a_wait_for_a_turn_ends_with_the_budget() {
    let pool = pool().await;
    let request = || pool.lock("k").ttl(10 * SECOND).watchdog().reentrant();
    let outer = request().run(async {
        let first = request().run(sleep(3_600 * SECOND));
        let start = Instant::now();
        let second = async {
            let ended = request().wait(1_800 * SECOND).acquire().await;
            assert!(
                matches!(ended, Err(LockError::TimedOut { .. })),
                "{ended:?}"
            );
            assert_close(start.elapsed(), 1_800 * SECOND);
        };
        let (first, ()) = tokio::join!(first, second);
        first
    });
    outer.await.expect("free").expect("it enters");
}

/// Fails if the watchdog misses one of thousands of renewals.
#[tokio::test(start_paused = true)]
async fn a_watchdog_keeps_the_lock_for_hours() {
    let pool = pool().await;
    let request = pool.lock("k").ttl(SECOND).watchdog();
    let ended = request.run(sleep(3 * 3600 * SECOND)).await;
    assert!(ended.is_ok(), "{ended:?}");
}

/// Fails if `max_hold` is ignored, or if it is counted from a renewal.
#[tokio::test(start_paused = true)]
async fn max_hold_ends_a_healthy_lock() {
    let pool = pool().await;
    let start = Instant::now();
    let request = pool
        .lock("k")
        .ttl(2 * SECOND)
        .watchdog()
        .max_hold(60 * SECOND);
    let ended = request.run(pending::<()>()).await;
    assert!(matches!(ended, Err(LockError::Lost { .. })), "{ended:?}");
    assert_close(start.elapsed(), 60 * SECOND);
    let again = pool.lock("k").ttl(SECOND).acquire().await;
    assert!(again.is_ok(), "the lock was not released: {again:?}");
}

/// Fails if `remaining` does not count down, or if `lost` does not return at the signal time `S`.
#[tokio::test(start_paused = true)]
async fn a_guard_counts_down_and_reports_the_loss() {
    let pool = pool().await;
    let start = Instant::now();
    let guard = pool.lock("k").ttl(10 * SECOND).acquire().await.unwrap();
    assert_eq!(guard.remaining(), Duration::from_millis(9_898));
    sleep(4 * SECOND).await;
    assert_eq!(guard.remaining(), Duration::from_millis(5_898));
    guard.check().unwrap();
    guard.lost().await;
    assert_close(start.elapsed(), Duration::from_millis(9_398));
    assert_eq!(guard.remaining(), Duration::ZERO);
    assert!(matches!(guard.check(), Err(LockError::Lost { .. })));
    assert!(matches!(guard.release().await, Err(LockError::Lost { .. })));
}

/// Fails if waiting calls do not get the lock in the order in which they began to wait.
#[tokio::test(start_paused = true)]
async fn waiters_are_served_in_their_order() {
    let pool = pool().await;
    let turn = Arc::new(AtomicUsize::new(0));
    let guard = pool.lock("k").ttl(10 * SECOND).acquire().await.unwrap();
    let mut waiters = Vec::new();
    for place in 0..20 {
        let request = pool.lock("k").ttl(10 * SECOND).wait(60 * SECOND);
        let turn = Arc::clone(&turn);
        waiters.push(tokio::spawn(request.run(async move {
            assert_eq!(turn.fetch_add(1, Ordering::Relaxed), place);
            sleep(SECOND).await;
        })));
        // On this runtime, the new task runs during this yield. So the tasks request the lock in
        // the order of their numbers.
        tokio::task::yield_now().await;
    }
    drop(guard);
    for waiter in waiters {
        waiter.await.unwrap().unwrap();
    }
    assert_eq!(turn.load(Ordering::Relaxed), 20);
}

/// Fails if a call does not stop waiting exactly at its time limit.
#[tokio::test(start_paused = true)]
async fn waiting_ends_with_its_budget() {
    let pool = pool().await;
    let _guard = pool.lock("k").ttl(600 * SECOND).acquire().await.unwrap();
    let start = Instant::now();
    let error = pool
        .lock("k")
        .ttl(SECOND)
        .wait(3 * SECOND)
        .acquire()
        .await
        .unwrap_err();
    assert_close(start.elapsed(), 3 * SECOND);
    let LockError::TimedOut { waited, .. } = error else {
        panic!("{error:?}");
    };
    assert_close(waited, 3 * SECOND);
}

#[distributed_lock(key = "job", ttl = "1s", on_lost = "continue", guard = lock)]
async fn runs_on() -> Result<bool, LockError> {
    lock.check()?;
    sleep(5 * SECOND).await;
    Ok(lock.check().is_err())
}

/// Fails if `on_lost = "continue"` drops the body, or if the body's handle does not report the
/// loss.
#[tokio::test(start_paused = true)]
async fn on_lost_continue_lets_the_body_check_for_the_loss() {
    let pool = pool().await;
    let received = pool.scope(runs_on()).await.unwrap();
    assert!(received, "the handle still called the lease healthy");
}

/// Fails if a watchdog stops renewing its lock when the time limit of a shutdown is over.
#[tokio::test(start_paused = true)]
async fn a_watchdog_outlasts_the_limit_of_a_shutdown() {
    let pool = pool().await;
    let request = pool.lock("k").ttl(10 * SECOND).watchdog();
    let guard = request.acquire().await.unwrap();
    let report = pool.shutdown(SECOND).await;
    assert_eq!(report.still_held, 1, "{report:?}");
    sleep(3_600 * SECOND).await;
    guard.check().unwrap();
    guard.release().await.unwrap();
}

/// Fails if a lock still counts as held after the runtime of its engine was dropped.
#[test]
fn an_engine_ends_with_its_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let (pool, guard) = runtime.block_on(async {
        let pool = pool().await;
        let guard = pool.lock("k").ttl(60 * SECOND).acquire().await.unwrap();
        (pool, guard)
    });
    drop(runtime);
    assert!(guard.check().is_err());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let error = runtime
        .block_on(pool.lock("other").ttl(SECOND).acquire())
        .unwrap_err();
    assert!(error.to_string().contains("connect a new pool"), "{error}");
}
