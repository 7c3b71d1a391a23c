//! The handshake that opens or resumes a session, and finds a server's bounds for the time-outs of
//! sessions.
//!
//! A client requests a time-out, and the server grants the nearest allowed one. ZooKeeper has no
//! request for the bounds. So a client opens two sessions to find them: one with the shortest
//! possible time-out, and one with the longest.

use std::time::Duration;

use futures_util::future::join;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::error::Error;
use super::jute::{In, Out};

/// The length of a session's password, in bytes.
const PASSWORD: usize = 16;

/// Bound on the length of an answer during the handshake, in bytes. No real answer is that long.
const LONGEST: u32 = 1_024;

/// The code of a request that closes the session.
pub(super) const CLOSE: i32 = -11;

/// Id and password with which a client resumes a session.
#[derive(Debug, Clone)]
pub(super) struct Ticket {
    pub(super) id: i64,
    password: Vec<u8>,
}

/// Ticket and time-out of a session that a server has granted.
#[derive(Debug, Clone)]
pub(super) struct Granted {
    pub(super) lasts: Duration,
    pub(super) ticket: Ticket,
}

/// Returns the shortest and the longest lifetime that the server allows for a session.
pub(super) async fn bounds(
    server: &str,
    patience: Duration,
) -> Result<(Duration, Duration), Error> {
    let asking = join(allowed(server, 1), allowed(server, i32::MAX));
    let (shortest, longest) = timeout(patience, asking)
        .await
        .map_err(|_| Error::Timeout)?;
    Ok((shortest?, longest?))
}

/// Opens a session with the time-out `asked`, and closes it. Returns the time-out that the server
/// granted.
async fn allowed(server: &str, asked: i32) -> Result<Duration, Error> {
    let mut stream = connected(server).await?;
    let granted = shake(&mut stream, asked, None).await?;
    let mut close = Vec::new();
    Out::default().int(1).int(CLOSE).frame_to(&mut close);
    // If the close request fails, the session ends after its time-out.
    let _ = stream.write_all(&close).await;
    let _ = stream.read_u32().await;
    Ok(granted.lasts)
}

pub(super) async fn connected(server: &str) -> Result<TcpStream, Error> {
    let stream = TcpStream::connect(server).await;
    let stream = stream.map_err(|error| Error::disconnected(&error))?;
    // An error is ignored, because without this option requests are only slower.
    let _ = stream.set_nodelay(true);
    Ok(stream)
}

/// Opens a session with the time-out `asked`, in milliseconds. If there is a ticket in `resumed`,
/// resumes that session instead.
pub(super) async fn shake(
    stream: &mut TcpStream,
    asked: i32,
    resumed: Option<&Ticket>,
) -> Result<Granted, Error> {
    let (id, password) = match resumed {
        Some(ticket) => (ticket.id, ticket.password.as_slice()),
        None => (0, &[0; PASSWORD][..]),
    };
    // The fields in this order: version 0 of the protocol, the last transaction seen (none), the
    // time-out, and the session's id. With the flag `false`, a server in read-only mode refuses the
    // session.
    let request = Out::default().int(0).long(0).int(asked).long(id);
    exchange(stream, &request.bytes(password).flag(false))
        .await
        .and_then(|answer| granted(&answer))
}

/// Sends one request, and returns the answer.
pub(super) async fn exchange(stream: &mut TcpStream, request: &Out) -> Result<Vec<u8>, Error> {
    let broken = |error| Error::disconnected(&error);
    let mut frame = Vec::new();
    request.frame_to(&mut frame);
    stream.write_all(&frame).await.map_err(broken)?;
    let length = stream.read_u32().await.map_err(broken)?;
    if LONGEST < length {
        return Err(Error::Garbled);
    }
    let mut answer = vec![0; usize::try_from(length).unwrap_or(0)];
    stream.read_exact(&mut answer).await.map_err(broken)?;
    Ok(answer)
}

fn granted(answer: &[u8]) -> Result<Granted, Error> {
    let mut answer = In(answer);
    let _version = answer.int()?;
    let lasts = u64::try_from(answer.int()?).unwrap_or(0);
    let id = answer.long()?;
    if id == 0 || lasts == 0 {
        return Err(Error::SessionExpired);
    }
    let password = answer.bytes()?.to_vec();
    Ok(Granted {
        lasts: Duration::from_millis(lasts),
        ticket: Ticket { id, password },
    })
}

/// True if the bytes of an answer grant a session. Fuzz tests call this function with arbitrary
/// bytes.
#[cfg(feature = "__test")]
pub(crate) fn grants(answer: &[u8]) -> bool {
    granted(answer).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handshake_without_a_session_is_refused() {
        let mut answer = vec![0; 4 + 4 + 8 + 4];
        answer[4..8].copy_from_slice(&4_000_i32.to_be_bytes());
        assert_eq!(granted(&answer).err(), Some(Error::SessionExpired));
        answer[8] = 1;
        let lasts = granted(&answer).map(|granted| granted.lasts);
        assert_eq!(lasts, Ok(Duration::from_secs(4)));
        assert_eq!(granted(&answer[..12]).err(), Some(Error::Garbled));
    }
}
