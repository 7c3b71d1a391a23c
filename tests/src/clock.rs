//! One clock for all processes of a test. It is monotonic, and keeps running while a process is
//! stopped.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

#[cfg(target_os = "linux")]
const CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const CLOCK: ClockId = ClockId::Monotonic;

/// Returns the microseconds since the machine started. Timestamps of different processes can be
/// compared.
pub fn now() -> u64 {
    let time = clock_gettime(CLOCK);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let nanos = u64::try_from(time.tv_nsec).unwrap_or_default();
    seconds * 1_000_000 + nanos / 1_000
}

/// Returns the timestamp of the time `after` from now.
pub fn in_future(after: Duration) -> u64 {
    now() + micros(after)
}

/// Converts a duration to the unit of this clock.
pub fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
