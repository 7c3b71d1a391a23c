//! The arithmetic of a lease. It computes times from other times, and reads no clock.
//!
//! A lease is counted from `sent`, the time just before the request that took or last renewed it
//! was sent. The server starts the key's ttl later, so the lease ends in this process before it
//! ends on the server. The lease is also shorter than the ttl by `drift`, for two reasons. The
//! server's clock may run 1 % faster than this process's clock, and the server rounds the ttl to
//! milliseconds.

use std::time::Duration;

use super::clock::Instant;
use crate::error::LockError;

pub(crate) const MIN_TTL: Duration = Duration::from_millis(100);
pub(crate) const MAX_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// The shortest time between renewals. More frequent renewals would only load the store.
const MIN_INTERVAL: Duration = Duration::from_millis(10);

/// Maximum time for which `replay` keeps a result.
const MAX_REPLAY: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Upper limit of `Terms::attempt`, which is otherwise a tenth of the ttl.
const MAX_ATTEMPT: Duration = Duration::from_secs(1);

/// Checks the time for which a `cooldown` or a `min_hold` keeps a lock taken. `option` is the name
/// of the option, for the error.
pub(crate) fn check_stay(option: &str, stay: Duration) -> Result<Duration, LockError> {
    if (Duration::from_millis(1)..=MAX_TTL).contains(&stay) {
        return Ok(stay);
    }
    Err(LockError::config(format!(
        "a `{option}` of {stay:?} is out of range; choose one from 1 ms to 24 h, or leave it out for none"
    )))
}

/// Checks the time for which `replay` keeps a result.
pub(crate) fn check_replay(replay: Duration) -> Result<Duration, LockError> {
    if (Duration::from_millis(1)..=MAX_REPLAY).contains(&replay) {
        return Ok(replay);
    }
    Err(LockError::config(format!(
        "a `replay` of {replay:?} is out of range; choose one from 1 ms to 30 days, or leave it out for none"
    )))
}

/// A ttl, and the times derived from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Terms {
    /// The ttl in nanoseconds. Stored as an integer, because each renewal divides the ttl several
    /// times, and dividing a `Duration` is slower.
    nanos: u64,
}

const MILLI: u64 = 1_000_000;

impl Terms {
    /// Returns the terms of `ttl`, or an error that names the valid range.
    pub(crate) fn new(ttl: Duration) -> Result<Self, LockError> {
        if (MIN_TTL..=MAX_TTL).contains(&ttl) {
            let nanos = u64::try_from(ttl.as_nanos()).unwrap_or(u64::MAX);
            return Ok(Self { nanos });
        }
        Err(LockError::config(format!(
            "a ttl of {ttl:?} is out of range; choose one from 100 ms to 24 h, longer than the \
             work usually takes"
        )))
    }

    pub(crate) fn ttl(self) -> Duration {
        Duration::from_nanos(self.nanos)
    }

    /// Returns the difference between the key's ttl and the shorter lease in this process, in
    /// nanoseconds.
    fn drift(self) -> u64 {
        self.nanos / 100 + 2 * MILLI
    }

    /// Returns the time from [`soft`](Self::soft) to [`hard`](Self::hard), in which the body is
    /// notified of a loss and dropped.
    fn margin(self) -> Duration {
        let margin = (self.nanos / 20).max(50 * MILLI).min(self.nanos / 4);
        Duration::from_nanos(margin)
    }

    /// Returns the deadline of a lease whose last confirmed request was sent at `sent`. The body is
    /// not polled after the deadline.
    pub(crate) fn hard(self, sent: Instant) -> Instant {
        sent + Duration::from_nanos(self.nanos.saturating_sub(self.drift()))
    }

    /// Returns the signal time of the lease. If the lease has not been renewed by then, the engine
    /// stops renewing it and notifies the call of the loss.
    pub(crate) fn soft(self, sent: Instant) -> Instant {
        self.hard(sent) - self.margin()
    }

    /// Returns the default time between renewals.
    pub(crate) fn interval(self) -> Duration {
        self.ttl() / 3
    }

    /// Refuses a renewal interval shorter than `MIN_INTERVAL`, or so long that the engine would
    /// give the lease up before the first renewal.
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

    /// Returns the time for which the engine waits for the answer to a renewal or a release, before
    /// a further pause and a retry.
    pub(crate) fn attempt(self) -> Duration {
        (self.ttl() / 10).min(MAX_ATTEMPT)
    }

    /// Returns the mean pause before a renewal is retried, after an error, or after
    /// [`attempt`](Self::attempt) has passed without an answer.
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
    fn terms_of_a_ten_second_lease() {
        let sent = Instant::from_nanos(0);
        let terms = terms(10_000);
        assert_eq!(terms.hard(sent).since(sent), Duration::from_millis(9_898));
        assert_eq!(terms.soft(sent).since(sent), Duration::from_millis(9_398));
        assert_eq!(terms.attempt(), Duration::from_secs(1));
        assert_eq!(terms.retry(), Duration::from_millis(500));
    }

    #[test]
    fn the_shortest_ttl_leaves_most_of_its_time_usable() {
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
    fn an_interval_beyond_the_latest_renewal_is_refused() {
        let terms = terms(10_000);
        assert!(terms.check_interval(Duration::ZERO).is_err());
        assert!(terms.check_interval(Duration::from_millis(9)).is_err());
        assert!(terms.check_interval(Duration::from_millis(9_397)).is_ok());
        assert!(terms.check_interval(Duration::from_millis(9_398)).is_err());
    }

    proptest! {
        /// Fails if a lease ends on the server before it ends in this process, although the
        /// server's clock is at most 1 % fast. Also fails if, with the default interval, the retry
        /// of an unanswered renewal is sent only after `soft`.
        #[test]
        fn the_lease_ends_here_before_it_ends_on_the_server(millis in 100_u64..=86_400_000) {
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
