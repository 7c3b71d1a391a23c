//! Bounded waiting for events. Tests wait for an event, instead of sleeping for a fixed time and
//! assuming that the event has happened.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use leasehold::{LockError, LockPool, LockPoolBuilder};

/// Interval between two checks of a condition.
const STEP: Duration = Duration::from_millis(2);

/// Waits until `condition` is true, for at most `limit`. Returns the elapsed time.
///
/// # Panics
///
/// Panics if the limit passes first. `what` names the missing event.
#[track_caller]
pub fn until(what: &str, limit: Duration, mut condition: impl FnMut() -> bool) -> Duration {
    match try_until(limit, &mut condition) {
        Some(took) => took,
        None => panic!("{what}: did not happen within {limit:?}"),
    }
}

/// Like [`until`], but returns `None` if the limit passes first.
pub fn try_until(limit: Duration, mut condition: impl FnMut() -> bool) -> Option<Duration> {
    let started = Instant::now();
    loop {
        if condition() {
            return Some(started.elapsed());
        }
        if started.elapsed() >= limit {
            return None;
        }
        std::thread::sleep(STEP);
    }
}

/// Like [`until`], without blocking the runtime between two checks.
///
/// # Panics
///
/// Panics if the limit passes first.
pub async fn until_async(what: &str, limit: Duration, mut condition: impl FnMut() -> bool) {
    let happened = try_until_async(limit, &mut condition).await;
    assert!(happened, "{what}: did not happen within {limit:?}");
}

/// Like [`until_async`], but returns `false` if the limit passes first.
pub async fn try_until_async(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let started = Instant::now();
    while !condition() {
        if started.elapsed() >= limit {
            return false;
        }
        tokio::time::sleep(STEP).await;
    }
    true
}

/// Runs `future`, which must end within `limit`. So a test of a call that never ends fails instead
/// of hanging.
///
/// # Panics
///
/// Panics if the limit passes first.
pub async fn within<F: Future>(what: &str, limit: Duration, future: F) -> F::Output {
    let ended = tokio::time::timeout(limit, future).await;
    ended.unwrap_or_else(|_| panic!("{what}: did not end within {limit:?}"))
}

/// Polls `future` once, so that it has started when this function returns. Tests use this function
/// to start several futures in a certain order.
///
/// # Panics
///
/// Panics if the future ends at this poll.
pub async fn started<F: Future>(future: F) -> Pin<Box<F>> {
    let mut future = Box::pin(future);
    poll_fn(|context| {
        assert!(future.as_mut().poll(context).is_pending(), "it waits");
        Poll::Ready(())
    })
    .await;
    future
}

/// Connects, and retries for half a minute, because an attempt may exceed a short timeout on a busy
/// machine.
///
/// # Panics
///
/// Panics if no attempt succeeds.
pub async fn connected(builder: LockPoolBuilder) -> LockPool {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        match builder.clone().connect().await {
            Ok(pool) => return pool,
            Err(error) if Instant::now() > end => panic!("{error}"),
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

/// Repeats a call with a short ttl, for at most half a minute, until its body begins in time. On a
/// busy machine, the lease may end before the body begins (`Lost`). The next attempts may then find
/// the key still locked (`Contended`), and are repeated, too.
///
/// # Errors
///
/// Returns any error except this `Lost` and this `Contended`. After half a minute, returns these
/// errors, too.
pub async fn begun<T>(call: impl AsyncFn() -> Result<T, LockError>) -> Result<T, LockError> {
    let (end, mut lost) = (Instant::now() + Duration::from_secs(30), false);
    loop {
        match call().await {
            Err(LockError::Lost { .. }) if Instant::now() < end => lost = true,
            Err(LockError::Contended { .. }) if lost && Instant::now() < end => {}
            ended => return ended,
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
