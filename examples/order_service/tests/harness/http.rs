//! Just enough HTTP for a test.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

/// An answer, its head in lower case.
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

fn send(address: &str, request: &str, json: &str) -> Answer {
    send_with(address, request, "", json)
}

/// `headers` is lines, each with its end.
pub(crate) fn send_with(address: &str, request: &str, headers: &str, json: &str) -> Answer {
    let mut stream = TcpStream::connect(address).expect("the service listens");
    let patience = Some(Duration::from_secs(60));
    stream.set_read_timeout(patience).expect("it is not zero");
    write!(
        stream,
        "{request} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{headers}\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{json}",
        json.len()
    )
    .expect("the service reads");
    let mut answer = String::new();
    stream
        .read_to_string(&mut answer)
        .expect("the service answers");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a whole answer");
    Answer {
        status: head[9..12].parse().expect("a status line"),
        head: head.to_lowercase(),
        body: body.to_owned(),
    }
}
