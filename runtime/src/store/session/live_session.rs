//! One session: until when it is confirmed, and its heartbeats.

use std::future::pending;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::select;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

use super::service::{Node, Service, Timeout, Trouble};
use super::shared::{Shared, pause_until};
use crate::base::clock::{Clock, Instant};
use crate::base::reporter;
use crate::base::seeded::seeded;
use crate::store::{Failure, Retry};

/// The pause after a heartbeat without an answer, and before the server is asked to tell an end.
const RETRY: Duration = Duration::from_millis(100);

/// The least and the most that a heartbeat may take before it is tried again.
const LEAST_PATIENCE: Duration = Duration::from_millis(200);
const MOST_PATIENCE: Duration = Duration::from_secs(2);

/// A session that this process has opened.
pub(super) struct LiveSession<S: Service> {
    pub(super) server: S::Session,
    timeout: Timeout,
    /// Until when the session is confirmed; none when it is over.
    confirmed: watch::Sender<Option<Instant>>,
    /// Until when a request wants it to be confirmed.
    wanted: Mutex<Instant>,
    demand: Notify,
    /// The server has told that the session may be over.
    doubted: Notify,
}

/// A node with its session.
pub(super) struct OwnNode<S: Service> {
    pub(super) session: Arc<LiveSession<S>>,
    pub(super) node: Node,
}

impl<S: Service> Clone for OwnNode<S> {
    fn clone(&self) -> Self {
        Self {
            session: Arc::clone(&self.session),
            node: self.node.clone(),
        }
    }
}

impl<S: Service> PartialEq for OwnNode<S> {
    fn eq(&self, other: &Self) -> bool {
        self.node == other.node && self.is_of(&other.session)
    }
}

impl<S: Service> OwnNode<S> {
    pub(super) fn is_of(&self, session: &Arc<LiveSession<S>>) -> bool {
        Arc::ptr_eq(&self.session, session)
    }
}

impl<S: Service> LiveSession<S> {
    /// A session that was opened by a request that left at `sent`.
    pub(super) fn new(server: S::Session, timeout: Timeout, sent: Instant) -> Self {
        let (confirmed, _) = watch::channel(Some(sent + timeout.usable()));
        Self {
            server,
            timeout,
            confirmed,
            wanted: Mutex::new(Instant::ZERO),
            demand: Notify::new(),
            doubted: Notify::new(),
        }
    }

    /// Whether leases of `ttl` fit into the session.
    pub(super) fn fits(&self, ttl: Duration) -> bool {
        ttl <= self.timeout.usable()
    }

    pub(super) fn is_over(&self) -> bool {
        self.confirmed.borrow().is_none()
    }

    /// Returns when the session is confirmed until `until` or later, and false when it is over.
    /// Asks for a heartbeat if that takes one.
    pub(super) async fn is_confirmed_until(&self, until: Instant) -> bool {
        let mut confirmed = self.confirmed.subscribe();
        loop {
            match *confirmed.borrow_and_update() {
                None => return false,
                Some(confirmed) if until <= confirmed => return true,
                Some(_) => {}
            }
            self.want(until);
            if confirmed.changed().await.is_err() {
                return false;
            }
        }
    }

    fn want(&self, until: Instant) {
        let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        *wanted = until.max(*wanted);
        drop(wanted);
        self.demand.notify_one();
    }

    /// A heartbeat that left at `sent` is confirmed.
    fn confirm(&self, sent: Instant) {
        let until = sent + self.timeout.usable();
        self.confirmed.send_if_modified(|confirmed| {
            let later = confirmed.is_some_and(|confirmed| confirmed < until);
            if later {
                *confirmed = Some(until);
            }
            later
        });
    }

    /// The session is over. Returns whether it was not before.
    pub(super) fn end(&self) -> bool {
        let was_open = self
            .confirmed
            .send_if_modified(|confirmed| confirmed.take().is_some());
        self.demand.notify_one();
        was_open
    }

    /// Whether a request wants more than what is confirmed.
    fn lacks(&self) -> bool {
        let wanted = *self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        let confirmed = *self.confirmed.borrow();
        confirmed.is_some_and(|confirmed| confirmed < wanted)
    }

    /// When the next heartbeat is due: a third of the way to the end, and sooner after one that
    /// failed.
    fn next(&self, failed: bool, now: Instant) -> Instant {
        if failed {
            return now + RETRY;
        }
        let usable = self.timeout.usable();
        let confirmed = *self.confirmed.borrow();
        confirmed.map_or(now, |confirmed| confirmed - usable * 2 / 3)
    }

    /// Whether so much time has gone by without an answer that the server may have ended the
    /// session.
    fn may_be_over(&self, now: Instant) -> bool {
        let confirmed = *self.confirmed.borrow();
        confirmed.is_none_or(|confirmed| confirmed <= now)
    }

    fn patience(&self) -> Duration {
        (self.timeout.usable() / 6).clamp(LEAST_PATIENCE, MOST_PATIENCE)
    }

    async fn waits(&self, clock: Clock, until: Instant) {
        loop {
            if self.is_over() || self.lacks() {
                return;
            }
            let demand = self.demand.notified();
            if timeout(pause_until(clock, until), demand).await.is_err() && until <= clock.now() {
                return;
            }
        }
    }
}

/// Keeps a session until it is over, and hears what the server tells of it. Both go on beside each
/// other: a heartbeat may take longer than a holder has whose lock is taken away.
pub(super) async fn keep<S: Service>(shared: Arc<Shared<S>>, session: Arc<LiveSession<S>>) {
    let beats = pin!(beats(&shared, &session));
    let hears = pin!(hears(&shared, &session));
    select(beats, hears).await;
}

/// Sends the heartbeats of a session until it is over.
async fn beats<S: Service>(shared: &Arc<Shared<S>>, session: &Arc<LiveSession<S>>) {
    let (mut failed, clock) = (false, shared.clock);
    loop {
        let next = session.next(failed, clock.now());
        if failed {
            tokio::time::sleep(pause_until(clock, next)).await;
        } else {
            // Where the session is doubted, the heartbeat says whether it is over.
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
                // Its nodes may be there: only its own key may have gone.
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

/// Hears whether the session may be over, and which of its locks are taken away by force.
async fn hears<S: Service>(shared: &Arc<Shared<S>>, session: &Arc<LiveSession<S>>) {
    loop {
        tokio::time::sleep(RETRY).await;
        let revoked = |name, fence| shared.revoked(session, name, fence);
        match shared.service.ended(&session.server, revoked).await {
            Ok(()) => session.doubted.notify_one(),
            Err(Trouble::Ended) if !seeded!(EndOfSessionDoubted) => {
                // The heartbeats find that it is over, and close it.
                shared.session_ended(session);
                return pending().await;
            }
            Err(_) => {}
        }
    }
}

/// The answer to a request whose session has ended.
pub(super) fn ended(name: &str) -> Failure {
    Failure::unavailable(
        "session",
        format!("the session at `{name}://` has ended; the next request opens another"),
        Retry::Now,
        false,
    )
}
