//! Heartbeats that certainly reach the leader of the ensemble.
//!
//! The leader ends sessions without heartbeats, but a client may be connected to any server. A
//! follower answers a ping without the leader. It reports its active sessions only at the leader's
//! request, which arrives every half tick (`Leader.java`, `lead`; `Learner.java`, `ping`). So a
//! heartbeat is three writes:
//!
//! 1. At the first write, the client's server records that the session is active. The client counts
//!    the session's time from the start of this write.
//! 2. The second write follows after half a tick and a reserve. In this pause, the leader has
//!    requested the active sessions from the client's server. The request arrived before the answer
//!    to the second write, because the leader sends both over the same connection.
//! 3. The third write follows after that answer. The server's list of active sessions reached the
//!    leader before this write, because the server sends both over the same connection. So the
//!    answer to the third write shows that the leader counts the session's time from the first
//!    write or later.
//!
//! Writes need a majority, so a leader replaced during the pause cannot confirm a write. If the
//! client has changed servers in the meantime, its new server has sent the leader a request to take
//! over the session. The leader then restarts the session's count (`LearnerHandler.java`,
//! `REVALIDATE`). A new leader restarts the count of each session (`SessionTrackerImpl.java`).

use std::time::Duration;

use super::error::Error;
use super::failure;
use super::line::Line;
use super::live::{Session, answered};
use crate::base::seeded::seeded;
use crate::store::session::service::{Answer, Trouble};

/// Keeps the session alive with three writes. On success, the session is confirmed for a time that
/// counts from the start of this call. `propagation` is the pause after the first write.
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
/// client's server has all earlier changes. `sync` does not guarantee this: even a replaced leader
/// answers a `sync`, which needs no majority.
pub(super) async fn write(session: &Session, line: &Line, patience: Duration) -> Answer<()> {
    match answered(patience, line.touch(&session.own)).await {
        Ok(()) => Ok(()),
        Err(Error::NoNode) => Err(Trouble::Ended),
        Err(error) => Err(failure::trouble(&error)),
    }
}
