//! Tests of `retry_after`. A refused call usually gets the mean hold time of the lock. The rest of
//! the holder's lease does not predict the release, because a watchdog renews the lease.

use std::time::{Duration, Instant};

use leasehold::{Fairness, LockError, LockGuard, LockPool, LockRequest, distributed_lock};
use leasehold_tests::stores::Store;
use leasehold_tests::variant;
use leasehold_tests::wait;
use leasehold_tests::{on_etcd, on_every_store_of_leases};
use tokio::time::sleep;

const TTL: Duration = Duration::from_secs(20);
/// Minimum duration of the body of `create`.
const WORK: Duration = Duration::from_millis(120);
/// Shortest `retry_after` of a refused call.
const LEAST: Duration = Duration::from_millis(10);
/// The `retry_after` for a lock with a watchdog, if no hold time of the function is known.
const UNKNOWN: Duration = Duration::from_secs(1);

type Result<T = ()> = std::result::Result<T, LockError>;

#[distributed_lock(key = "order:<id>", ttl = "20s", watchdog, pool = pool)]
async fn create(pool: &LockPool, id: u64) -> Result {
    sleep(WORK).await;
    Ok(())
}

#[distributed_lock(key = "order:<id>", ttl = "20s", watchdog, pool = pool)]
async fn cancel(pool: &LockPool, id: u64) -> Result {
    Ok(())
}

#[distributed_lock(key = "order:<id>", ttl = "20s", pool = pool)]
async fn look_at(pool: &LockPool, id: u64) -> Result {
    Ok(())
}

#[track_caller]
fn retry_after(refused: Result) -> Duration {
    let error = refused.expect_err("the lock is held");
    assert!(error.is_contention(), "{error}");
    error.retry_after().expect("it is estimated")
}

/// Returns the duration of a call that gets its lock.
async fn timed(call: impl Future<Output = Result>) -> Duration {
    let started = Instant::now();
    call.await.expect("free");
    started.elapsed()
}

async fn hold(request: LockRequest) -> LockGuard {
    let request = request.ttl(TTL).watchdog();
    request.acquire().await.expect("free")
}

/// Waits until the key is free. On a busy machine, a call may return before the store has executed
/// its release.
async fn is_free(store: &Store, key: &str) {
    wait::until_async(key, TTL / 2, || !store.probe.exists(key)).await;
}

/// Fails if the `retry_after` of a refused call is the rest of a renewed lease, or the mean hold
/// time of another function or pool.
async fn estimates_are_separate_for_each_function(store: &Store) {
    let (pool, other) = (store.pool().await, store.pool().await);
    let held = hold(other.lock("order:1")).await;
    assert_eq!(retry_after(create(&pool, 1).await), UNKNOWN);
    let left = retry_after(look_at(&pool, 1).await);
    assert!(left > TTL / 2 && left <= TTL, "{left:?}");
    held.release().await.expect("held");
    is_free(store, "order:1").await;

    let creates = timed(create(&pool, 1)).await;
    is_free(store, "order:1").await;
    let cancels = timed(cancel(&pool, 1)).await;
    is_free(store, "order:1").await;
    let held = hold(other.lock("order:1")).await;
    let retry_create = retry_after(create(&pool, 1).await);
    assert!(
        WORK <= retry_create && retry_create <= creates,
        "{retry_create:?} of {creates:?}"
    );
    let retry_cancel = retry_after(cancel(&pool, 1).await);
    assert!(
        retry_cancel <= cancels.max(LEAST),
        "{retry_cancel:?} of {cancels:?}"
    );
    held.release().await.expect("held");
    is_free(store, "order:1").await;

    // The other pool has never held a lock of `create`, so it has no mean hold time of this
    // function.
    let held = hold(pool.lock("order:1")).await;
    assert_eq!(retry_after(create(&other, 1).await), UNKNOWN);
    held.release().await.expect("held");
}

/// The builder calls in `long` and `short` are two places in the code, each with its own mean hold
/// time. Fails if `retry_after` is not the mean of the place that took the held lock.
async fn the_estimate_uses_the_function_of_the_holder(store: &Store) {
    let pool = store.pool().await;
    let long = || pool.lock("order:2");
    let short = || pool.lock("order:2");
    let started = Instant::now();
    let guard = hold(long()).await;
    sleep(WORK).await;
    guard.release().await.expect("held");
    let took = started.elapsed();
    is_free(store, "order:2").await;
    timed(create(&pool, 3)).await;

    let held = hold(long()).await;
    let of_long = retry_after(cancel(&pool, 2).await);
    assert!(
        WORK <= of_long && of_long <= took,
        "{of_long:?} of {took:?}"
    );
    held.release().await.expect("held");
    is_free(store, "order:2").await;

    let started = Instant::now();
    hold(short()).await.release().await.expect("held");
    let took = started.elapsed();
    is_free(store, "order:2").await;
    let held = hold(short()).await;
    let of_short = retry_after(create(&pool, 2).await);
    assert!(of_short <= took.max(LEAST), "{of_short:?} of {took:?}");
    held.release().await.expect("held");
}

on_every_store_of_leases! {
    estimates_are_separate_for_each_function,
    the_estimate_uses_the_function_of_the_holder,
}

// Only this test runs on etcd. The other one needs the remaining lease of a holder, which etcd does
// not report.
on_etcd! {
    the_estimate_uses_the_function_of_the_holder,
}

async fn hinted(hint: Duration) -> Result<LockPool> {
    let pool = LockPool::builder().url("memory://refusals-hint");
    let fairness = Fairness::default().max_waiters(1).retry_hint(hint);
    pool.fairness(fairness).connect().await
}

/// Fails if a call refused because of other calls does not get the fixed `retry_after` of the pool.
/// Such a call finds the lock held or the queue full, or its wait ends.
#[tokio::test]
async fn all_refused_calls_get_the_fixed_hint() {
    let hint = Duration::from_millis(2_500);
    let pool = hinted(hint).await.expect("a possible hint");
    let held = hold(pool.lock("k")).await;
    let request = |wait| pool.lock("k").ttl(TTL).wait(Duration::from_millis(wait));
    let contended = request(0).acquire().await.map(drop);
    let (timed_out, full) = tokio::join!(request(100).acquire(), request(100).acquire());
    held.release().await.expect("held");
    let outer = pool.lock("k").ttl(TTL).run(async {
        let inner = || pool.lock("k").ttl(TTL).reentrant();
        let first = inner().run(async {
            // During this yield, the other branch requests the lock. It is refused, because this
            // branch is inside.
            tokio::task::yield_now().await;
        });
        let second = inner().wait(Duration::ZERO).acquire();
        let (first, second) = tokio::join!(first, second);
        first.expect("it enters");
        second.map(drop)
    });
    let nested = outer.await.expect("free");
    let refusals = [
        ("Contended", contended),
        ("TimedOut", timed_out.map(drop)),
        ("QueueFull", full.map(drop)),
        ("Contended", nested),
    ];
    for (variant, refused) in refusals {
        let error = refused.as_ref().expect_err("it is held");
        assert_eq!(variant::of(error), variant);
        assert_eq!(retry_after(refused), hint, "{variant}");
    }
}

/// Fails if the pool accepts a fixed `retry_after` of zero or of more than a day, or refuses one
/// within these bounds.
#[tokio::test]
async fn a_retry_after_hint_has_bounds() {
    let day = Duration::from_secs(24 * 60 * 60);
    for hint in [Duration::ZERO, day + Duration::from_millis(1)] {
        let error = hinted(hint).await.expect_err("not possible");
        assert!(error.to_string().contains("`retry_hint`"), "{error}");
    }
    for hint in [Duration::from_millis(1), day] {
        hinted(hint).await.expect("possible");
    }
}
