//! Keeps a connection to one member of the cluster. If this member fails, connects to the next one.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;

use super::address::Address;
use super::connection::Connection;
use super::failure::{self, Problem};
use super::messages::{TxnRequest, TxnResponse};
use crate::base::reporter;
use crate::store::session::outage::Outage;
use crate::store::session::service::{Answer, Trouble};
use crate::store::{Failure, StoreEvent};

/// Least time between two attempts to connect. A cluster without a leader accepts connections but
/// serves no requests. Without the pause, the pool would flood it with connections.
const PAUSE: Duration = Duration::from_millis(100);

/// Least time between two attempts after a refused login, because a server may lock a user out.
const LOGIN_PAUSE: Duration = Duration::from_secs(1);

/// Bounds of the time for one attempt to connect to a member.
const LEAST_ATTEMPT: Duration = Duration::from_millis(500);
const MOST_ATTEMPT: Duration = Duration::from_secs(5);

/// A client of a cluster.
pub(super) struct Client {
    pub(super) address: Address,
    io_timeout: Duration,
    events: UnboundedSender<StoreEvent>,
    /// Locked while a connection is made, so that only one is made.
    line: Mutex<Line>,
    pub(super) outage: Outage,
}

#[derive(Default)]
struct Line {
    connection: Option<Arc<Connection>>,
    /// Index of the next member to try.
    next: usize,
    /// Time at which the last attempt to connect ended. `reason` is the failure of this attempt, or
    /// the later failure of the connection that it opened.
    tried: Option<Instant>,
    reason: Option<Failure>,
    /// True if the last attempt failed with a refusal, for example of the login.
    refused: bool,
    /// Time at which the connection is replaced, with new credentials.
    renew_at: Option<Instant>,
}

impl Client {
    pub(super) fn new(
        address: Address,
        io_timeout: Duration,
        events: UnboundedSender<StoreEvent>,
    ) -> Self {
        Self {
            address,
            io_timeout,
            events,
            line: Mutex::default(),
            outage: Outage::default(),
        }
    }

    /// Returns the time limit for one attempt to connect.
    pub(super) fn attempt(&self) -> Duration {
        let members = u32::try_from(self.address.members()).unwrap_or(1).max(1);
        (self.io_timeout / members).clamp(LEAST_ATTEMPT, MOST_ATTEMPT)
    }

    /// Returns the connection in use, or a new one to the first member that can be reached.
    pub(super) async fn connection(self: &Arc<Self>) -> Result<Arc<Connection>, Failure> {
        let mut line = self.line.lock().await;
        if let Some(connection) = &line.connection {
            let connection = Arc::clone(connection);
            if line.renew_at.take_if(|at| *at <= Instant::now()).is_some() {
                tokio::spawn(renew(Arc::downgrade(self), Arc::clone(&connection)));
            }
            return Ok(connection);
        }
        let pause = if line.refused { LOGIN_PAUSE } else { PAUSE };
        if line.tried.is_some_and(|tried| tried.elapsed() < pause) {
            let reason = line.reason.clone().unwrap_or_else(failure::silent);
            return Err(failure::not_sent(reason));
        }
        let mut reason = failure::silent();
        for _ in 0..self.address.members() {
            let at = line.next % self.address.members();
            // Sets `next` before the attempt. If the member never answers, the caller may drop this
            // future, and the next call must then try another member.
            line.next = at + 1;
            let opened = Connection::open(&self.address, at, self.attempt()).await;
            line.tried = Some(Instant::now());
            match opened {
                Ok(connection) => return Ok(self.adopt(&mut line, connection)),
                Err(failure) => {
                    line.refused = failure.is_refusal();
                    reason = failure;
                }
            }
            // The other members have the same users, so they would also refuse the login.
            if line.refused {
                break;
            }
        }
        if self.outage.failed(reason.error.clone()) {
            let (server, error) = (self.address.to_string(), reason.error.clone());
            reporter::log(move || tracing::warn!(server, %error, "cannot connect; trying again"));
            // `send` fails only after the store was dropped. Then there is no engine to notify.
            let _ = self.events.send(StoreEvent::Away);
        }
        line.reason = Some(reason.clone());
        Err(failure::not_sent(reason))
    }

    fn adopt(&self, line: &mut Line, connection: Connection) -> Arc<Connection> {
        let connection = Arc::new(connection);
        line.connection = Some(Arc::clone(&connection));
        line.renew_at = connection.renew_at;
        line.refused = false;
        if self.outage.back() {
            let server = self.address.member(connection.at).to_owned();
            reporter::log(move || tracing::info!(server, "connected again"));
            // `send` fails only after the store was dropped. Then no engine reads events.
            let _ = self.events.send(StoreEvent::Connected);
        }
        connection
    }

    /// Sends a request over the connection in use, or over a new one. If the answer shows that this
    /// connection is of no use, the next request opens another.
    pub(super) async fn ask<T, F>(
        self: &Arc<Self>,
        asks: impl FnOnce(Arc<Connection>) -> F,
    ) -> Answer<T>
    where
        F: Future<Output = Result<T, Problem>>,
    {
        let connection = self.connection().await?;
        let answer = asks(Arc::clone(&connection)).await;
        match answer {
            Ok(answer) => Ok(answer),
            Err(problem) => Err(self.failed(&connection, &problem).await),
        }
    }

    /// Sends a transaction.
    pub(super) async fn txn(
        self: &Arc<Self>,
        request: TxnRequest,
        patience: Duration,
    ) -> Answer<TxnResponse> {
        self.ask(|connection| async move { connection.txn(request, patience).await })
            .await
    }

    async fn failed(&self, connection: &Arc<Connection>, problem: &Problem) -> Trouble {
        if failure::is_end_of_session(problem) {
            return Trouble::Ended;
        }
        let failure = failure::of(problem);
        if failure::ends_the_connection(problem) {
            let mut line = self.line.lock().await;
            let current = line.connection.as_ref();
            if current.is_some_and(|current| Arc::ptr_eq(current, connection)) {
                line.connection = None;
                connection.give_up();
                if failure::is_of_the_connection(problem) {
                    self.outage.lost();
                }
                line.reason = Some(failure.clone());
            }
        }
        Trouble::Failed(failure)
    }
}

/// Replaces the connection `old` before its credentials end. Requests under way finish on `old`.
async fn renew(client: Weak<Client>, old: Arc<Connection>) {
    let Some(client) = client.upgrade() else {
        return;
    };
    let opened = Connection::open(&client.address, old.at, client.attempt()).await;
    let mut line = client.line.lock().await;
    let current = line.connection.as_ref();
    if current.is_none_or(|current| !Arc::ptr_eq(current, &old)) {
        return;
    }
    match opened {
        Ok(connection) => {
            drop(client.adopt(&mut line, connection));
            old.give_up();
        }
        Err(failure) => {
            line.renew_at = Some(Instant::now() + LOGIN_PAUSE);
            let server = client.address.to_string();
            reporter::log(move || {
                tracing::warn!(server, error = %failure.error, "the login is not renewed; trying again");
            });
        }
    }
}
