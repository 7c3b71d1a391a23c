//! The part of ZooKeeper's protocol that tests need. A connection has at most one request in
//! flight.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Time limit for an answer.
const LIMIT: Duration = Duration::from_secs(30);

/// The session timeout that the client requests, in milliseconds. The server reduces it to its own
/// maximum.
const SESSION_MS: i32 = 40_000;

pub(super) const CREATE: i32 = 1;
pub(super) const DELETE: i32 = 2;
pub(super) const EXISTS: i32 = 3;
pub(super) const GET_DATA: i32 = 4;
pub(super) const SET_ACL: i32 = 7;
pub(super) const GET_CHILDREN: i32 = 8;
pub(super) const SYNC: i32 = 9;
pub(super) const AUTH: i32 = 100;
const CLOSE_SESSION: i32 = -11;

/// The request number (xid) of every login request, fixed by ZooKeeper's protocol.
const AUTH_NUMBER: i32 = -4;

/// A request, or a part of a request.
#[derive(Debug, Default)]
pub(super) struct Request(Vec<u8>);

impl Request {
    pub(super) fn new() -> Self {
        Self::default()
    }

    pub(super) fn int(mut self, number: i32) -> Self {
        self.0.extend(number.to_be_bytes());
        self
    }

    fn long(mut self, number: i64) -> Self {
        self.0.extend(number.to_be_bytes());
        self
    }

    pub(super) fn flag(mut self, flag: bool) -> Self {
        self.0.push(u8::from(flag));
        self
    }

    pub(super) fn bytes(mut self, bytes: &[u8]) -> Self {
        let length = i32::try_from(bytes.len()).expect("a short text");
        self = self.int(length);
        self.0.extend(bytes);
        self
    }

    pub(super) fn text(self, text: &str) -> Self {
        self.bytes(text.as_bytes())
    }
}

/// An answer, read from start to end.
#[derive(Debug)]
pub(super) struct Answer {
    bytes: Vec<u8>,
    at: usize,
}

impl Answer {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let taken = self.bytes[self.at..][..N].try_into();
        self.at += N;
        taken.expect("so many bytes")
    }

    pub(super) fn int(&mut self) -> i32 {
        i32::from_be_bytes(self.take())
    }

    pub(super) fn long(&mut self) -> i64 {
        i64::from_be_bytes(self.take())
    }

    /// Reads a length, and then that number of bytes. A length of -1 means no bytes.
    pub(super) fn bytes(&mut self) -> Vec<u8> {
        let length = usize::try_from(self.int()).unwrap_or(0);
        let bytes = self.bytes[self.at..][..length].to_vec();
        self.at += length;
        bytes
    }

    pub(super) fn text(&mut self) -> String {
        String::from_utf8(self.bytes()).expect("text")
    }
}

/// A connection and its session. Dropping the connection ends the session.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    number: i32,
}

impl Connection {
    pub(super) fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, LIMIT)?;
        stream.set_read_timeout(Some(LIMIT))?;
        stream.set_nodelay(true)?;
        let mut connection = Self { stream, number: 0 };
        let hello = Request::new().int(0).long(0).int(SESSION_MS).long(0);
        connection.send(&hello.bytes(&[0; 16]).flag(false))?;
        let mut welcome = connection.receive()?;
        let (_version, timeout) = (welcome.int(), welcome.int());
        if timeout <= 0 {
            return Err(io::Error::other("the session has ended"));
        }
        Ok(connection)
    }

    /// Sends a request, and returns the answer or the server's error code.
    pub(super) fn ask(&mut self, code: i32, request: Request) -> io::Result<Result<Answer, i32>> {
        self.number += 1;
        let number = if code == AUTH {
            AUTH_NUMBER
        } else {
            self.number
        };
        let mut whole = Request::new().int(number).int(code);
        whole.0.extend(request.0);
        self.send(&whole)?;
        let mut answer = self.receive()?;
        let (answered, _zxid, error) = (answer.int(), answer.long(), answer.int());
        assert_eq!(answered, number, "each request is answered in its turn");
        Ok(if error == 0 { Ok(answer) } else { Err(error) })
    }

    fn send(&mut self, request: &Request) -> io::Result<()> {
        let whole = Request::new().bytes(&request.0);
        self.stream.write_all(&whole.0)
    }

    fn receive(&mut self) -> io::Result<Answer> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length)?;
        let length = usize::try_from(i32::from_be_bytes(length)).expect("a length");
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes)?;
        Ok(Answer { bytes, at: 0 })
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let close = Request::new().int(self.number + 1).int(CLOSE_SESSION);
        // The result is ignored. If the server cannot be reached, the session ends at its timeout.
        let _ = self.send(&close);
    }
}
