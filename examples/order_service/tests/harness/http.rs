//! A minimal HTTP client for tests.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

/// An answer, with its head in lower case.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

pub(crate) fn get(address: &str, path: &str) -> Answer {
    send(address, &format!("GET {path}"), "")
}

pub(crate) fn post(address: &str, path: &str, json: &str) -> Answer {
    send(address, &format!("POST {path}"), json)
}

/// Sends `request`, which consists of a method and a path.
pub(crate) fn send(address: &str, request: &str, json: &str) -> Answer {
    send_with(address, request, "", json)
}

/// Sends `request` with additional headers. `headers` consists of complete lines.
pub(crate) fn send_with(address: &str, request: &str, headers: &str, json: &str) -> Answer {
    let mut stream = TcpStream::connect(address).expect("the service listens");
    let patience = Some(Duration::from_mins(1));
    stream.set_read_timeout(patience).expect("it is not zero");
    write!(
        stream,
        "{request} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{headers}\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{json}",
        json.len()
    )
    .expect("the service reads");
    read_answer(&mut BufReader::new(stream))
}

/// Reads only as many bytes as the head specifies, because a child process of the server may keep
/// the connection open after the answer. Without a length in the head, reads to the end of the
/// connection.
fn read_answer(stream: &mut BufReader<TcpStream>) -> Answer {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        let read = stream.read_line(&mut head).expect("the service answers");
        assert_ne!(read, 0, "not a whole answer: {head}");
    }
    let status = head[9..12].parse().expect("a status line");
    let head = head.trim_end().to_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length:"));
    let length = length.map_or(u64::MAX, |length| length.trim().parse().expect("a number"));
    let mut body = String::new();
    let mut rest = stream.take(length);
    rest.read_to_string(&mut body).expect("a whole answer");
    Answer { status, head, body }
}
