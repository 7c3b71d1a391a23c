//! Formats locks as text.

use std::time::{Duration, SystemTime};

pub(super) use leasehold::__private::plain;
use leasehold::{Holder, LockInfo, LockState, Owner};

const SECOND: f64 = 1.0;
const MINUTE: f64 = 60.0;
const HOUR: f64 = 60.0 * MINUTE;
const DAY: f64 = 24.0 * HOUR;

/// Formats a span for people: `350 ms`, `3.2 s`, `42 s`, `4 m`, `1.5 h`, `2.0 d`.
pub(super) fn span(span: Duration) -> String {
    let seconds = span.as_secs_f64();
    if seconds < SECOND {
        format!("{} ms", span.as_millis())
    } else if seconds < 10.0 {
        format!("{seconds:.1} s")
    } else if seconds < MINUTE {
        format!("{} s", span.as_secs())
    } else if seconds < HOUR {
        format!("{} m", span.as_secs() / 60)
    } else if seconds < DAY {
        format!("{:.1} h", seconds / HOUR)
    } else {
        format!("{:.1} d", seconds / DAY)
    }
}

/// Returns the time that has passed since `time`. It is zero if the store's clock is ahead of this
/// machine's.
pub(super) fn since(time: Option<SystemTime>, now: SystemTime) -> Option<Duration> {
    time.map(|time| now.duration_since(time).unwrap_or_default())
}

/// Returns the time left until `time`, or zero if it is past.
pub(super) fn until(time: Option<SystemTime>, now: SystemTime) -> Option<Duration> {
    time.map(|time| time.duration_since(now).unwrap_or_default())
}

/// Formats a span, or returns `-` if there is none.
pub(super) fn or_dash(duration: Option<Duration>) -> String {
    duration.map_or_else(|| "-".to_owned(), span)
}

/// Returns the kind of a lock: `exclusive`, `shared`, `2 of 3 permits`, …
pub(super) fn kind(lock: &LockInfo) -> String {
    match lock.state {
        LockState::Free => "free".to_owned(),
        LockState::Exclusive => "exclusive".to_owned(),
        LockState::Shared => "shared".to_owned(),
        LockState::Permits { limit } => format!("{} of {limit} permits", lock.holders.len()),
        LockState::Kept => "kept".to_owned(),
        LockState::Handed => "handed on".to_owned(),
        LockState::Pinned => "pinned".to_owned(),
        _ => "taken".to_owned(),
    }
}

/// Formats a process and its function.
pub(super) fn owner(owner: Option<&Owner>) -> String {
    owner.map_or_else(|| "an unknown process".to_owned(), ToString::to_string)
}

/// Formats the holder of a lock.
pub(super) fn holder(holder: &Holder) -> String {
    if holder.foreign && holder.owner.is_none() {
        return "another client".to_owned();
    }
    let name = owner(holder.owner.as_ref());
    if holder.revoked {
        format!("{name}, which must let go")
    } else {
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_spans_are_readable() {
        for (millis, text) in [
            (0, "0 ms"),
            (350, "350 ms"),
            (3_249, "3.2 s"),
            (42_900, "42 s"),
            (299_000, "4 m"),
            (5_400_000, "1.5 h"),
            (172_800_000, "2.0 d"),
        ] {
            assert_eq!(span(Duration::from_millis(millis)), text);
        }
    }
}
