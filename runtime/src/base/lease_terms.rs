//! The arithmetic of a lease. Pure: spans and points in time, no clock.
//!
//! A lease is counted from `sent`, the moment just before its request was handed to the transport: the
//! server starts the key's ttl later than that, so ours ends first. The server's clock may run 1 % fast
//! against ours and its ttl is rounded to milliseconds: that is what `drift` allows for.

use std::time::Duration;

use super::clock::Instant;
use crate::error::LockError;

pub(crate) const MIN_TTL: Duration = Duration::from_millis(100);
pub(crate) const MAX_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// The shortest time between renewals; more often would only load the store.
const MIN_INTERVAL: Duration = Duration::from_millis(10);

/// The longest that one renewal or release may take before it is tried again.
const MAX_ATTEMPT: Duration = Duration::from_secs(1);

/// How long a lock stays after its holder is done, or what is wrong with that.
pub(crate) fn check_hold(hold: Duration) -> Result<Duration, LockError> {
    if (Duration::from_millis(1)..=MAX_TTL).contains(&hold) {
        return Ok(hold);
    }
    Err(LockError::config(format!(
        "a `hold` of {hold:?} is not possible; choose one from 1 ms to 24 h, or leave it out for none"
    )))
}

/// A ttl and what follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Terms {
    /// The ttl in nanoseconds: for each renewal it is divided several times.
    nanos: u64,
}

const MILLI: u64 = 1_000_000;

impl Terms {
    /// The terms of `ttl`, or what is wrong with it.
    pub(crate) fn new(ttl: Duration) -> Result<Self, LockError> {
        if (MIN_TTL..=MAX_TTL).contains(&ttl) {
            let nanos = u64::try_from(ttl.as_nanos()).unwrap_or(u64::MAX);
            return Ok(Self { nanos });
        }
        Err(LockError::config(format!(
            "a ttl of {ttl:?} is not possible; choose one from 100 ms to 24 h, longer than the work usually takes"
        )))
    }

    pub(crate) fn ttl(self) -> Duration {
        Duration::from_nanos(self.nanos)
    }

    /// How much earlier than the server we let a lease end, in nanoseconds.
    fn drift(self) -> u64 {
        self.nanos / 100 + 2 * MILLI
    }

    /// The time between giving up and the end, in which the body is told and dropped.
    fn margin(self) -> Duration {
        let margin = (self.nanos / 20).max(50 * MILLI).min(self.nanos / 4);
        Duration::from_nanos(margin)
    }

    /// The end of a lease confirmed by a request sent at `sent`: at and after it the body is not polled.
    pub(crate) fn hard(self, sent: Instant) -> Instant {
        sent + Duration::from_nanos(self.nanos.saturating_sub(self.drift()))
    }

    /// When to give up on renewing and tell the body.
    pub(crate) fn soft(self, sent: Instant) -> Instant {
        self.hard(sent) - self.margin()
    }

    /// The default time between renewals.
    pub(crate) fn interval(self) -> Duration {
        self.ttl() / 3
    }

    /// Refuses a renewal interval that would come too late.
    pub(crate) fn check_interval(self, interval: Duration) -> Result<(), LockError> {
        let latest = self.soft(Instant::ZERO).since(Instant::ZERO);
        if MIN_INTERVAL <= interval && interval < latest {
            return Ok(());
        }
        Err(LockError::config(format!(
            "a watchdog interval of {interval:?} does not fit a ttl of {:?}: it must be at least {MIN_INTERVAL:?} and less than {latest:?}; \
             leave it out for a third of the ttl",
            self.ttl()
        )))
    }

    /// How long one renewal or release may take before it is tried again.
    pub(crate) fn attempt(self) -> Duration {
        (self.ttl() / 10).min(MAX_ATTEMPT)
    }

    /// The mean time between tries after an error.
    pub(crate) fn retry(self) -> Duration {
        self.ttl() / 20
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn terms(millis: u64) -> Terms {
        Terms::new(Duration::from_millis(millis)).unwrap()
    }

    #[test]
    fn ten_seconds() {
        let sent = Instant::from_nanos(0);
        let terms = terms(10_000);
        assert_eq!(terms.hard(sent).since(sent), Duration::from_millis(9_898));
        assert_eq!(terms.soft(sent).since(sent), Duration::from_millis(9_398));
        assert_eq!(terms.attempt(), Duration::from_secs(1));
        assert_eq!(terms.retry(), Duration::from_millis(500));
    }

    #[test]
    fn the_shortest_ttl_keeps_most_of_itself() {
        let sent = Instant::from_nanos(0);
        let terms = terms(100);
        assert_eq!(terms.hard(sent).since(sent), Duration::from_millis(97));
        assert_eq!(terms.soft(sent).since(sent), Duration::from_millis(72));
    }

    #[test]
    fn a_ttl_out_of_range_is_refused() {
        assert!(Terms::new(Duration::ZERO).is_err());
        assert!(Terms::new(Duration::from_millis(99)).is_err());
        assert!(Terms::new(MAX_TTL + Duration::from_millis(1)).is_err());
    }

    #[test]
    fn an_interval_must_lie_before_the_point_of_no_return() {
        let terms = terms(10_000);
        assert!(terms.check_interval(Duration::ZERO).is_err());
        assert!(terms.check_interval(Duration::from_millis(9)).is_err());
        assert!(terms.check_interval(Duration::from_millis(9_397)).is_ok());
        assert!(terms.check_interval(Duration::from_millis(9_398)).is_err());
    }

    proptest! {
        /// Ours ends before the server's even if the server's clock runs 1 % fast; the default renewal, its
        /// time-out and a retry all fall before the point of no return.
        #[test]
        fn order_of_events(millis in 100_u64..=86_400_000) {
            let terms = terms(millis);
            let sent = Instant::from_nanos(1);
            let server = sent + Duration::from_millis(millis) * 100 / 101;
            prop_assert!(terms.hard(sent) < server);
            prop_assert!(terms.soft(sent) < terms.hard(sent));
            let second_try = sent + terms.interval() + terms.attempt() + terms.retry() * 3 / 2;
            prop_assert!(second_try < terms.soft(sent));
        }
    }
}
