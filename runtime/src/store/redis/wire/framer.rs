//! Where replies may be cut, and whether they are replies at all: bytes in, a verdict out.
//!
//! The parser of the crate `redis` begins a line anew with every piece of it, and waits for the end
//! of a line, or of as many bytes as it was promised, however long that takes. This goes in front
//! of it. It looks at each byte of the protocol's lines once, passes lines on whole, and refuses
//! what no server answers to us: so a reply costs what its length costs, in whichever pieces it
//! comes, and there is a bound to what a server can make us keep.
//!
//! It knows no socket. [`Framer::accept`] is given what was read and keeps the line that has not
//! ended; [`Framer::ready`] is what may be parsed, until that is [taken](Framer::take).

use std::fmt;

/// The longest line, its end included. Errors are lines, and so are scripts' messages in them.
const LONGEST_LINE: usize = 64 * 1024;

/// The longest line of a type that is a number, or less.
const LONGEST_NUMBER: usize = 32;

/// The most values that one may consist of. A cluster has 16,384 slots.
const MOST: u64 = 64 * 1024;

/// The longest text, and the longest reply with all that is in it. What we ask for has a few
/// kilobytes; the map of a cluster may have more.
const LONGEST: u64 = 16 * 1024 * 1024;

/// So deep an array may lie in arrays. What we ask for goes three deep.
const DEEPEST: usize = 16;

/// What is not a reply, in words that follow "the server answered with".
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Garbage(String);

impl fmt::Display for Garbage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Garbage {}

/// Where in a reply the bytes have come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In a line, or where one begins.
    Connection,
    /// So many bytes before the end of a text, the end of its line included.
    Text(u64),
}

/// Follows the replies of one connection.
#[derive(Debug)]
pub(crate) struct Framer {
    place: Place,
    /// The line that has not ended.
    line: Vec<u8>,
    /// How many values are missing at each depth.
    missing: Vec<u64>,
    /// How long the reply is so far.
    length: u64,
    /// What may be parsed, from `taken` on.
    ready: Vec<u8>,
    taken: usize,
    /// How many bytes have been looked at one by one.
    #[cfg(test)]
    looked_at: u64,
}

impl Framer {
    pub(crate) fn new() -> Self {
        Self {
            place: Place::Connection,
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
            bytes = match self.place {
                Place::Connection => self.in_line(bytes)?,
                Place::Text(left) => self.in_text(bytes, left)?,
            };
        }
        Ok(())
    }

    /// What may be parsed. Nothing if what has come is the beginning of a line.
    pub(crate) fn ready(&self) -> &[u8] {
        &self.ready[self.taken..]
    }

    /// So much of it has been taken.
    pub(crate) fn take(&mut self, count: usize) {
        self.taken += count;
        if self.ready.len() <= self.taken {
            self.ready.clear();
            self.taken = 0;
        }
    }

    /// Looks for the end of the line; what is behind it.
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
            // Its space is used again.
            self.line = line;
            self.line.clear();
        } else if self.line.len() == longest {
            return Err(self.endless());
        }
        Ok(&bytes[count..])
    }

    /// How long this line may be, by its first byte, which is the first of `bytes` if the line
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
        self.place = Place::Text(length + 2);
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
            // The value that it is said of follows.
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

    /// Passes on what belongs to the text; what is behind it.
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
            self.place = Place::Connection;
            self.value_ended();
        } else {
            self.place = Place::Text(left);
        }
        Ok(&bytes[count..])
    }

    fn grow(&mut self, by: u64) -> Result<(), Garbage> {
        self.length += by;
        // A text of the greatest length has its own line before it, and an end.
        if LONGEST + 64 < self.length {
            return Err(Garbage(format!("a reply of more than {LONGEST} bytes")));
        }
        Ok(())
    }

    /// A value is complete, and with it perhaps those that it is in.
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

/// A length; nothing for the `-1` of what is not there.
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
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What comes out, and the verdict, of a stream that comes in pieces of these lengths, again
    /// and again.
    fn passed(stream: &[u8], pieces: &[usize]) -> (Vec<u8>, Option<Garbage>, Framer) {
        let (mut framer, mut out, mut rest) = (Framer::new(), Vec::new(), stream);
        for piece in pieces.iter().cycle() {
            let (now, later) = rest.split_at((*piece).min(rest.len()));
            rest = later;
            let garbage = framer.accept(now).err();
            // As a reader with little room does.
            while !framer.ready().is_empty() {
                let count = framer.ready().len().min(7);
                out.extend_from_slice(&framer.ready()[..count]);
                framer.take(count);
            }
            if garbage.is_some() || rest.is_empty() {
                return (out, garbage, framer);
            }
        }
        unreachable!("the pieces come again and again")
    }

    #[track_caller]
    fn refused(stream: &[u8], says: &str) {
        for pieces in [&[1][..], &[4096]] {
            let (_, garbage, _) = passed(stream, pieces);
            let garbage = garbage.expect("no reply").to_string();
            assert!(garbage.contains(says), "{garbage}");
            assert!(garbage.len() < 200, "it shows all of it: {garbage}");
        }
    }

    fn whole(stream: &[u8]) -> bool {
        let (out, garbage, framer) = passed(stream, &[stream.len().max(1)]);
        garbage.is_none() && out == stream && framer.line.is_empty() && framer.missing.is_empty()
    }

    #[test]
    fn replies_of_every_type_pass() {
        for reply in [
            "+OK\r\n",
            "-ERR a \r b \n c\r\n",
            ":-12\r\n",
            "$-1\r\n",
            "$0\r\n\r\n",
            "$5\r\na\r\nbc\r\n",
            "*-1\r\n",
            "*0\r\n",
            "*2\r\n$3\r\nGET\r\n*1\r\n:1\r\n",
            "%1\r\n+k\r\n$1\r\nv\r\n",
            "~1\r\n#t\r\n",
            ">2\r\n+message\r\n_\r\n",
            "|1\r\n+ttl\r\n:3\r\n+OK\r\n",
            "=6\r\ntxt:ab\r\n",
            "!3\r\nERR\r\n",
            ",1.5\r\n",
            "(123456789012345678901234567890\r\n",
        ] {
            assert!(whole(reply.as_bytes()), "{reply:?}");
            for cut in 1..reply.len() {
                let (_, garbage, framer) = passed(&reply.as_bytes()[..cut], &[1]);
                assert_eq!(garbage, None, "{reply:?} up to {cut}");
                let open = !framer.line.is_empty() || !framer.missing.is_empty();
                assert!(
                    open || framer.place != Place::Connection,
                    "{reply:?} up to {cut}"
                );
            }
        }
    }

    /// Fails if something is waited for that no server sends us: a caller would wait with it, and
    /// its memory grow.
    #[test]
    fn what_is_no_reply_is_refused_as_soon_as_it_is_seen() {
        let endless = [b"+".to_vec(), vec![b'x'; LONGEST_LINE]].concat();
        refused(
            &endless,
            "a line that does not end within 65536 bytes and begins with `+xxx",
        );
        refused(
            b"*0000000000000000000000000000000000000",
            "does not end within 32 bytes",
        );
        refused(b"HTTP/1.1 400 Bad Request\r\n", "0x48");
        refused(b"\x00\xff", "0x00");
        refused(b"\r\n", "0x0d");
        refused(
            b"$9223372036854775807\r\n",
            "a text of 9223372036854775807 bytes",
        );
        refused(b"$16777217\r\n", "16777216 are the most");
        refused(b"*65537\r\n", "65537 values");
        refused(b"%99999999999999999999\r\n", "where a length is");
        refused(b"$-2\r\n", "`-2` where a length is");
        refused(b"%-1\r\n", "negative");
        refused(b"$x\r\n", "`x` where a length is");
        refused(b"$\r\n", "where a length is");
        refused(b"$1\r\nabc", "does not end where it should");
        refused("*1\r\n".repeat(17).as_bytes(), "more than 16 deep");
        let mut large = b"*3\r\n".to_vec();
        for _ in 0..3 {
            large.extend_from_slice(b"$8388608\r\n");
            large.resize(large.len() + 8 * 1024 * 1024, b'x');
            large.extend_from_slice(b"\r\n");
        }
        let (_, garbage, _) = passed(&large, &[1 << 20]);
        let garbage = garbage.expect("too long").to_string();
        assert!(
            garbage.contains("a reply of more than 16777216"),
            "{garbage}"
        );
    }

    #[test]
    fn the_longest_that_is_allowed_passes() {
        let line = [vec![b'-'; LONGEST_LINE - 2], b"\r\n".to_vec()].concat();
        assert!(whole(&line));
        let text = usize::try_from(LONGEST).expect("it fits");
        let text = [
            b"$16777216\r\n".to_vec(),
            vec![b'x'; text],
            b"\r\n".to_vec(),
        ]
        .concat();
        assert!(whole(&text));
        let deep = ["*1\r\n".repeat(DEEPEST), ":1\r\n".to_owned()].concat();
        assert!(whole(deep.as_bytes()));
    }

    /// Fails if a byte is looked at again because more has come: a long reply in small pieces would
    /// cost the square of its length.
    #[test]
    fn every_byte_is_looked_at_once() {
        let line = [vec![b'+'; LONGEST_LINE - 2], b"\r\n".to_vec()].concat();
        let map = "*3\r\n:1\r\n:2\r\n$4\r\nnode\r\n".repeat(10_000);
        for stream in [line, map.into_bytes()] {
            for piece in [1, 3, 4096] {
                let (out, garbage, framer) = passed(&stream, &[piece]);
                assert_eq!((out.len(), garbage), (stream.len(), None));
                assert!(
                    framer.looked_at <= stream.len() as u64,
                    "{}",
                    framer.looked_at
                );
            }
        }
    }

    /// A reply, or nearly.
    fn reply() -> impl Strategy<Value = Vec<u8>> {
        let leaf = prop_oneof![
            "[+:,(-][a-z0-9 \n-]{0,12}\r\n".prop_map(String::into_bytes),
            "[a-z\r\n$*]{0,20}"
                .prop_map(|text| format!("${}\r\n{text}\r\n", text.len()).into_bytes()),
            Just(b"$-1\r\n".to_vec()),
            Just(b"_\r\n".to_vec()),
        ];
        leaf.prop_recursive(4, 32, 5, |inner| {
            prop::collection::vec(inner, 0..5).prop_map(|values| {
                let mut reply = format!("*{}\r\n", values.len()).into_bytes();
                reply.extend(values.concat());
                reply
            })
        })
    }

    proptest! {
        /// Fails if the pieces that a reply comes in make a difference, if a part of a line is
        /// passed on, or if what the crate's parser takes is refused.
        #[test]
        fn the_pieces_do_not_matter(
            replies in prop::collection::vec(reply(), 1..6),
            pieces in prop::collection::vec(1_usize..40, 1..8),
        ) {
            let stream = replies.concat();
            let (out, garbage, framer) = passed(&stream, &pieces);
            prop_assert_eq!(garbage, None);
            prop_assert_eq!(&out, &stream);
            prop_assert!(framer.missing.is_empty() && framer.line.is_empty());
            for reply in replies {
                prop_assert!(whole(&reply));
            }
        }

        #[test]
        fn noise_is_judged_alike_in_any_pieces(
            noise in prop::collection::vec(prop::sample::select(b"+-:$*%|=_#,(>~!\r\n0123xy".to_vec()), 0..80),
            pieces in prop::collection::vec(1_usize..9, 1..8),
        ) {
            let at_once = passed(&noise, &[noise.len().max(1)]);
            let in_pieces = passed(&noise, &pieces);
            prop_assert_eq!(at_once.1, in_pieces.1);
            prop_assert_eq!(at_once.0, in_pieces.0);
        }
    }
}
