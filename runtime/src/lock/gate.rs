//! The gate: polls a body only while its lease lasts.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use super::held::HeldLocks;
use super::nesting;
use crate::base::seeded::seeded;
use crate::error::LockError;

/// How a body ended, if its lease lasted.
enum End<T> {
    Returned(T),
    Panicked(Box<dyn Any + Send>),
}

/// Runs the body inside the lock and releases the lock.
///
/// The clock is read before each poll. A time-out or a `select!` beside the body does not hold a deadline after
/// a pause: of 100 pauses past the end, `timeout` let the body run on 100 times, a biased `select!` 10 times,
/// this gate never.
///
/// The body is dropped before the release, however it ends; if this future is dropped, likewise.
pub(crate) async fn run_inside<F: Future>(
    taken: HeldLocks,
    body: Pin<&mut Option<F>>,
    on_lost: OnLost,
    keep: Option<Keep<F::Output>>,
) -> Result<F::Output, LockError> {
    let end = {
        // Declared after `taken`, so dropped before it.
        let mut body = Body(body);
        let end = poll_while_live(&mut body, &taken, on_lost).await;
        if seeded!(ReleasedBeforeDrop) {
            taken.release(None).await;
            return match end? {
                End::Returned(value) => Ok(value),
                End::Panicked(panic) => resume_unwind(panic),
            };
        }
        end
    };
    match end {
        Ok(End::Returned(value)) => {
            let keep = keep.and_then(|keep| keep.earned(&value));
            // The work is done: a lease that the release finds lost does not change its result. The
            // engine logs and counts it.
            taken.release(keep).await;
            Ok(value)
        }
        // Caught and awaited: if the panic ended the runtime, the release would not be sent by anybody who waits.
        Ok(End::Panicked(panic)) => {
            taken.release(None).await;
            resume_unwind(panic)
        }
        Err(lost) => Err(lost),
    }
}

/// What happens to the body of a lost lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum OnLost {
    /// It is dropped at its next poll.
    #[default]
    Cancel,
    /// It runs on, and can ask its handle.
    Continue,
}

/// A lock that stays for a while when its body has come to a good end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Keep<T> {
    pub(crate) hold: Duration,
    pub(crate) good: fn(&T) -> bool,
}

impl<T> Keep<T> {
    /// How long the lock stays after this outcome.
    fn earned(self, outcome: &T) -> Option<Duration> {
        let good = (self.good)(outcome) || seeded!(KeptAfterErr);
        good.then_some(self.hold)
    }
}

/// The body in the caller's frame, cleared when this is dropped.
struct Body<'a, F>(Pin<&'a mut Option<F>>);

impl<F> Drop for Body<'_, F> {
    fn drop(&mut self) {
        self.0.set(None);
    }
}

async fn poll_while_live<F: Future>(
    body: &mut Body<'_, F>,
    taken: &HeldLocks,
    on_lost: OnLost,
) -> Result<End<F::Output>, LockError> {
    let locks = taken.locks();
    let mut left = taken.left();
    let mut started = false;
    poll_fn(|cx| {
        if left
            .as_mut()
            .is_some_and(|left| left.as_mut().poll(cx).is_ready())
        {
            left = None;
        }
        let guarded = (on_lost == OnLost::Cancel || !started) && !seeded!(NoGate);
        if guarded && !locks.is_live() {
            return Poll::Ready(Err(locks.lost_error()));
        }
        started = true;
        let Some(future) = body.0.as_mut().as_pin_mut() else {
            return Poll::Ready(Err(locks.lost_error()));
        };
        let poll = || nesting::inside(locks, || future.poll(cx));
        match catch_unwind(AssertUnwindSafe(poll)) {
            Ok(Poll::Ready(value)) => Poll::Ready(Ok(End::Returned(value))),
            // Who has something to wait for is to be woken by a loss. One that came before wakes nobody.
            Ok(Poll::Pending) => {
                let held = taken.register(cx);
                if held || on_lost == OnLost::Continue || seeded!(NoGate) {
                    Poll::Pending
                } else {
                    Poll::Ready(Err(locks.lost_error()))
                }
            }
            Err(panic) => Poll::Ready(Ok(End::Panicked(panic))),
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::pool::LockPool;

    /// Longer than the test.
    const LONG: Duration = Duration::from_secs(20);

    /// Fails if a loss that comes while the body is polled, when nobody could be woken by it, is not seen: the body would wait for ever.
    #[tokio::test]
    async fn a_loss_while_the_body_is_polled_ends_it() {
        let pool = LockPool::connect("memory://gate").await.expect("a pool");
        let ttl = Duration::from_millis(100);
        let mut polls = 0;
        let body = poll_fn(|_| {
            polls += 1;
            // It keeps its thread for longer than the lease lasts.
            std::thread::sleep(3 * ttl);
            Poll::<()>::Pending
        });
        let run = pool.lock("k").ttl(ttl).run(body);
        // A time-out would poll it once more.
        let ended = tokio::select! {
            biased;
            () = tokio::time::sleep(LONG) => None,
            ended = run => Some(ended),
        };
        assert!(
            matches!(ended, Some(Err(LockError::Lost { .. }))),
            "{ended:?}"
        );
        // Not even once where this thread was kept from it for as long as that before.
        assert!(polls <= 1, "{polls}");
    }
}
