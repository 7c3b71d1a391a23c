//! One clock for all processes and languages of a run: `CLOCK_MONOTONIC`, in nanoseconds.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Returns the nanoseconds since a fixed moment, the same for all processes of the machine.
pub(crate) fn now() -> u64 {
    read(ClockId::Monotonic)
}

/// Returns the CPU time used by this process, in nanoseconds.
pub(crate) fn of_process() -> u64 {
    read(ClockId::ProcessCPUTime)
}

/// Returns the CPU time used by this thread, in nanoseconds.
pub(crate) fn of_thread() -> u64 {
    read(ClockId::ThreadCPUTime)
}

fn read(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let nanos = u64::try_from(time.tv_nsec).unwrap_or_default();
    seconds * 1_000_000_000 + nanos
}

/// Converts a duration to nanoseconds.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the time until `stamp`, or zero if it has passed.
pub(crate) fn until(stamp: u64) -> Duration {
    Duration::from_nanos(stamp.saturating_sub(now()))
}
