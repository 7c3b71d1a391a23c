//! A session as the server knows it: a lease, and the session's own key with its epoch.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Semaphore;

use super::client::Client;
use super::epoch::Epoch;
use super::failure;
use super::gathering::Gathering;
use super::messages::KeyValue;
use super::node_names::NodeNames;
use crate::base::full_key::FullKey;
use crate::base::seeded::seeded;
use crate::base::token::Token;
use crate::store::session::service::{Answer, Node, Trouble};

/// Maximum number of concurrent requests of a session for the positions of its waiting nodes. After
/// a lost connection, all positions are requested again, and a heartbeat must wait behind only this
/// many requests.
const LOOKS_AT_ONCE: usize = 64;

/// A lease of the server, and the session's own key with its epoch.
pub(crate) struct Session {
    pub(super) lease: i64,
    /// Granted lifetime in seconds.
    ttl: i64,
    pub(super) key: String,
    pub(super) epoch: Arc<Epoch>,
    pub(super) gathering: Gathering,
    pub(super) names: NodeNames,
    /// Nodes for which an unanswered transaction may still be carried out, each with the epoch at
    /// the time of its last failed request.
    doubts: Mutex<HashMap<Token, i64>>,
    /// Locked while the session is sealed.
    pub(super) sealing: tokio::sync::Mutex<()>,
    pub(super) looks: Semaphore,
}

impl Session {
    /// Starts the task that sends requests, so this must be called in the runtime that requests run
    /// on.
    pub(super) fn new(
        client: Arc<Client>,
        (lease, ttl): (i64, i64),
        key: String,
        epoch: i64,
    ) -> Self {
        let epoch = Arc::new(Epoch::new(key.clone(), lease, epoch));
        Self {
            lease,
            ttl,
            key,
            gathering: Gathering::begin(client, Arc::clone(&epoch)),
            epoch,
            names: NodeNames::default(),
            doubts: Mutex::default(),
            sealing: tokio::sync::Mutex::default(),
            looks: Semaphore::new(LOOKS_AT_ONCE),
        }
    }

    /// True if `ttl`, from the answer to a keep-alive, is at least the granted lifetime of the
    /// lease.
    pub(super) fn is_kept(&self, ttl: i64) -> bool {
        0 < ttl && self.ttl <= ttl
    }

    pub(super) fn doubts(&self) -> MutexGuard<'_, HashMap<Token, i64>> {
        self.doubts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a name for a new node.
    pub(super) fn name(&self, key: &FullKey, number: u64) -> Token {
        self.names.take(key, number)
    }

    /// Records the start of a request that creates the node. Returns false if the node is gone, and
    /// its name is free or belongs to another node.
    pub(super) fn begins(&self, node: &Node) -> bool {
        self.names.begins(node) || seeded!(NodesOfAnySession)
    }

    /// Records the nodes as doubted if the transaction may still be carried out after this answer.
    pub(super) fn doubt<T>(&self, nodes: &[Node], answer: Answer<T>) -> Answer<T> {
        if let Err(Trouble::Failed(failure)) = &answer
            && failure::may_be_late(failure)
        {
            let epoch = self.epoch.now();
            let doubted = nodes.iter().map(|node| (node.name, epoch));
            self.doubts().extend(doubted);
        }
        answer
    }

    pub(super) fn is_doubted(&self, node: &Node) -> bool {
        self.doubts().contains_key(&node.name)
    }

    pub(super) fn is_mine(&self, key: &str, found: &KeyValue) -> bool {
        found.key == key.as_bytes() && (found.lease == self.lease || seeded!(NodesOfAnySession))
    }
}
