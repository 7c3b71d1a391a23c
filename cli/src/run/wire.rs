//! Messages between `leasehold run` and the guardian of its command: nine bytes each.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::net::{SendFlags, send};
use tokio::net::UnixStream;

use super::clock::{Moment, nanos};
use super::schedule::Reason;

const SIZE: usize = 9;

/// A message from `leasehold run` to the guardian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// The lease lasts until this time.
    Deadline(Moment),
    /// Pass this signal on to the command.
    Signal(i32),
    /// Stop the command, now.
    Stop(Reason),
}

/// A message from the guardian to `leasehold run`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Notice {
    /// The command runs, with this id, which is also the id of its group.
    Started(i32),
    /// The command was suspended by this signal, such as SIGTSTP.
    Suspended(i32),
    /// The guardian has begun to stop the command.
    Stopping(Reason),
    /// The command has ended with this exit code.
    Ended(u8),
    /// This many processes started by the command still run.
    Left(u64),
    /// The system does not let this user kill this many processes.
    Refused(u64),
    /// The guardian has nothing left to do.
    Done,
}

/// A message, sent as a kind (one byte) and a number (eight bytes).
pub(super) trait Message: Sized {
    fn encode(self) -> (u8, u64);
    fn decode(kind: u8, value: u64) -> Option<Self>;
}

impl Message for Order {
    fn encode(self) -> (u8, u64) {
        match self {
            Self::Deadline(at) => (b'd', nanos(at)),
            Self::Signal(signal) => (b's', u64::from(signal.unsigned_abs())),
            Self::Stop(reason) => (b'x', number(reason)),
        }
    }

    fn decode(kind: u8, value: u64) -> Option<Self> {
        Some(match kind {
            b'd' => Self::Deadline(Moment::from_nanos(value)),
            b's' => Self::Signal(i32::try_from(value).ok()?),
            b'x' => Self::Stop(reason(value)?),
            _ => return None,
        })
    }
}

impl Message for Notice {
    fn encode(self) -> (u8, u64) {
        match self {
            Self::Started(id) => (b'p', u64::from(id.unsigned_abs())),
            Self::Suspended(signal) => (b'z', u64::from(signal.unsigned_abs())),
            Self::Stopping(reason) => (b'x', number(reason)),
            Self::Ended(code) => (b'e', u64::from(code)),
            Self::Left(count) => (b'l', count),
            Self::Refused(count) => (b'r', count),
            Self::Done => (b'.', 0),
        }
    }

    fn decode(kind: u8, value: u64) -> Option<Self> {
        Some(match kind {
            b'p' => Self::Started(i32::try_from(value).ok()?),
            b'z' => Self::Suspended(i32::try_from(value).ok()?),
            b'x' => Self::Stopping(reason(value)?),
            b'e' => Self::Ended(u8::try_from(value).ok()?),
            b'l' => Self::Left(value),
            b'r' => Self::Refused(value),
            b'.' => Self::Done,
            _ => return None,
        })
    }
}

const REASONS: [Reason; 4] = [
    Reason::Lost,
    Reason::TakenAway,
    Reason::MaxHold,
    Reason::Orphaned,
];

fn number(reason: Reason) -> u64 {
    let at = REASONS.iter().position(|known| *known == reason);
    at.map_or(u64::MAX, |at| at as u64)
}

fn reason(number: u64) -> Option<Reason> {
    REASONS.get(usize::try_from(number).ok()?).copied()
}

/// Encodes a message.
pub(super) fn bytes(message: impl Message) -> [u8; SIZE] {
    let (kind, value) = message.encode();
    let mut bytes = [kind; SIZE];
    bytes[1..].copy_from_slice(&value.to_le_bytes());
    bytes
}

/// Decodes a message, if its kind is known.
pub(super) fn message<M: Message>(bytes: [u8; SIZE]) -> Option<M> {
    let [kind, value @ ..] = bytes;
    M::decode(kind, u64::from_le_bytes(value))
}

/// One end of the connection between `leasehold run` and the guardian.
pub(super) struct Channel {
    socket: UnixStream,
    buffer: [u8; SIZE],
    filled: usize,
}

impl Channel {
    pub(super) fn new(socket: std::os::unix::net::UnixStream) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket: UnixStream::from_std(socket)?,
            buffer: [0; SIZE],
            filled: 0,
        })
    }

    /// Sends a message, and ignores errors. A peer that is gone needs no messages. If the peer
    /// stalls for hours, the connection is full and messages are lost. The loss of a deadline is
    /// harmless, because each deadline replaces the previous one.
    pub(super) fn send(&self, message: impl Message) {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let _ = send(&self.socket, &bytes(message), flags);
    }

    /// Returns the next message, or `None` if the peer is gone. Cancel safe.
    pub(super) async fn next<M: Message>(&mut self) -> Option<M> {
        loop {
            if let Some(message) = self.complete() {
                return Some(message);
            }
            self.socket.readable().await.ok()?;
            match self.socket.try_read(&mut self.buffer[self.filled..]) {
                Ok(0) => return None,
                Ok(read) => self.filled += read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => return None,
            }
        }
    }

    /// Returns the next message if it has already arrived. Reads the socket directly, because the
    /// runtime may not have noticed yet that the socket is readable.
    pub(super) fn queued<M: Message>(&mut self) -> Option<M> {
        loop {
            if let Some(message) = self.complete() {
                return Some(message);
            }
            match rustix::io::read(&self.socket, &mut self.buffer[self.filled..]) {
                Ok(0) | Err(_) => return None,
                Ok(read) => self.filled += read,
            }
        }
    }

    /// Takes a complete message out of the buffer. Unknown messages are skipped.
    fn complete<M: Message>(&mut self) -> Option<M> {
        if self.filled < SIZE {
            return None;
        }
        self.filled = 0;
        message(self.buffer)
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Fails if a message is decoded as a different one.
    #[test]
    fn each_message_arrives_unchanged() {
        let orders = [
            Order::Deadline(Duration::from_nanos(123_456_789_012)),
            Order::Signal(15),
            Order::Stop(Reason::MaxHold),
        ];
        for order in orders {
            assert_eq!(message(bytes(order)), Some(order));
        }
        let notice = [
            Notice::Started(4_194_304),
            Notice::Suspended(20),
            Notice::Stopping(Reason::Orphaned),
            Notice::Ended(255),
            Notice::Left(3),
            Notice::Refused(1),
            Notice::Done,
        ];
        for one in notice {
            assert_eq!(message(bytes(one)), Some(one));
        }
        assert_eq!(message::<Order>([b'?'; SIZE]), None);
    }
}
