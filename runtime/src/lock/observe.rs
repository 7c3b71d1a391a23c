//! Whether a call got a kept result instead of running its body.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;

thread_local! {
    /// Whether a call has got a kept result since the innermost future that watches was polled.
    static REPLAYED: Cell<bool> = const { Cell::new(false) };
}

/// A call got a kept result.
pub(crate) fn replayed() {
    // A thread that is being torn down has no future that watches.
    let _ = REPLAYED.try_with(|replayed| replayed.set(true));
}

/// Runs `future`. Says whether a call that it made got a kept result instead of running its body.
///
/// A call is one of [`LockRequest::run_replayed`](crate::LockRequest::run_replayed), or of a
/// function with `replay`. What the future spawns is not seen. For the header
/// `Idempotency-Replayed` of a response, for a log, for a test.
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

/// One poll of a future that watches. What it saw counts for the future around it, too.
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
