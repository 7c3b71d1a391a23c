//! Splits the received bytes into complete replies, and refuses bytes that are not a reply.
//!
//! The framer has two properties that the parser of the crate `redis` lacks:
//! - The cost of a reply depends only on its length, not on the number of pieces in which it
//!   arrives. The framer does not read earlier bytes again when a piece arrives. The parser reads
//!   an incomplete reply from its start again with each new piece.
//! - A server can make the client buffer only a bounded number of bytes. The parser waits without
//!   limit for the end of a line, or for the announced bytes of a text.
//!
//! The framer does no I/O. [`Framer::accept`] takes the received bytes, and [`Framer::next`]
//! returns complete replies.

use std::collections::VecDeque;

use crate::store::redis::garbage::Garbage;

/// Maximum length of a line of text (`+`, `-`, `(` or `,`), including its end. Error replies are
/// such lines, and can contain messages of scripts.
const LONGEST_LINE: usize = 64 * 1024;

/// Maximum length of any other line. Such a line contains at most a short number, for example a
/// length.
const LONGEST_NUMBER: usize = 32;

/// Maximum number of values in one array, set or map. The longest expected one is a cluster's slot
/// map, with up to 16,384 entries.
const MOST: u64 = 64 * 1024;

/// Maximum length of a text, and of a whole reply with all of its values, in bytes. Most replies to
/// this client have a few kilobytes. A cluster's slot map, or a lock with many waiting processes,
/// may have more.
const LONGEST: u64 = 16 * 1024 * 1024;

/// Maximum nesting of arrays. The replies to this client have up to four levels (`CLUSTER SLOTS`).
const DEEPEST: usize = 16;

/// Number of bytes of returned replies that may stay at the start of the buffer, so that the bytes
/// behind them are moved less often.
const KEPT: usize = 16 * 1024;

/// Position of the next byte in a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
    /// In a line, or at its beginning.
    Line,
    /// In a text. This many of its bytes must still arrive, including the line end after it.
    Text(u64),
}

/// The received bytes of one connection, and the complete replies found in them.
#[derive(Debug)]
pub(crate) struct Framer {
    position: Position,
    /// The received bytes. Replies before `taken` were already returned.
    bytes: Vec<u8>,
    taken: usize,
    /// The ends of complete replies not yet returned.
    ends: VecDeque<usize>,
    /// The start of the incomplete line or text.
    open: usize,
    /// The end of the bytes that the framer has read.
    looked: usize,
    /// For each level of nesting, the number of values that must still arrive.
    missing: Vec<u64>,
    /// The length of the incomplete reply so far.
    length: u64,
    /// The number of bytes that the search for line ends has examined.
    #[cfg(test)]
    looked_at: u64,
}

impl Framer {
    pub(crate) fn new() -> Self {
        Self {
            position: Position::Line,
            bytes: Vec::new(),
            taken: 0,
            ends: VecDeque::new(),
            open: 0,
            looked: 0,
            missing: Vec::new(),
            length: 0,
            #[cfg(test)]
            looked_at: 0,
        }
    }

    /// Adds received bytes. After an error, `accept` must not be called again, but
    /// [`next`](Self::next) still returns the complete replies before the invalid bytes.
    pub(crate) fn accept(&mut self, bytes: &[u8]) -> Result<(), Garbage> {
        self.make_room();
        self.bytes.extend_from_slice(bytes);
        while self.looked < self.bytes.len() {
            match self.position {
                Position::Line => self.in_line()?,
                Position::Text(left) => self.in_text(left)?,
            }
        }
        Ok(())
    }

    /// Returns the next complete reply.
    pub(crate) fn next(&mut self) -> Option<&[u8]> {
        let end = self.ends.pop_front()?;
        let begin = std::mem::replace(&mut self.taken, end);
        Some(&self.bytes[begin..end])
    }

    /// Removes the replies that were already returned.
    fn make_room(&mut self) {
        if self.taken == self.bytes.len() || KEPT < self.taken {
            let gone = std::mem::take(&mut self.taken);
            self.bytes.drain(..gone);
            self.bytes.shrink_to(KEPT);
            self.open -= gone;
            self.looked -= gone;
            self.ends.iter_mut().for_each(|end| *end -= gone);
        }
    }

    #[cfg(any(test, all(feature = "__test", feature = "replay")))]
    pub(crate) fn is_between_replies(&self) -> bool {
        self.position == Position::Line && self.open == self.bytes.len() && self.missing.is_empty()
    }

    /// Searches for the end of the line.
    fn in_line(&mut self) -> Result<(), Garbage> {
        let longest = self.open + self.longest_line()?;
        let within = self.bytes.len().min(longest);
        let Some(end) = self.end_of_line(within) else {
            self.grow((within - self.looked) as u64)?;
            self.looked = within;
            if self.looked == longest {
                return Err(self.endless());
            }
            return Ok(());
        };
        self.grow((end - self.looked) as u64)?;
        let begin = std::mem::replace(&mut self.open, end);
        self.looked = end;
        self.line_ended(begin, end)
    }

    /// Returns the maximum length of this line, according to its first byte.
    fn longest_line(&self) -> Result<usize, Garbage> {
        match self.bytes[self.open] {
            b'+' | b'-' | b'(' | b',' => Ok(LONGEST_LINE),
            b':' | b'$' | b'*' | b'%' | b'~' | b'>' | b'|' | b'!' | b'=' | b'_' | b'#' => {
                Ok(LONGEST_NUMBER)
            }
            other => Err(Garbage(format!(
                "the byte 0x{other:02x} at the start of a reply, which is not the Redis protocol"
            ))),
        }
    }

    /// Returns the end of the line, if it is before `limit`.
    fn end_of_line(&mut self, limit: usize) -> Option<usize> {
        let line = &self.bytes[self.open..limit];
        let mut before = line.get((self.looked - self.open).wrapping_sub(1)).copied();
        let is_end = |byte: &u8| before.replace(*byte) == Some(b'\r') && *byte == b'\n';
        let end = self.bytes[self.looked..limit].iter().position(is_end);
        let end = end.map(|at| self.looked + at + 1);
        #[cfg(test)]
        {
            self.looked_at += (end.unwrap_or(limit) - self.looked) as u64;
        }
        end
    }

    fn endless(&self) -> Garbage {
        let line = &self.bytes[self.open..self.looked];
        let begin: String = line
            .iter()
            .take(16)
            .map(|byte| byte.escape_ascii().to_string())
            .collect();
        Garbage(format!(
            "a line that does not end within {} bytes and begins with `{begin}`",
            line.len()
        ))
    }

    /// Interprets a complete line.
    fn line_ended(&mut self, begin: usize, end: usize) -> Result<(), Garbage> {
        let (kind, rest) = (self.bytes[begin], &self.bytes[begin + 1..end - 2]);
        let length = match kind {
            b'$' | b'!' | b'=' | b'*' | b'~' | b'>' | b'%' | b'|' => count(rest)?,
            _ => None,
        };
        match (kind, length) {
            (b'$' | b'!' | b'=', Some(length)) => return self.text_begins(length),
            (_, Some(length)) => return self.values_begin(kind, length),
            (b'!' | b'=' | b'~' | b'>' | b'%' | b'|', None) => return Err(negative()),
            (_, None) => self.value_ended(),
        }
        Ok(())
    }

    fn text_begins(&mut self, length: u64) -> Result<(), Garbage> {
        if LONGEST < length {
            return Err(Garbage(format!(
                "a text of {length} bytes, more than the limit of {LONGEST}"
            )));
        }
        self.position = Position::Text(length + 2);
        Ok(())
    }

    fn values_begin(&mut self, kind: u8, length: u64) -> Result<(), Garbage> {
        if MOST < length {
            return Err(Garbage(format!(
                "{length} values in one, more than the limit of {MOST}"
            )));
        }
        if self.missing.len() == DEEPEST {
            return Err(Garbage(format!(
                "values that are nested more than {DEEPEST} deep"
            )));
        }
        let values = match kind {
            b'%' => 2 * length,
            // RESP3 attributes come before the value that they describe. The `1` counts this value.
            b'|' => 2 * length + 1,
            _ => length,
        };
        if values == 0 {
            self.value_ended();
        } else {
            self.missing.push(values);
        }
        Ok(())
    }

    /// Reads further bytes of a text, of which `left` bytes are not read yet.
    fn in_text(&mut self, left: u64) -> Result<(), Garbage> {
        let come = &self.bytes[self.looked..];
        let count = usize::try_from(left).unwrap_or(usize::MAX).min(come.len());
        for (at, byte) in come[..count].iter().enumerate().rev().take(2) {
            let end = match left - at as u64 {
                2 => b'\r',
                1 => b'\n',
                _ => break,
            };
            if *byte != end {
                return Err(Garbage(
                    "a text that does not end where it should".to_owned(),
                ));
            }
        }
        self.looked += count;
        self.grow(count as u64)?;
        let left = left - count as u64;
        if left == 0 {
            self.position = Position::Line;
            self.open = self.looked;
            self.value_ended();
        } else {
            self.position = Position::Text(left);
        }
        Ok(())
    }

    fn grow(&mut self, by: u64) -> Result<(), Garbage> {
        self.length += by;
        // Allows 64 bytes more, for the line before a text of the maximum length, and for the line
        // end after it.
        if LONGEST + 64 < self.length {
            return Err(Garbage(format!("a reply of more than {LONGEST} bytes")));
        }
        Ok(())
    }

    /// Records the end of a value, and of each outer value that ends with it.
    fn value_ended(&mut self) {
        while let Some(missing) = self.missing.last_mut() {
            *missing -= 1;
            if 0 < *missing {
                return;
            }
            self.missing.pop();
        }
        self.length = 0;
        self.ends.push_back(self.looked);
    }
}

/// Parses a length. Returns `None` for `-1`, which stands for a nil value.
fn count(digits: &[u8]) -> Result<Option<u64>, Garbage> {
    if digits == b"-1" {
        return Ok(None);
    }
    let text = str::from_utf8(digits).ok();
    let text = text.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let length = text.and_then(|text| text.parse().ok()).map(Some);
    length.ok_or_else(|| Garbage(format!("`{}` instead of a length", digits.escape_ascii())))
}

fn negative() -> Garbage {
    Garbage("a negative length".to_owned())
}

#[cfg(test)]
#[path = "framer_tests.rs"]
mod tests;
