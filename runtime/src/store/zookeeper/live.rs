//! A session of the ensemble, with the znodes that the session has created.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit, watch};
use tokio::time::timeout;

use super::error::Error;
use super::failure;
use super::following::{Current, follow};
use super::handshake::Granted;
use super::line::Line;
use super::names::Number;
use super::servers::Servers;
use crate::base::seeded::seeded;
use crate::base::token::Token;
use crate::store::session::service::{Answer, Trouble};

/// Maximum number of calls of one session that request locks or check their places in a queue at
/// the same time. Further calls wait. So only few requests are ahead of a renewal, and a call that
/// gives up while it waits sends nothing to a slow server.
const AT_ONCE: usize = 64;

/// A session of the ensemble.
///
/// The server carries out the requests of a connection in the order in which they were sent. Once
/// the session has a new connection, unfinished requests of the old one are not carried out. The
/// server of the old connection closes it, or its requests are refused because the session has
/// moved to another server.
pub(crate) struct Session {
    current: watch::Receiver<Current>,
    /// Closes the session when set to true, or when dropped.
    closing: watch::Sender<bool>,
    pub(super) id: i64,
    /// The path of the session's own znode.
    pub(super) own: String,
    state: Mutex<State>,
    places: Semaphore,
}

#[derive(Default)]
struct State {
    made: HashMap<Token, Made>,
    /// Nodes that an unanswered request may have created.
    doubts: HashSet<Token>,
}

/// A znode created by the session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Made {
    /// The znode's name in its directory.
    pub(super) name: String,
    pub(super) number: Number,
    /// The transaction that created the znode.
    pub(super) transaction: i64,
}

impl Session {
    pub(super) fn new(servers: Arc<Servers>, granted: Granted, line: Line, own: String) -> Self {
        let line = Arc::new(line);
        let (sender, current) = watch::channel(Current::Up(Arc::clone(&line)));
        let (closing, closes) = watch::channel(false);
        let id = granted.ticket.id;
        tokio::spawn(follow(
            servers,
            (granted, own.clone()),
            line,
            sender,
            closes,
        ));
        Self {
            current,
            closing,
            id,
            own,
            state: Mutex::default(),
            places: Semaphore::new(AT_ONCE),
        }
    }

    /// Waits for one of `AT_ONCE` permits, which calls get in the order of their arrival. Renewals
    /// and releases need no permit.
    pub(super) async fn place(&self, patience: Duration) -> Answer<SemaphorePermit<'_>> {
        match timeout(patience, self.places.acquire()).await {
            Ok(place) => place.map_err(|_| Trouble::Ended),
            Err(_) => Err(failure::not_sent(failure::busy()).into()),
        }
    }

    /// Returns the connection of the session. Between two connections, waits for the next one.
    pub(super) async fn line(&self, patience: Duration) -> Answer<Arc<Line>> {
        let mut current = self.current.clone();
        let waiting = async {
            loop {
                match &*current.borrow_and_update() {
                    _ if *self.closing.borrow() => return Err(Trouble::Ended),
                    Current::Up(line) if !line.is_over() => return Ok(Arc::clone(line)),
                    Current::Over => return Err(Trouble::Ended),
                    Current::Up(_) | Current::Between => {}
                }
                if current.changed().await.is_err() {
                    return Err(Trouble::Ended);
                }
            }
        };
        let unsent = || failure::not_sent(failure::silent()).into();
        timeout(patience, waiting)
            .await
            .unwrap_or_else(|_| Err(unsent()))
    }

    /// Waits until this process no longer uses the session.
    pub(super) async fn over(&self) {
        let mut current = self.current.clone();
        // An error means that the task `follow` has ended, so the session gets no further
        // connection.
        let _ = current.wait_for(|now| matches!(now, Current::Over)).await;
    }

    /// Closes the session once no running request uses its connection. Further requests fail.
    pub(super) fn close(&self) {
        self.closing.send_replace(true);
    }

    /// True if a znode with this owner belongs to the session.
    pub(super) fn is_owner(&self, owner: i64) -> bool {
        owner == self.id || (owner != 0 && seeded!(NodesOfAnySession))
    }

    /// Marks the node as possibly created. The next search for its znode then begins with a write,
    /// which brings the server of the connection up to date.
    pub(super) fn doubt(&self, name: Token) {
        self.state().doubts.insert(name);
    }

    pub(super) fn is_doubted(&self, name: Token) -> bool {
        self.state().doubts.contains(&name)
    }

    /// True if the node may exist.
    pub(super) fn may_have(&self, name: Token) -> bool {
        let state = self.state();
        state.made.contains_key(&name) || state.doubts.contains(&name)
    }

    pub(super) fn made(&self, name: Token) -> Option<Made> {
        self.state().made.get(&name).cloned()
    }

    /// Records that the znode `made` was created for the node.
    pub(super) fn has_made(&self, name: Token, made: Made) {
        let mut state = self.state();
        state.doubts.remove(&name);
        state.made.insert(name, made);
    }

    /// Records that the znode `lost` no longer exists.
    pub(super) fn has_lost(&self, name: Token, lost: &Made) {
        let mut state = self.state();
        if state.made.get(&name) == Some(lost) {
            state.made.remove(&name);
        }
    }

    /// Records that the node does not exist.
    pub(super) fn has_not(&self, name: Token) {
        let mut state = self.state();
        state.doubts.remove(&name);
        state.made.remove(&name);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the answer to a sent request. Without an answer in time, the request may still be
/// carried out.
pub(super) async fn answered<T>(
    patience: Duration,
    asking: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let answer = timeout(patience, asking).await;
    answer.unwrap_or(Err(Error::Timeout))
}

/// Like [`answered`], but converts each error to a `Trouble`.
pub(super) async fn done<T>(
    patience: Duration,
    asking: impl Future<Output = Result<T, Error>>,
) -> Answer<T> {
    let answer = answered(patience, asking).await;
    answer.map_err(|error| failure::trouble(&error))
}
