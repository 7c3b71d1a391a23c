//! Opens a session when it is first needed, and closes it when it is idle.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::heartbeats::keep;
use super::live_session::LiveSession;
use super::service::Service;
use super::sessions::{Class, Slot};
use super::shared::Shared;
use crate::error::{LockError, millis};
use crate::store::{Failure, Retry};

/// Time without an acquire after which a session that has no node is closed.
const IDLE: Duration = Duration::from_secs(60);

impl<S: Service> Shared<S> {
    /// Returns the session for leases of `ttl`. Opens it if necessary.
    pub(super) async fn session(
        self: &Arc<Self>,
        ttl: Duration,
        patience: Duration,
    ) -> Result<Arc<LiveSession<S>>, Failure> {
        let Some(class) = self.class(ttl) else {
            return Err(too_long::<S>(ttl, self.longest()));
        };
        // Limits the wait for the opening of another call and this call's own opening together.
        // Otherwise, requests of a key that need no session would wait behind a queue of openings
        // that all fail. An opening has at least half of the limit, so that it can succeed.
        let limit = patience.max(self.io_timeout);
        let begun = self.clock.now();
        let slot = timeout(limit, class.slot.lock()).await;
        let mut slot = slot.map_err(|_| busy(S::NAME))?;
        if let Some(slot) = &mut *slot
            && !slot.session.is_over()
        {
            slot.used = self.clock.now();
            return self.that_serves(ttl, &slot.session);
        }
        let sent = self.clock.now();
        let limit = limit.saturating_sub(sent.since(begun)).max(limit / 2);
        let (server, lasts) = self.service.open(class.timeout, limit).await?;
        let session = Arc::new(LiveSession::new(server, lasts, sent));
        *slot = Some(Slot {
            session: Arc::clone(&session),
            used: sent,
        });
        self.spawn(keep(Arc::clone(self), Arc::clone(&session)));
        self.that_serves(ttl, &session)
    }

    /// Returns the session, or an error if the session is too short for `ttl`. The server may have
    /// granted a shorter lifetime than requested.
    fn that_serves(
        &self,
        ttl: Duration,
        session: &Arc<LiveSession<S>>,
    ) -> Result<Arc<LiveSession<S>>, Failure> {
        let serves = self.service.serves(session.timeout);
        if ttl <= serves {
            return Ok(Arc::clone(session));
        }
        Err(too_long::<S>(ttl, serves))
    }

    /// Returns the class with the shortest sessions that serve leases of `ttl`.
    fn class(&self, ttl: Duration) -> Option<&Class<S>> {
        let mut classes = self.sessions.classes.iter();
        classes.find(|class| ttl <= self.service.serves(class.timeout))
    }

    /// Returns the longest ttl that a session serves.
    fn longest(&self) -> Duration {
        let last = self.sessions.classes.last();
        last.map_or(Duration::ZERO, |class| self.service.serves(class.timeout))
    }

    /// Closes the session if it has no node and was not used for `IDLE`. Returns true if it was
    /// closed.
    pub(super) async fn closes_if_idle(&self, session: &Arc<LiveSession<S>>) -> bool {
        let now = self.clock.now();
        for class in &self.sessions.classes {
            // Skips a class whose slot is locked, because a session is being opened in it. The
            // heartbeats, which call this function, must not wait for the opening.
            let Ok(mut slot) = class.slot.try_lock() else {
                continue;
            };
            let idle = slot.as_ref().is_some_and(|slot| {
                Arc::ptr_eq(&slot.session, session)
                    && slot.used + IDLE <= now
                    // The slot and the heartbeat have the only two references, so no request and no
                    // node uses the session.
                    && Arc::strong_count(session) == 2
            });
            if idle {
                *slot = None;
                session.end();
                drop(slot);
                self.close(session).await;
                return true;
            }
        }
        false
    }
}

/// Returns the failure of a request that waited in vain for another one to open a session.
fn busy(name: &str) -> Failure {
    Failure::unavailable(
        "timeout",
        format!("no session at `{name}://` was opened in time; check that the server is up"),
        Retry::Later,
        false,
    )
}

fn too_long<S: Service>(ttl: Duration, longest: Duration) -> Failure {
    Failure {
        error: LockError::config(format!(
            "a ttl of {} is longer than a session at `{}://` can last; choose at most {}",
            millis(ttl),
            S::NAME,
            millis(longest)
        )),
        retry: Retry::Never,
        executed: false,
    }
}
