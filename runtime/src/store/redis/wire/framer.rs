//! Where replies may be cut, and whether they are replies at all: bytes in, a verdict out.
//!
//! The framer stands before the parser of the crate `redis`. A reply costs what its length costs,
//! in whichever pieces it comes. There is a bound to what a server can make the client keep. The
//! parser guarantees neither. It begins a line anew with every piece of it. It waits for the end of
//! a line, or for as many bytes as a length promised, however long that takes.
//!
//! The framer looks at each byte of the protocol's lines once, passes lines on whole, and refuses
//! what no server answers to this client.
//!
//! The framer knows no socket. [`Framer::accept`] is given what was read and keeps the line that
//! has not ended. [`Framer::ready`] is what may be parsed, until that is [taken](Framer::take).

use crate::store::redis::garbage::Garbage;

/// The longest line, its end included. Errors are lines, with the messages of scripts in them.
const LONGEST_LINE: usize = 64 * 1024;

/// The longest line of a type that is a number, or shorter.
const LONGEST_NUMBER: usize = 32;

/// The most values in one array, set or map. A cluster has 16,384 slots.
const MOST: u64 = 64 * 1024;

/// The longest text, and the longest reply with all that is in it. The replies to this client have
/// a few kilobytes; the map of a cluster may have more.
const LONGEST: u64 = 16 * 1024 * 1024;

/// The deepest nesting of arrays. The replies to this client go three deep.
const DEEPEST: usize = 16;

/// Where in a reply the next byte is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
    /// In a line, or where one begins.
    Line,
    /// In a text, so many bytes before its end; the end of its line is included.
    Text(u64),
}

/// Follows the replies of one connection.
#[derive(Debug)]
pub(crate) struct Framer {
    position: Position,
    /// The line that has not ended.
    line: Vec<u8>,
    /// How many values are missing at each depth.
    missing: Vec<u64>,
    /// How long the reply is so far.
    length: u64,
    /// What may be parsed, from `taken` on.
    ready: Vec<u8>,
    taken: usize,
    /// How many bytes have been looked at individually.
    #[cfg(test)]
    looked_at: u64,
}

impl Framer {
    pub(crate) fn new() -> Self {
        Self {
            position: Position::Line,
            line: Vec::new(),
            missing: Vec::new(),
            length: 0,
            ready: Vec::new(),
            taken: 0,
            #[cfg(test)]
            looked_at: 0,
        }
    }

    /// Takes in what was read.
    pub(crate) fn accept(&mut self, mut bytes: &[u8]) -> Result<(), Garbage> {
        while !bytes.is_empty() {
            bytes = match self.position {
                Position::Line => self.in_line(bytes)?,
                Position::Text(left) => self.in_text(bytes, left)?,
            };
        }
        Ok(())
    }

    /// What may be parsed. Empty while the bytes so far are the beginning of a line.
    pub(crate) fn ready(&self) -> &[u8] {
        &self.ready[self.taken..]
    }

    /// The reader has taken so many bytes of `ready`.
    pub(crate) fn take(&mut self, count: usize) {
        self.taken += count;
        if self.ready.len() <= self.taken {
            self.ready.clear();
            self.taken = 0;
        }
    }

    #[cfg(any(test, all(feature = "__test", feature = "replay")))]
    pub(crate) fn is_between_replies(&self) -> bool {
        self.position == Position::Line && self.line.is_empty() && self.missing.is_empty()
    }

    /// Looks for the end of the line; returns the bytes behind it.
    fn in_line<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], Garbage> {
        let longest = self.longest_line(bytes)?;
        let within = &bytes[..bytes.len().min(longest - self.line.len())];
        let end = self.end_of_line(within);
        let count = end.unwrap_or(within.len());
        self.line.extend_from_slice(&bytes[..count]);
        self.grow(count as u64)?;
        if end.is_some() {
            let line = std::mem::take(&mut self.line);
            self.line_ended(&line)?;
            self.ready.extend_from_slice(&line);
            // The next line uses the same allocation.
            self.line = line;
            self.line.clear();
        } else if self.line.len() == longest {
            return Err(self.endless());
        }
        Ok(&bytes[count..])
    }

    /// How long this line may be. Its first byte says so, which is the first of `bytes` if the line
    /// begins there.
    fn longest_line(&self, bytes: &[u8]) -> Result<usize, Garbage> {
        match self.line.first().or(bytes.first()) {
            Some(b'+' | b'-' | b'(' | b',') | None => Ok(LONGEST_LINE),
            Some(b':' | b'$' | b'*' | b'%' | b'~' | b'>' | b'|' | b'!' | b'=' | b'_' | b'#') => {
                Ok(LONGEST_NUMBER)
            }
            Some(other) => Err(Garbage(format!(
                "the byte 0x{other:02x} where a reply begins, which is not the Redis protocol"
            ))),
        }
    }

    /// How much of `bytes` belongs to the line, if it ends there.
    fn end_of_line(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut before = self.line.last().copied();
        let is_end = |byte: &u8| before.replace(*byte) == Some(b'\r') && *byte == b'\n';
        let end = bytes.iter().position(is_end).map(|at| at + 1);
        #[cfg(test)]
        {
            self.looked_at += end.unwrap_or(bytes.len()) as u64;
        }
        end
    }

    fn endless(&self) -> Garbage {
        let begin: String = self
            .line
            .iter()
            .take(16)
            .map(|byte| byte.escape_ascii().to_string())
            .collect();
        Garbage(format!(
            "a line that does not end within {} bytes and begins with `{begin}`",
            self.line.len()
        ))
    }

    /// A whole line has come.
    fn line_ended(&mut self, line: &[u8]) -> Result<(), Garbage> {
        let (kind, rest) = (line[0], &line[1..line.len() - 2]);
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
                "a text of {length} bytes, where {LONGEST} are the most"
            )));
        }
        self.position = Position::Text(length + 2);
        Ok(())
    }

    fn values_begin(&mut self, kind: u8, length: u64) -> Result<(), Garbage> {
        if MOST < length {
            return Err(Garbage(format!(
                "{length} values in one, where {MOST} are the most"
            )));
        }
        if self.missing.len() == DEEPEST {
            return Err(Garbage(format!(
                "values that are nested more than {DEEPEST} deep"
            )));
        }
        let values = match kind {
            b'%' => 2 * length,
            // The value that the attributes belong to follows.
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

    /// Passes on the bytes of the text; returns the bytes behind it.
    fn in_text<'a>(&mut self, bytes: &'a [u8], left: u64) -> Result<&'a [u8], Garbage> {
        let count = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
        for (at, byte) in bytes[..count].iter().enumerate().rev().take(2) {
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
        self.ready.extend_from_slice(&bytes[..count]);
        self.grow(count as u64)?;
        let left = left - count as u64;
        if left == 0 {
            self.position = Position::Line;
            self.value_ended();
        } else {
            self.position = Position::Text(left);
        }
        Ok(&bytes[count..])
    }

    fn grow(&mut self, by: u64) -> Result<(), Garbage> {
        self.length += by;
        // The longest text has its own line before it, and an end.
        if LONGEST + 64 < self.length {
            return Err(Garbage(format!("a reply of more than {LONGEST} bytes")));
        }
        Ok(())
    }

    /// A value is complete, and with it perhaps the values around it.
    fn value_ended(&mut self) {
        while let Some(missing) = self.missing.last_mut() {
            *missing -= 1;
            if 0 < *missing {
                return;
            }
            self.missing.pop();
        }
        self.length = 0;
    }
}

/// A length, or `None` for `-1`, a missing value.
fn count(digits: &[u8]) -> Result<Option<u64>, Garbage> {
    if digits == b"-1" {
        return Ok(None);
    }
    let text = str::from_utf8(digits).ok();
    let text = text.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let length = text.and_then(|text| text.parse().ok()).map(Some);
    length.ok_or_else(|| Garbage(format!("`{}` where a length is", digits.escape_ascii())))
}

fn negative() -> Garbage {
    Garbage("a negative length".to_owned())
}

#[cfg(test)]
#[path = "framer_tests.rs"]
mod tests;
