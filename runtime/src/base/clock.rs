//! The clock that measures leases.

use std::num::NonZeroU64;
use std::ops::{Add, Sub};
use std::time::Duration;

/// A point in time, in nanoseconds on a monotonic clock. This clock continues while the machine is
/// suspended (except on the BSDs), but not while a hypervisor pauses the virtual machine.
///
/// Stored as the nanoseconds plus one. This is never zero, so an `Option<Instant>` is not larger
/// than an `Instant`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Instant(NonZeroU64);

impl Instant {
    /// A time before every reading of a clock.
    pub(crate) const ZERO: Self = Self(NonZeroU64::MIN);

    pub(crate) const fn from_nanos(nanos: u64) -> Self {
        Self(NonZeroU64::MIN.saturating_add(nanos))
    }

    pub(crate) fn as_nanos(self) -> u64 {
        self.0.get() - 1
    }

    /// Returns the time from `earlier` to this point in time, or zero if this point is not later.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.as_nanos().saturating_sub(earlier.as_nanos()))
    }
}

impl Default for Instant {
    fn default() -> Self {
        Self::ZERO
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(nanos(span)))
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    fn sub(self, span: Duration) -> Self {
        Self::from_nanos(self.as_nanos().saturating_sub(nanos(span)))
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// A source of the current time.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Clock {
    /// The machine's clock, `CLOCK_BOOTTIME` on Linux. Except on the BSDs, this clock continues
    /// while the machine sleeps, because keys on the server also continue to expire. Reading the
    /// clock takes about 20 ns.
    System,
    /// The clock of a tokio runtime, which tests can pause. The value is the time at which this
    /// clock was created.
    Tokio(tokio::time::Instant),
}

impl Clock {
    pub(crate) fn tokio() -> Self {
        Self::Tokio(tokio::time::Instant::now())
    }

    pub(crate) fn now(self) -> Instant {
        match self {
            Self::System => Instant::from_nanos(system_nanos()),
            // The clock starts at one second, so that no reading is `Instant::ZERO`.
            Self::Tokio(start) => {
                Instant::from_nanos(nanos(start.elapsed() + Duration::from_secs(1)))
            }
        }
    }
}

#[cfg(unix)]
fn system_nanos() -> u64 {
    use rustix::time::{ClockId, clock_gettime};

    // Apple's monotonic clock also includes suspended time. The BSDs have no such clock.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const CLOCK: ClockId = ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    const CLOCK: ClockId = ClockId::Monotonic;

    let now = clock_gettime(CLOCK);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

#[cfg(not(unix))]
fn system_nanos() -> u64 {
    use std::sync::OnceLock;

    static START: OnceLock<std::time::Instant> = OnceLock::new();
    let start = START.get_or_init(std::time::Instant::now);
    nanos(start.elapsed() + Duration::from_secs(1))
}

/// Returns the earlier of two optional times.
pub(crate) fn earlier(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        _ => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates() {
        let early = Instant::from_nanos(5);
        assert_eq!(early - Duration::from_secs(1), Instant::ZERO);
        assert_eq!(early.since(Instant::from_nanos(9)), Duration::ZERO);
        assert_eq!((early + Duration::MAX).as_nanos(), u64::MAX - 1);
        assert_eq!(Instant::ZERO.as_nanos(), 0);
    }

    #[test]
    fn the_system_clock_moves_forward() {
        let before = Clock::System.now();
        let after = Clock::System.now();
        assert!(Instant::ZERO < before && before <= after);
    }

    #[tokio::test(start_paused = true)]
    async fn a_paused_runtime_drives_the_tokio_clock() {
        let clock = Clock::tokio();
        let before = clock.now();
        tokio::time::advance(Duration::from_secs(7)).await;
        assert_eq!(clock.now().since(before), Duration::from_secs(7));
    }
}
