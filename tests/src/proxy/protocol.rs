//! The protocols that the proxy supports. For each protocol, these functions find the ends of
//! messages and detect their kinds.

use super::{postgres, resp};

/// The protocol between a client and its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    Redis,
    Postgres,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    ToServer,
    ToClient,
}

/// The bytes of one direction of a connection, cut into messages.
#[derive(Debug)]
pub(super) struct Messages {
    protocol: Protocol,
    way: Direction,
    is_first: bool,
    bytes: Vec<u8>,
}

impl Messages {
    pub(super) fn new(protocol: Protocol, way: Direction) -> Self {
        Self {
            protocol,
            way,
            is_first: true,
            bytes: Vec::new(),
        }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Removes the next whole message and returns it. Returns `None` if the remaining bytes are not
    /// a whole message.
    pub(super) fn next(&mut self) -> Option<Vec<u8>> {
        if self.bytes.is_empty() {
            return None;
        }
        let end = match (self.protocol, self.way) {
            (Protocol::Redis, _) => resp::message(&self.bytes),
            (Protocol::Postgres, Direction::ToServer) => {
                postgres::command(&self.bytes, self.is_first)
            }
            (Protocol::Postgres, Direction::ToClient) => postgres::reply(&self.bytes),
        }?;
        self.is_first = false;
        let rest = self.bytes.split_off(end);
        Some(std::mem::replace(&mut self.bytes, rest))
    }
}

impl Protocol {
    /// Bytes that no message starts with.
    pub(super) fn garbage(self) -> &'static [u8] {
        match self {
            Self::Redis => b"\xffgarbage\r\n",
            Self::Postgres => postgres::GARBAGE,
        }
    }

    /// True if the command has a reply.
    pub(super) fn is_answered(self, command: &[u8]) -> bool {
        match self {
            Self::Postgres => postgres::is_answered(command),
            // A `SUBSCRIBE` command has no reply, because the server confirms it only with a pushed
            // message.
            Self::Redis => {
                let text = command[..command.len().min(48)].to_ascii_uppercase();
                let needle = b"SUBSCRIBE\r\n";
                !text.windows(needle.len()).any(|part| part == needle)
            }
        }
    }

    /// True if this message of the server does not answer a command.
    pub(super) fn is_push(self, message: &[u8]) -> bool {
        match self {
            Self::Redis => message.starts_with(b">"),
            Self::Postgres => postgres::is_push(message),
        }
    }

    /// True if a client has published the message (Redis `PUBLISH`, PostgreSQL `NOTIFY`).
    pub(super) fn is_published(self, message: &[u8]) -> bool {
        match self {
            Self::Redis => message.starts_with(b">3\r\n$7\r\nmessage\r\n"),
            Self::Postgres => postgres::is_notification(message),
        }
    }

    /// True if a reply is an error.
    pub(super) fn is_error(self, reply: &[u8]) -> bool {
        match self {
            Self::Redis => reply.starts_with(b"-"),
            Self::Postgres => postgres::is_error(reply),
        }
    }

    /// Makes an error reply in the format of the server.
    pub(super) fn error(self, text: &str) -> Vec<u8> {
        match self {
            Self::Redis => format!("-{text}\r\n").into_bytes(),
            Self::Postgres => postgres::error(text),
        }
    }
}
