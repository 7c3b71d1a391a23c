//! A session as the server knows it, with the znodes that it has made.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::timeout;
use zookeeper_client::{Client, Error};

use super::failure;
use super::names::Number;
use crate::base::seeded::seeded;
use crate::base::token::Token;
use crate::store::session::service::{Answer, Trouble};

/// A session of the ensemble.
///
/// The client sends requests in the order in which they are asked for, and the server carries the
/// requests of a connection out in that order. A new connection ends what an old one has not
/// carried out: another server refuses it, because the session has moved.
pub(crate) struct Session {
    /// None when the session was closed.
    client: Mutex<Option<Client>>,
    pub(super) id: i64,
    /// The path of the session's own znode.
    pub(super) own: String,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    made: HashMap<Token, Made>,
    /// Nodes that a request without an answer may have made.
    doubts: HashSet<Token>,
}

/// A znode that the session has made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Made {
    /// Its name in its directory.
    pub(super) name: String,
    pub(super) number: Number,
    /// The transaction that made it.
    pub(super) transaction: i64,
}

impl Session {
    pub(super) fn new(client: Client, own: String) -> Self {
        Self {
            id: client.session_id().0,
            client: Mutex::new(Some(client)),
            own,
            state: Mutex::default(),
        }
    }

    /// The connection of the session.
    pub(super) fn client(&self) -> Answer<Client> {
        self.line().clone().ok_or(Trouble::Ended)
    }

    /// Closes the session as soon as no request needs it.
    pub(super) fn close(&self) {
        drop(self.line().take());
    }

    /// Whether a znode with this owner is one of the session.
    pub(super) fn is_owner(&self, owner: i64) -> bool {
        owner == self.id || (owner != 0 && seeded!(NodesOfAnySession))
    }

    /// Makes sure that the next look at the node is at the ensemble's newest state.
    pub(super) fn doubt(&self, name: Token) {
        self.state().doubts.insert(name);
    }

    pub(super) fn is_doubted(&self, name: Token) -> bool {
        self.state().doubts.contains(&name)
    }

    /// Whether the node may be there.
    pub(super) fn may_have(&self, name: Token) -> bool {
        let state = self.state();
        state.made.contains_key(&name) || state.doubts.contains(&name)
    }

    pub(super) fn made(&self, name: Token) -> Option<Made> {
        self.state().made.get(&name).cloned()
    }

    /// The node is known to be `made`.
    pub(super) fn has_made(&self, name: Token, made: Made) {
        let mut state = self.state();
        state.doubts.remove(&name);
        state.made.insert(name, made);
    }

    /// The znode is known not to be there any more.
    pub(super) fn has_lost(&self, name: Token, lost: &Made) {
        let mut state = self.state();
        if state.made.get(&name) == Some(lost) {
            state.made.remove(&name);
        }
    }

    /// The node is known not to be there.
    pub(super) fn has_not(&self, name: Token) {
        let mut state = self.state();
        state.doubts.remove(&name);
        state.made.remove(&name);
    }

    fn line(&self) -> MutexGuard<'_, Option<Client>> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The answer to a request that has been sent. Without one in time the request may be carried out.
pub(super) async fn answered<T>(
    patience: Duration,
    asking: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let answer = timeout(patience, asking).await;
    answer.unwrap_or(Err(Error::Timeout))
}

/// As [`answered`], where each error is in the way.
pub(super) async fn done<T>(
    patience: Duration,
    asking: impl Future<Output = Result<T, Error>>,
) -> Answer<T> {
    let answer = answered(patience, asking).await;
    answer.map_err(|error| failure::trouble(&error))
}
