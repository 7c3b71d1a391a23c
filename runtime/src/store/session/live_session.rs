//! One session: the time until which it is confirmed to last, and the time of its next heartbeat.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::timeout;

use super::service::{Node, Service, Timeout};
use crate::base::clock::{Clock, Instant};
use crate::store::{Failure, Retry};

/// Pause after a failed heartbeat, and before each request for the server's notifications about the
/// session. Without this pause, the requests would flood a failing server.
pub(super) const RETRY: Duration = Duration::from_millis(100);

/// Bounds of the time that a heartbeat may take before it is sent again.
const LEAST_PATIENCE: Duration = Duration::from_millis(200);
const MOST_PATIENCE: Duration = Duration::from_secs(2);

/// The longest sleep before the clock is read again. It is short, because the runtime's timers stop
/// while the machine is suspended, but leases do not.
pub(super) const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// Returns the length of the next sleep of a wait that ends at `until`.
pub(super) fn pause_until(clock: Clock, until: Instant) -> Duration {
    until.since(clock.now()).min(LONGEST_SLEEP)
}

/// A session opened by this process.
pub(super) struct LiveSession<S: Service> {
    pub(super) server: S::Session,
    pub(super) timeout: Timeout,
    /// Time until which the session is confirmed to last. `None` when the session is over.
    confirmed: watch::Sender<Option<Instant>>,
    /// Time until which the session must be confirmed: the latest time that any request so far
    /// needs.
    wanted: Mutex<Instant>,
    demand: Notify,
    /// Notified when the server reports that the session may be over.
    pub(super) doubted: Notify,
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
    /// Creates a session whose opening request was sent at `sent`.
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

    /// True if leases of `ttl` fit into the session.
    pub(super) fn fits(&self, ttl: Duration) -> bool {
        ttl <= self.timeout.usable()
    }

    pub(super) fn is_over(&self) -> bool {
        self.confirmed.borrow().is_none()
    }

    /// Returns true once the session is confirmed up to `until` or later, and false once it is
    /// over. Requests a heartbeat if necessary.
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

    /// Records that the server has confirmed the heartbeat sent at `sent`.
    pub(super) fn confirm(&self, sent: Instant) {
        let until = sent + self.timeout.usable();
        self.confirmed.send_if_modified(|confirmed| {
            let later = confirmed.is_some_and(|confirmed| confirmed < until);
            if later {
                *confirmed = Some(until);
            }
            later
        });
    }

    /// Ends the session. Returns true if it was not over before.
    pub(super) fn end(&self) -> bool {
        let was_open = self
            .confirmed
            .send_if_modified(|confirmed| confirmed.take().is_some());
        self.demand.notify_one();
        was_open
    }

    /// True if a request needs the session for longer than it is confirmed.
    fn lacks(&self) -> bool {
        let wanted = *self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        let confirmed = *self.confirmed.borrow();
        confirmed.is_some_and(|confirmed| confirmed < wanted)
    }

    /// Returns the time of the next heartbeat: after a third of the confirmed time, or after a
    /// short pause if the last heartbeat failed.
    pub(super) fn next(&self, failed: bool, now: Instant) -> Instant {
        if failed {
            return now + RETRY;
        }
        let usable = self.timeout.usable();
        let confirmed = *self.confirmed.borrow();
        confirmed.map_or(now, |confirmed| confirmed - usable * 2 / 3)
    }

    /// True if the confirmed time is over, so the server may have ended the session.
    pub(super) fn may_be_over(&self, now: Instant) -> bool {
        let confirmed = *self.confirmed.borrow();
        confirmed.is_none_or(|confirmed| confirmed <= now)
    }

    pub(super) fn patience(&self) -> Duration {
        (self.timeout.usable() / 6).clamp(LEAST_PATIENCE, MOST_PATIENCE)
    }

    pub(super) async fn waits(&self, clock: Clock, until: Instant) {
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

/// Returns the failure of a request whose session has ended.
pub(super) fn ended(name: &str) -> Failure {
    Failure::unavailable(
        "session",
        format!("the session at `{name}://` has ended; the next request opens another"),
        Retry::Now,
        false,
    )
}
