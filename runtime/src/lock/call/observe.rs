//! Detects `replay` calls that got a kept result instead of running their body.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;

thread_local! {
    /// True if a call got a kept result during the current poll of the innermost `watch_replays`.
    static REPLAYED: Cell<bool> = const { Cell::new(false) };
}

/// Records that a call got a kept result.
pub(crate) fn replayed() {
    // `try_with` fails only while the thread ends, and such a thread polls no future of
    // `watch_replays`.
    let _ = REPLAYED.try_with(|replayed| replayed.set(true));
}

/// Runs `future`. Also returns true if a call in it got a kept result instead of running its body.
///
/// This covers calls of [`LockRequest::run_replayed`](crate::LockRequest::run_replayed) and of
/// functions with `replay`. It does not cover tasks that the future spawns. Use it for the response
/// header `Idempotency-Replayed`, in logs, or in tests.
///
/// Cancel safe if `future` is.
///
/// ```
/// # use leasehold::LockError;
/// # use std::time::Duration;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), LockError> {
/// # let pool = leasehold::LockPool::connect("memory://").await?;
/// let order = || {
///     let day = Duration::from_secs(24 * 60 * 60);
///     let request = pool.lock("order:42").ttl(Duration::from_secs(10));
///     request.run_replayed(day, async { Ok::<_, LockError>(7) })
/// };
/// assert_eq!(leasehold::watch_replays(order()).await, (Ok(Ok(7)), false));
/// assert_eq!(leasehold::watch_replays(order()).await, (Ok(Ok(7)), true));
/// # Ok(()) }
/// ```
///
/// # Panics
///
/// If `future` panics.
pub async fn watch_replays<F: Future>(future: F) -> (F::Output, bool) {
    let mut future = pin!(future);
    let mut replayed = false;
    let output = poll_fn(|cx| {
        let _watch = Watch::begin();
        let polled = future.as_mut().poll(cx);
        replayed |= Watch::saw();
        polled
    });
    let output = output.await;
    (output, replayed)
}

/// One poll of the future of a `watch_replays`. When the poll ends, the flag `REPLAYED` of the
/// enclosing `watch_replays` is restored, or set if a call in this poll got a kept result.
struct Watch {
    outer: bool,
}

impl Watch {
    fn begin() -> Self {
        let outer = REPLAYED.try_with(|replayed| replayed.replace(false));
        Self {
            outer: outer.unwrap_or(false),
        }
    }

    fn saw() -> bool {
        REPLAYED.try_with(Cell::get).unwrap_or(false)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let seen = self.outer || Self::saw();
        let _ = REPLAYED.try_with(|replayed| replayed.set(seen));
    }
}
