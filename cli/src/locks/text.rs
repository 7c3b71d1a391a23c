//! Formats locks as text.

use std::time::{Duration, SystemTime};

pub(super) use leasehold::__private::plain;
use leasehold::{Holder, LockInfo, LockPool, LockState, Owner};
use unicode_width::UnicodeWidthChar as _;

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

/// Returns the time that has passed since `time`. This is zero if the store's clock is ahead of the
/// clock of this machine.
pub(super) fn since(time: Option<SystemTime>, now: SystemTime) -> Option<Duration> {
    time.map(|time| now.duration_since(time).unwrap_or_default())
}

/// Returns the time left until `time`, or zero if `time` is past.
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

/// Describes the namespace and the store of a pool, so that a message shows where locks were read.
pub(super) fn place(pool: &LockPool) -> String {
    let (store, namespace) = leasehold::__private::place(pool);
    match namespace {
        "" => format!("without a namespace on {}", plain(store)),
        namespace => format!("in namespace `{}` on {}", plain(namespace), plain(store)),
    }
}

/// Smallest width of a shortened key, in columns. If the terminal has less room beside the other
/// columns, the whole key is shown, on separate lines.
pub(super) const SHORTEST_KEY: usize = 20;

/// Returns the number of terminal columns of a text. A Chinese character has two, and a combining
/// mark none.
pub(super) fn width(text: &str) -> usize {
    text.chars().map(columns).sum()
}

fn columns(character: char) -> usize {
    character.width().unwrap_or_default()
}

/// Returns the longest start of a text with at most this many columns. The combining marks of its
/// last character are included.
pub(super) fn cut(text: &str, room: usize) -> &str {
    let mut used = 0;
    let beyond = text.char_indices().find(|(_, character)| {
        used += columns(*character);
        room < used
    });
    beyond.map_or(text, |(at, _)| &text[..at])
}

/// Appends blanks to a text, up to this many columns.
pub(super) fn padded(text: &str, room: usize) -> String {
    let missing = room.saturating_sub(width(text));
    [text, &" ".repeat(missing)].concat()
}

/// Replaces the middle of a text by `…`, so that the text has at most this many columns.
pub(super) fn shortened(text: &str, room: usize) -> String {
    let length = width(text);
    if length <= room {
        return text.to_owned();
    }
    let start = cut(text, room / 2);
    // The part after the `…` must begin with a character, not with the combining marks of a removed
    // one.
    let (mut left, most) = (length, room.saturating_sub(room / 2 + 1));
    let end = text.char_indices().find(|(_, character)| {
        let begins = left <= most && 0 < columns(*character);
        left -= columns(*character);
        begins
    });
    let end = end.map_or("", |(at, _)| &text[at..]);
    format!("{start}…{end}")
}

/// Breaks a text into lines of at most this many columns, between words if possible. A character
/// that is wider than a line has its own line.
pub(super) fn wrapped(text: &str, room: usize) -> Vec<String> {
    let (mut lines, mut line, mut used) = (Vec::new(), String::new(), 0);
    for word in text.split_inclusive(' ') {
        let mut rest = word.trim_end();
        if !line.is_empty() && room < used + width(rest) {
            lines.push(std::mem::take(&mut line));
            used = 0;
        }
        while cut(rest, room).len() < rest.len() {
            let part = match cut(rest, room) {
                "" => &rest[..rest.chars().next().map_or(0, char::len_utf8)],
                part => part,
            };
            lines.push(part.to_owned());
            rest = &rest[part.len()..];
        }
        line.push_str(rest);
        let blanks = &word[word.trim_end().len()..];
        line.push_str(blanks);
        used += width(rest) + blanks.len();
    }
    if !line.is_empty() || lines.is_empty() {
        lines.push(line);
    }
    let lines = lines.iter();
    lines.map(|line| line.trim_end().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails if a text is shortened to a wrong width, or if wrapping loses a part of a text or
    /// makes a line too long.
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

    /// Fails if a wide character counts as one column, or a combining mark is separated from its
    /// character.
    #[test]
    fn wide_characters_and_marks_are_measured() {
        assert_eq!((width("注文:7"), width("e\u{301}")), (6, 1));
        assert_eq!(shortened("注文:1234567", 12), "注文:1234567");
        assert_eq!(shortened("注文注文:1234567", 11), "注文…34567");
        assert_eq!(shortened("注文注文注文", 6), "注…文");
        assert_eq!(shortened("abcde\u{301}", 4), "ab…e\u{301}");
        assert_eq!(shortened("e\u{301}bcd", 3), "e\u{301}…d");
        assert_eq!(cut("e\u{301}注b", 2), "e\u{301}");
        assert_eq!(padded("注", 4), "注  ");
        assert_eq!(wrapped("注文 注文注", 4), ["注文", "注文", "注"]);
        assert_eq!(wrapped("注文", 1), ["注", "文"]);
    }

    /// Fails if wrapping a very long word panics, or takes a time that grows with the square of its
    /// length.
    #[test]
    fn very_long_words_are_wrapped() {
        let lines = wrapped(&"x".repeat(2_000_000), 20);
        assert_eq!((lines.len(), lines[99_999].len()), (100_000, 20));
        assert_eq!(padded("x", 100_000).len(), 100_000);
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
