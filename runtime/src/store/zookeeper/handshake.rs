//! The handshake that opens a session, to learn the bounds that a server has for sessions.
//!
//! A client asks for a time-out, and the server answers with the nearest that it allows. ZooKeeper
//! has no request for the bounds.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::failure;
use crate::store::Failure;

/// Protocol, last transaction seen, time-out, session, password and whether reading is enough.
const REQUEST: usize = 4 + 8 + 4 + 8 + (4 + 16) + 1;

/// The answer has the protocol, the time-out and the session, and then a password.
const TIMEOUT_AT: usize = 4;
const SESSION_AT: usize = 8;
const FIXED: usize = 16;

/// More than any answer to a handshake is long.
const LONGEST: u32 = 1_024;

/// A request with the number 1 that closes the session.
const CLOSE: [u8; 12] = [0, 0, 0, 8, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xf5];

/// The shortest and the longest session that the server allows.
pub(super) async fn bounds(
    server: &str,
    patience: Duration,
) -> Result<(Duration, Duration), Failure> {
    let asking = async {
        let shortest = negotiated(server, 1).await?;
        let longest = negotiated(server, i32::MAX).await?;
        Ok((shortest, longest))
    };
    match timeout(patience, asking).await {
        Ok(bounds) => bounds,
        Err(_) => Err(failure::not_sent(failure::silent())),
    }
}

/// The time-out that the server allows in place of `wanted`. The session is closed again.
async fn negotiated(server: &str, wanted: i32) -> Result<Duration, Failure> {
    let broken = |error: std::io::Error| failure::not_sent(failure::disconnected(&error));
    let mut stream = TcpStream::connect(server).await.map_err(broken)?;
    stream.write_all(&request(wanted)).await.map_err(broken)?;
    let length = stream.read_u32().await.map_err(broken)?;
    if LONGEST < length {
        return Err(failure::garbled());
    }
    let mut answer = vec![0; usize::try_from(length).unwrap_or(0)];
    stream.read_exact(&mut answer).await.map_err(broken)?;
    let lasts = lasts(&answer).ok_or_else(failure::garbled)?;
    // Without this the session ends by itself.
    let _ = stream.write_all(&CLOSE).await;
    let _ = stream.read_u32().await;
    Ok(lasts)
}

fn request(wanted: i32) -> Vec<u8> {
    let mut request = Vec::with_capacity(4 + REQUEST);
    request.extend(u32::try_from(REQUEST).unwrap_or(0).to_be_bytes());
    request.extend([0; 4 + 8]);
    request.extend(wanted.to_be_bytes());
    request.extend([0; 8]);
    request.extend(16_u32.to_be_bytes());
    request.extend([0; 16 + 1]);
    request
}

/// The time-out in the answer, where that has a session.
pub(crate) fn lasts(answer: &[u8]) -> Option<Duration> {
    let lasts = answer.get(TIMEOUT_AT..SESSION_AT)?.try_into().ok()?;
    let lasts = u64::try_from(i32::from_be_bytes(lasts)).ok()?;
    let has_session = answer.get(SESSION_AT..FIXED)?.iter().any(|byte| *byte != 0);
    (has_session && 0 < lasts).then(|| Duration::from_millis(lasts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_without_a_session_is_none() {
        let mut answer = vec![0; FIXED];
        answer[TIMEOUT_AT..SESSION_AT].copy_from_slice(&4_000_i32.to_be_bytes());
        assert_eq!(lasts(&answer), None);
        answer[SESSION_AT] = 1;
        assert_eq!(lasts(&answer), Some(Duration::from_secs(4)));
        assert_eq!(lasts(&answer[..12]), None);
        assert_eq!(request(1).len(), 4 + REQUEST);
    }
}
