//! The owner of a lock, as stored beside the lock.

use std::fmt;
use std::sync::LazyLock;

use crate::host::host;
use crate::plain::Plain;

/// Maximum length of an owner that this library writes into a store, in bytes.
const LONGEST: usize = 120;

/// Maximum length of an owner that is read from a store, in bytes. Any client can write a longer
/// owner, of which only the start is read.
const LONGEST_READ: usize = 512;

/// Maximum number of digits of a process id.
const PID_DIGITS: usize = 10;

/// The name of this machine.
static HOST: LazyLock<String> = LazyLock::new(host);

/// The process that holds a lock or waits for it, and the function that it runs.
///
/// `Display` shows one line for people: `shop::create_order on web-1 (pid 4711)`. It escapes
/// characters that control a terminal, because any client can write them into the store. An owner
/// from a store has at most 512 bytes.
///
/// ```
/// use leasehold::Owner;
///
/// let owner = Owner::new("web-1", 4711, "shop::create_order");
/// assert_eq!(owner.to_string(), "shop::create_order on web-1 (pid 4711)");
/// assert_eq!(Owner::new("web-1", 4711, "").to_string(), "web-1 (pid 4711)");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Owner {
    /// The name of the machine or container.
    pub host: String,
    /// The process id on that machine.
    pub pid: u32,
    /// The path of the annotated function, such as `shop::create_order` or, for a method,
    /// `shop::Orders::create`. For `leasehold run`, its `--name` or the name of the program's file.
    /// Empty for a lock taken in another way, such as by `pool.lock(…)`. A path of more than about
    /// a hundred bytes is cut in the middle.
    pub function: String,
}

impl Owner {
    /// Creates an owner, for tests of a program's output.
    ///
    /// ```
    /// # use leasehold::Owner;
    /// assert_eq!(Owner::new("web-1", 4711, "").pid, 4711);
    /// ```
    pub fn new(host: impl Into<String>, pid: u32, function: impl Into<String>) -> Self {
        Self {
            host: host.into(),
            pid,
            function: function.into(),
        }
    }

    /// Creates the owner of a call in this process.
    pub(crate) fn here(function: &str) -> Self {
        Self::new(HOST.as_str(), std::process::id(), function)
    }

    /// Returns `host pid function`, the text that a store keeps beside the lock.
    #[cfg(any(feature = "postgres", feature = "__session"))]
    pub(crate) fn written(function: &str) -> String {
        let pid = std::process::id().to_string();
        shortened([HOST.as_str(), " ", &pid, " ", function]).concat()
    }

    /// Reads `host pid function`. The host's name and the function's path may have spaces, so the
    /// process id is the first word of digits, except at the start. Reads at most [`LONGEST_READ`]
    /// bytes. Returns none if they contain no process id.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let text = start_of(text, LONGEST_READ);
        let mut at = 0;
        while let Some(space) = text[at..].find(' ') {
            let (host, rest) = (&text[..at + space], &text[at + space + 1..]);
            let (pid, function) = rest.split_once(' ').unwrap_or((rest, ""));
            let is_number = !pid.is_empty() && pid.bytes().all(|digit| digit.is_ascii_digit());
            if let Some(pid) = pid.parse().ok().filter(|_| is_number) {
                return Some(Self::new(host, pid, function));
            }
            at += space + 1;
        }
        None
    }
}

/// Shortens the path of a function by a cut in its middle. The path, the host and the process id
/// then fit into `LONGEST` bytes together.
pub(crate) fn fitting(function: &str) -> String {
    let beside = HOST.len() + PID_DIGITS + "  ".len();
    cut_in_the_middle(function, LONGEST.saturating_sub(beside))
}

/// Shortens a text to `room` bytes by a cut in its middle. Keeps more of the end than of the start,
/// because the end of a function's path names the method.
fn cut_in_the_middle(text: &str, room: usize) -> String {
    if text.len() <= room {
        return text.to_owned();
    }
    let room = room.saturating_sub('…'.len_utf8());
    let start = start_of(text, room / 3);
    let mut ends = text.len() - (room - start.len())..=text.len();
    let end = ends.find_map(|at| text.get(at..)).unwrap_or_default();
    format!("{start}…{end}")
}

/// Returns the longest start of a text with at most `room` bytes.
fn start_of(text: &str, room: usize) -> &str {
    let mut ends = (0..=room.min(text.len())).rev();
    ends.find_map(|end| text.get(..end)).unwrap_or_default()
}

/// Cuts off the end of the text that the parts form together. At most `LONGEST` bytes remain,
/// without spaces at the end.
pub(crate) fn shortened<const N: usize>(mut parts: [&str; N]) -> [&str; N] {
    let mut room = LONGEST;
    for part in &mut parts {
        let kept = start_of(part, room);
        room = if kept == *part { room - kept.len() } else { 0 };
        *part = kept;
    }
    for part in parts.iter_mut().rev() {
        *part = part.trim_end();
        if !part.is_empty() {
            break;
        }
    }
    parts
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            host,
            pid,
            function,
        } = self;
        let (host, function) = (Plain(host), Plain(function));
        if self.function.is_empty() {
            write!(f, "{host} (pid {pid})")
        } else {
            write!(f, "{function} on {host} (pid {pid})")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parts of an owner together are too long. Fails if the cut splits a character, keeps a
    /// later part, or leaves spaces at the end.
    #[test]
    fn long_owner_texts_are_truncated() {
        let long = "é".repeat(LONGEST);
        assert_eq!(shortened(["host", " ", ""]).concat(), "host");
        assert_eq!(shortened(["host", " ", "a  "]).concat(), "host a");
        let cut = shortened(["host ", &long, "more"]).concat();
        assert_eq!(cut, format!("host {}", "é".repeat((LONGEST - 5) / 2)));
        assert_eq!(shortened(["x", &long]).concat().len(), LONGEST - 1);
    }

    /// Fails if a cut text is too long, or if its start or its end is missing.
    #[test]
    fn long_functions_are_cut_in_the_middle() {
        assert_eq!(cut_in_the_middle("a::b", 4), "a::b");
        assert_eq!(
            cut_in_the_middle("shop::Orders::create", 15),
            "shop…::create"
        );
        let cut = cut_in_the_middle(&"é".repeat(40), 30);
        assert_eq!(cut, format!("{}…{}", "é".repeat(4), "é".repeat(9)));
        assert_eq!(cut_in_the_middle("shop::create", 0), "…");
        let long = format!("shop::{}::create", "Of<".repeat(99));
        assert!(fitting(&long).ends_with("::create"));
        let written = format!("{} {} {}", *HOST, u32::MAX, fitting(&long));
        assert!(written.len() <= LONGEST, "{written}");
    }

    /// A client has written an owner of 70,000 bytes. Fails if this process reads more than
    /// `LONGEST_READ` bytes of it.
    #[test]
    fn the_end_of_a_very_long_owner_is_ignored() {
        let read = |text: &str| Owner::read(text).expect("an owner").function;
        assert_eq!(
            read(&format!("h 1 {}", "x".repeat(70_000))),
            "x".repeat(508)
        );
        assert_eq!(read(&format!("h 1 a{}", "é".repeat(70_000))).len(), 507);
        assert_eq!(Owner::read(&format!("{} 1 f", "h".repeat(70_000))), None);
    }

    #[test]
    fn written_values_can_be_read_back() {
        for (text, owner) in [
            ("web-1 4711", Owner::new("web-1", 4711, "")),
            ("web-1 4711 a::b", Owner::new("web-1", 4711, "a::b")),
            (
                "my mac 7 <A as B>::c",
                Owner::new("my mac", 7, "<A as B>::c"),
            ),
        ] {
            assert_eq!(Owner::read(text), Some(owner), "{text}");
        }
        for text in ["", "web-1", "web-1 x", "4711", "a +7 b"] {
            assert_eq!(Owner::read(text), None, "{text}");
        }
    }
}
