//! Durations in nanoseconds.

use std::time::Duration;

/// Returns the length of a lease with this ttl, counted from its request, in nanoseconds. A lease
/// is shorter than its ttl by a hundredth and 2 ms, because the clocks of server and client may
/// drift.
pub(super) fn lease(ttl: Duration) -> u64 {
    nanos(ttl.saturating_sub(ttl / 100 + Duration::from_millis(2)))
}

pub(super) fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
