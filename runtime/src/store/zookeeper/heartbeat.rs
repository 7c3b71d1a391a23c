//! Conditions for a heartbeat to count.
//!
//! The leader ends sessions, but a client may be connected to any server. A follower answers a ping
//! without the leader. It reports the active sessions only when the leader requests them, which is
//! every half tick (`Leader.java`, `lead`; `Learner.java`, `ping`). So a heartbeat is three writes:
//!
//! 1. The client's server records that the session is active. The session's time is counted from
//!    this moment.
//! 2. After half a tick and a reserve, the leader has requested the active sessions from that
//!    server. This request arrived before the answer to the second write, because the leader sends
//!    both over the same connection.
//! 3. The server's reply to the leader arrived before the third write, for the same reason. So the
//!    answer shows that the leader counts the session's time from the first write or later.
//!
//! Writes need a majority, so a leader that was replaced during the pause cannot confirm one. If
//! the client has changed servers in the meantime, its new server has sent the leader a request to
//! take over the session. The leader then restarts the session's count (`LearnerHandler.java`,
//! `REVALIDATE`). A new leader restarts the count of each session (`SessionTrackerImpl.java`).

use std::time::Duration;

use super::error::Error;
use super::failure;
use super::line::Line;
use super::live::{Session, answered};
use crate::base::seeded::seeded;
use crate::store::session::service::{Answer, Trouble};

/// Keeps the session alive. On success, the session is confirmed for a time that counts from the
/// start of this call. `propagation` is the time after which a heartbeat has reached the leader.
pub(super) async fn beat(
    session: &Session,
    propagation: Duration,
    patience: Duration,
) -> Answer<()> {
    let writes = || async {
        let line = session.line(patience).await?;
        write(session, &line, patience).await
    };
    writes().await?;
    if seeded!(HeartbeatBelieved) {
        return Ok(());
    }
    tokio::time::sleep(propagation).await;
    writes().await?;
    writes().await
}

/// Writes the session's own znode, which exists as long as the session. After the write, the
/// client's server has all earlier changes. `sync` does not guarantee that: a leader answers it
/// without a majority, even after it was replaced.
pub(super) async fn write(session: &Session, line: &Line, patience: Duration) -> Answer<()> {
    match answered(patience, line.touch(&session.own)).await {
        Ok(()) => Ok(()),
        Err(Error::NoNode) => Err(Trouble::Ended),
        Err(error) => Err(failure::trouble(&error)),
    }
}
