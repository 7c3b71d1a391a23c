//! Functions that find the ends of PostgreSQL messages, version 3 of the protocol.
//!
//! This module calls the protocol's own messages frames. A message of a client is all frames up to
//! one that requests an answer, such as `Sync`. A message of the server is a whole answer, up to
//! `ReadyForQuery`, or one frame that answers no command.

/// The length of the first whole message of a client, or `None` while it is incomplete. The first
/// message of a connection has no type byte.
pub(super) fn command(bytes: &[u8], is_first: bool) -> Option<usize> {
    if is_first {
        let end = length(bytes)?;
        return (bytes.len() >= end).then_some(end);
    }
    let mut end = 0;
    loop {
        let (kind, next) = frame(bytes, end)?;
        end = next;
        // Frames of these types end a message: Sync, Query, a password message, and Terminate.
        if matches!(kind, b'S' | b'Q' | b'p' | b'X') {
            return Some(end);
        }
    }
}

/// The length of the first whole message of a server, or `None` while it is incomplete.
pub(super) fn reply(bytes: &[u8]) -> Option<usize> {
    let (_, first) = frame(bytes, 0)?;
    if is_push(&bytes[..first]) {
        return Some(first);
    }
    let mut end = 0;
    loop {
        let (kind, next) = frame(bytes, end)?;
        let is_last = kind == b'Z' || kind == b'E' && ends_the_connection(&bytes[end..next]);
        end = next;
        if is_last {
            return Some(end);
        }
    }
}

/// True if the message does not answer a command. The server sends such a message unasked, or as a
/// step of the log-in, such as the request for a password.
pub(super) fn is_push(message: &[u8]) -> bool {
    match message.first() {
        Some(b'A' | b'N') => true,
        // Authentication messages are steps of the log-in. AuthenticationOk begins the answer.
        Some(b'R') => message.get(5..9).is_some_and(|code| code != [0; 4]),
        _ => false,
    }
}

/// True if the message reports a `NOTIFY`.
pub(super) fn is_notification(message: &[u8]) -> bool {
    message.starts_with(b"A")
}

/// True if the command gets a separate answer. `Terminate` gets none. A password message gets none
/// either, because it is a part of the log-in.
pub(super) fn is_answered(command: &[u8]) -> bool {
    !matches!(command.first(), Some(b'p' | b'X'))
}

/// True if an answer contains an error.
pub(super) fn is_error(reply: &[u8]) -> bool {
    let mut at = 0;
    while let Some((kind, next)) = frame(reply, at) {
        if kind == b'E' {
            return true;
        }
        at = next;
    }
    false
}

/// Makes a whole answer that reports an error. `text` begins with the SQLSTATE.
pub(super) fn error(text: &str) -> Vec<u8> {
    let code = text.split(' ').next().unwrap_or_default();
    let fields = format!("SERROR\0VERROR\0C{code}\0M{text}\0\0");
    let length = u32::try_from(fields.len() + 4).expect("a short text");
    let mut message = vec![b'E'];
    message.extend(length.to_be_bytes());
    message.extend(fields.into_bytes());
    message.extend(b"Z\0\0\0\x05I");
    message
}

/// Bytes that are not a valid message: no message has this type or this length.
pub(super) const GARBAGE: &[u8] = b"\xff\xff\xff\xff\xffgarbage";

fn ends_the_connection(error: &[u8]) -> bool {
    [&b"VFATAL\0"[..], b"VPANIC\0"]
        .iter()
        .any(|severity| error.windows(severity.len()).any(|part| part == *severity))
}

/// Returns the type and the end of the frame that begins at `at`, or `None` if it is incomplete.
fn frame(bytes: &[u8], at: usize) -> Option<(u8, usize)> {
    let kind = *bytes.get(at)?;
    let end = at + 1 + length(&bytes[at + 1..])?;
    (bytes.len() >= end).then_some((kind, end))
}

fn length(bytes: &[u8]) -> Option<usize> {
    let length: [u8; 4] = bytes.get(..4)?.try_into().ok()?;
    Some(u32::from_be_bytes(length) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    const READY: &[u8] = b"Z\0\0\0\x05I";

    #[test]
    fn a_command_ends_with_a_request_for_an_answer() {
        let parse = b"P\0\0\0\x07s\0\0";
        let sync = b"S\0\0\0\x04";
        let both = [&parse[..], sync].concat();
        assert_eq!(command(&[&both, READY].concat(), false), Some(both.len()));
        assert_eq!(command(parse, false), None);
        let start = b"\0\0\0\x08\x04\xd2\x16\x2f";
        assert_eq!(command(start, true), Some(8));
        assert_eq!(command(&start[..7], true), None);
    }

    #[test]
    fn a_reply_ends_with_ready_for_query() {
        let reported = b"A\0\0\0\x0a\0\0\0\0c\0";
        assert_eq!(reply(&[reported, READY].concat()), Some(reported.len()));
        let done = b"C\0\0\0\x07OK\0";
        let both = [&done[..], READY].concat();
        assert_eq!(reply(&[&both, &reported[..]].concat()), Some(both.len()));
        for cut in 0..both.len() {
            assert_eq!(reply(&both[..cut]), None, "{cut}");
        }
        let fatal = b"E\0\0\0\x0cVFATAL\0\0";
        assert_eq!(reply(fatal), Some(fatal.len()));
        let reported = error("40001 again");
        assert_eq!(reply(&reported), Some(reported.len()));
        assert!(is_error(&reported) && !is_error(&both));
    }
}
