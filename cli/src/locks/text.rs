//! Formats locks as text.

use std::time::{Duration, SystemTime};

pub(super) use leasehold::__private::plain;
use leasehold::{Holder, LockInfo, LockPool, LockState, Owner};

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

/// Returns the namespace and the store that were asked, for a line about a lock without a holder.
pub(super) fn place(pool: &LockPool) -> String {
    let (store, namespace) = leasehold::__private::place(pool);
    match namespace {
        "" => format!("without a namespace on {}", plain(store)),
        namespace => format!("in namespace `{}` on {}", plain(namespace), plain(store)),
    }
}

/// Shortens a text in the middle to this many characters.
pub(super) fn shortened(text: &str, room: usize) -> String {
    let length = text.chars().count();
    if length <= room {
        return text.to_owned();
    }
    let (start, end) = (room / 2, room.saturating_sub(room / 2 + 1));
    let parts = text.chars().take(start).chain(['…']);
    parts.chain(text.chars().skip(length - end)).collect()
}

/// Breaks a text into lines of at most this many characters, between words if possible.
pub(super) fn wrapped(text: &str, room: usize) -> Vec<String> {
    let (mut lines, mut line) = (Vec::new(), String::new());
    for word in text.split_inclusive(' ') {
        let length = |text: &str| text.trim_end().chars().count();
        if !line.is_empty() && room < line.chars().count() + length(word) {
            lines.push(std::mem::take(&mut line));
        }
        line.push_str(word);
        while room < length(&line) {
            let rest = line.chars().skip(room).collect();
            lines.push(line.chars().take(room).collect());
            line = rest;
        }
    }
    lines.push(line);
    lines
        .iter()
        .map(|line| line.trim_end().to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails if a part of a wrapped text is lost, or a line is too long.
    #[test]
    fn long_texts_are_shortened_or_wrapped() {
        assert_eq!(shortened("order:42", 8), "order:42");
        assert_eq!(shortened("order:1234567", 8), "orde…567");
        assert_eq!(shortened("größe:7", 4), "gr…7");
        assert_eq!(wrapped("shop::create on web-1 (pid 7)", 80).len(), 1);
        let lines = wrapped("shop::create on web-1 (pid 7)", 12);
        assert_eq!(lines, ["shop::create", "on web-1", "(pid 7)"]);
        assert_eq!(wrapped("shop::create on", 5), ["shop:", ":crea", "te on"]);
    }

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
