//! Keeps sessions alive with heartbeats, and listens for their end.

use std::future::pending;
use std::pin::pin;
use std::sync::Arc;

use futures_util::future::select;

use super::live_session::{LiveSession, RETRY, pause_until};
use super::service::{Service, Trouble};
use super::shared::Shared;
use crate::base::reporter;
use crate::base::seeded::seeded;

/// Keeps a session alive until it is over, and listens for the server's notifications about it.
/// Both run concurrently, because a single heartbeat may take longer than the grace of a revoked
/// lock. The lock's holder must be notified of the revocation before this grace ends.
pub(super) async fn keep<S: Service>(shared: Arc<Shared<S>>, session: Arc<LiveSession<S>>) {
    let beats = pin!(beats(&shared, &session));
    let receives = pin!(receives(&shared, &session));
    select(beats, receives).await;
}

/// Sends the heartbeats of a session until it is over.
async fn beats<S: Service>(shared: &Arc<Shared<S>>, session: &Arc<LiveSession<S>>) {
    let (mut failed, clock) = (false, shared.clock);
    loop {
        let next = session.next(failed, clock.now());
        if failed {
            tokio::time::sleep(pause_until(clock, next)).await;
        } else {
            // If the server reports that the session may be over, the next heartbeat is sent at
            // once.
            let doubted = pin!(session.doubted.notified());
            select(pin!(session.waits(clock, next)), doubted).await;
        }
        if session.is_over() {
            return shared.close(session).await;
        }
        if shared.closes_if_idle(session).await {
            return;
        }
        let (sent, patience) = (clock.now(), session.patience());
        failed = match shared.service.heartbeat(&session.server, patience).await {
            Ok(()) => {
                session.confirm(sent);
                false
            }
            Err(Trouble::Ended) => {
                shared.session_ended(session);
                // The session is also closed on the server, because its nodes may remain even if
                // the session's own key is gone.
                return shared.close(session).await;
            }
            Err(Trouble::Failed(_)) => true,
        };
        if session.may_be_over(clock.now()) {
            reporter::log(|| {
                tracing::warn!(store = S::NAME, "no heartbeat was answered in time");
            });
            shared.session_ended(session);
            return shared.close(session).await;
        }
    }
}

/// Listens for the possible end of the session, and for locks taken away by force.
async fn receives<S: Service>(shared: &Arc<Shared<S>>, session: &Arc<LiveSession<S>>) {
    loop {
        tokio::time::sleep(RETRY).await;
        let revoked = |name, fence| shared.revoked(session, name, fence);
        match shared.service.ended(&session.server, revoked).await {
            Ok(()) => session.doubted.notify_one(),
            Err(Trouble::Ended) if !seeded!(EndOfSessionDoubted) => {
                // `beats` then detects the end of the session, and closes it on the server.
                shared.session_ended(session);
                return pending().await;
            }
            Err(_) => {}
        }
    }
}
