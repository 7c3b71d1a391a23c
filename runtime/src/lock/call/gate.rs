//! The gate: polls a body only while its lease lasts.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::thread;

use super::body::Body;
use crate::base::seeded::seeded;
use crate::error::LockError;
use crate::lock::nest::nesting;
use crate::lock::take::held::HeldLocks;
use crate::lock::take::settings::OnLost;

/// Polls the body of a call that holds its locks.
///
/// Reads the clock just before each poll, because the process may have been suspended past the
/// deadline. A time-out or a `select!` on the deadline does not reliably prevent such a late poll.
/// In a test, the process was suspended 100 times past the end of the lease. The body continued
/// 100 times with `timeout`, 10 times with a biased `select!`, and never with this gate.
pub(crate) struct Gate {
    held: HeldLocks,
    on_lost: OnLost,
    /// True if the call drops a value that its body returns after a loss.
    late_is_lost: bool,
    /// Future that wakes this task when the lease of an entered lock is over. None if the call has
    /// not entered an enclosing call's lock, and after the future has completed.
    entered_over: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// Number of times that the body has been polled.
    polls: u32,
}

impl Gate {
    pub(crate) fn new(held: HeldLocks, on_lost: OnLost, late_is_lost: bool) -> Self {
        Self {
            entered_over: held.entered_over(),
            held,
            on_lost,
            late_is_lost,
            polls: 0,
        }
    }

    pub(crate) fn held(&self) -> &HeldLocks {
        &self.held
    }

    pub(crate) fn into_held(self) -> HeldLocks {
        self.held
    }

    /// Polls the body. Ready with `Ok(Ok(good))` when the body has returned, with `Ok(Err(_))` when
    /// it has panicked, and with `Err` when a lost lease ends the call. `good` is true if the
    /// returned value starts the `cooldown`.
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        body: &mut dyn Body,
    ) -> Poll<Result<thread::Result<bool>, LockError>> {
        if let Some(over) = &mut self.entered_over
            && over.as_mut().poll(cx).is_ready()
        {
            self.entered_over = None;
        }
        let (locks, on_lost) = (self.held.locks(), self.on_lost);
        let starts = self.polls == 0;
        if starts {
            self.held.polled(0);
        }
        let guarded = (on_lost == OnLost::Cancel || starts) && !seeded!(NoGate);
        self.polls = self.polls.saturating_add(1);
        let poll = || nesting::inside(locks, || body.poll(cx));
        // Catches a panic of the body before the span is exited. If the subscriber panicked at the
        // exit while the body's panic lasts, the process would end.
        let observed = || {
            let _entered = self.held.enter_span();
            // Checked in the span, because the subscriber may block when the span is entered.
            let live = !guarded || locks.is_live();
            live.then(|| catch_unwind(AssertUnwindSafe(poll)))
        };
        let polled = catch_unwind(AssertUnwindSafe(observed));
        match polled.unwrap_or_else(|panic| Some(Err(panic))) {
            None => Poll::Ready(Err(locks.lost_error())),
            Some(Ok(Poll::Ready(good))) => Poll::Ready(self.returned().map(|()| Ok(good))),
            // A loss after `register` wakes this task. An earlier loss may have woken no task, but
            // then `register` returns false.
            Some(Ok(Poll::Pending)) => {
                self.held.polled(self.polls);
                let live = self.held.register(cx);
                if live || on_lost == OnLost::Continue || seeded!(NoGate) {
                    Poll::Pending
                } else {
                    Poll::Ready(Err(locks.lost_error()))
                }
            }
            Some(Err(panic)) => Poll::Ready(Ok(Err(panic))),
        }
    }

    /// Returns an error if the lease was lost while the body ran, but only for two kinds of bodies.
    /// A blocking body cannot be dropped at the loss, so it has continued to its end. A leader's
    /// body may have returned because of the loss.
    fn returned(&self) -> Result<(), LockError> {
        if !self.late_is_lost || self.on_lost == OnLost::Continue || seeded!(LateValueReturned) {
            return Ok(());
        }
        self.held.polled(self.polls);
        if self.held.locks().is_live() {
            Ok(())
        } else {
            Err(self.held.locks().lost_error())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::time::Duration;

    use super::*;
    use crate::pool::LockPool;

    /// Longer than the test takes, unless it fails.
    const LONG: Duration = Duration::from_secs(20);

    /// Fails if a loss during a poll of the body is missed. Such a loss wakes no task, so the body
    /// would wait forever.
    #[tokio::test]
    async fn a_loss_during_a_poll_ends_the_body() {
        let pool = LockPool::connect("memory://gate").await.expect("a pool");
        let ttl = Duration::from_millis(100);
        let mut polls = 0;
        let body = poll_fn(|_| {
            polls += 1;
            // The body blocks its thread for longer than the lease lasts.
            std::thread::sleep(3 * ttl);
            Poll::<()>::Pending
        });
        let run = pool.lock("k").ttl(ttl).run(body);
        // Not `tokio::time::timeout`: at its end, it polls `run` again, which would hide a missed
        // loss.
        let ended = tokio::select! {
            biased;
            () = tokio::time::sleep(LONG) => None,
            ended = run => Some(ended),
        };
        assert!(
            matches!(ended, Some(Err(LockError::Lost { .. }))),
            "{ended:?}"
        );
        // One poll, or none if this thread was delayed until the lease was over.
        assert!(polls <= 1, "{polls}");
    }
}
