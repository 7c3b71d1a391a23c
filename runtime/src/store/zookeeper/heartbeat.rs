//! When a heartbeat counts.
//!
//! The leader ends sessions, and a client is connected to any server. A follower answers a ping by
//! itself. It tells the leader which sessions it has heard of when the leader asks, which is every
//! half tick (`Leader.java`, `lead`; `Learner.java`, `ping`). So a heartbeat is three writes:
//!
//! 1. The server that the client is connected to hears of the session. This is the moment from
//!    which the session is counted.
//! 2. After half a tick and a reserve the leader has asked that server. The question came before
//!    the answer to this second write, because both take the same way.
//! 3. The server's reply to the leader came before this third write, for the same reason. So the
//!    answer shows that the leader has counted the session from the first write or later.
//!
//! Writes need a majority. So a leader that was replaced while it stood still confirms none. Where
//! the client has changed servers meanwhile, its new server has asked the leader to take the
//! session up, which counts it anew (`LearnerHandler.java`, `REVALIDATE`). A new leader counts each
//! session anew (`SessionTrackerImpl.java`).

use std::time::Duration;

use super::error::Error;
use super::failure;
use super::line::Line;
use super::live::{Session, answered};
use crate::base::seeded::seeded;
use crate::store::session::service::{Answer, Trouble};

/// Keeps the session alive. It is confirmed when this succeeds, and then counted from before this
/// was called. The leader has heard of a heartbeat after `hearing`.
pub(super) async fn beat(session: &Session, hearing: Duration, patience: Duration) -> Answer<()> {
    let writes = || async {
        let line = session.line(patience).await?;
        write(session, &line, patience).await
    };
    writes().await?;
    if seeded!(HeartbeatBelieved) {
        return Ok(());
    }
    tokio::time::sleep(hearing).await;
    writes().await?;
    writes().await
}

/// Writes the session's own znode, which is there as long as the session. Then the server that the
/// client is connected to has all that was carried out before, which `sync` does not promise: a
/// leader that was replaced answers it by itself.
pub(super) async fn write(session: &Session, line: &Line, patience: Duration) -> Answer<()> {
    match answered(patience, line.touch(&session.own)).await {
        Ok(()) => Ok(()),
        Err(Error::NoNode) => Err(Trouble::Ended),
        Err(error) => Err(failure::trouble(&error)),
    }
}
