//! The keeper's only timer.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant as TokioInstant, Sleep, sleep};

use crate::base::clock::{Clock, Instant};

/// Wakes the keeper's task at a set time.
pub(super) struct Timer {
    clock: Clock,
    sleep: Pin<Box<Sleep>>,
    /// Time at which the timer goes off, on the pool's clock.
    at: Instant,
}

impl Timer {
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            clock,
            sleep: Box::pin(sleep(Duration::ZERO)),
            at: Instant::ZERO,
        }
    }

    pub(super) fn at(&self) -> Instant {
        self.at
    }

    /// Sets the timer to go off after `sleep`, or earlier.
    ///
    /// `sleep` is counted on the runtime's clock, which stops while the computer is suspended. The
    /// pool's clock does not stop, so a timer that was set before the suspend can be late on the
    /// pool's clock.
    pub(super) fn set(&mut self, sleep: Duration, cx: &mut Context<'_>) -> Poll<()> {
        let now = TokioInstant::now();
        // If the timer is set to an earlier time, it stays as it is. Moving the timer would cost
        // more than its one needless wake-up.
        if now + sleep < self.sleep.deadline() || self.sleep.is_elapsed() {
            self.sleep.as_mut().reset(now + sleep);
        }
        self.at = self.clock.now() + self.sleep.deadline().saturating_duration_since(now);
        self.poll(cx)
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.sleep.as_mut().poll(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn an_earlier_time_moves_the_timer() {
        let mut timer = Timer::new(Clock::System);
        let cx = &mut Context::from_waker(Waker::noop());
        assert!(timer.poll(cx).is_ready());
        assert!(timer.set(LONG * 60 * 24, cx).is_pending());
        assert!(timer.set(LONG, cx).is_pending());
        assert_eq!(timer.sleep.deadline(), TokioInstant::now() + LONG);
    }
}
