//! The nodes of this process that wait in the directories of their keys.
//!
//! The engine queues with one node for all calls of the process that wait for a key. This node is a
//! *place*: it belongs to no token yet. Once the node is the first of its directory, the next token
//! that requests the lock gets this node. No further request to the server is necessary.

use tokio::task::AbortHandle;

use crate::base::full_key::{FullKey, KeyMap};
use crate::base::token::Token;
use crate::fence::Fence;
use crate::store::session::service::First;

/// The places of this process, by key.
#[derive(Debug)]
pub(super) struct Places<N> {
    by_key: KeyMap<Place<N>>,
}

/// A waiting node of this process.
#[derive(Debug)]
pub(super) struct Place<N> {
    pub(super) node: N,
    /// Token of the last request with this node. If the answer to this request was lost, `Locks`
    /// still has the node for this token.
    pub(super) asked_by: Token,
    /// The task that waits until the node is the first of its directory.
    pub(super) waits: Option<AbortHandle>,
    /// The node's fence, once the node is known to wait.
    pub(super) fence: Option<Fence>,
    /// Set once the node is the first of its directory.
    pub(super) first: Option<First>,
}

impl<N> Default for Places<N> {
    fn default() -> Self {
        Self {
            by_key: KeyMap::default(),
        }
    }
}

impl<N> Drop for Place<N> {
    fn drop(&mut self) {
        if let Some(waits) = &self.waits {
            waits.abort();
        }
    }
}

impl<N: PartialEq> Places<N> {
    pub(super) fn get_mut(&mut self, key: &FullKey) -> Option<&mut Place<N>> {
        self.by_key.get_mut(key)
    }

    pub(super) fn insert(&mut self, key: FullKey, node: N, asked_by: Token) {
        let place = Place {
            node,
            asked_by,
            waits: None,
            fence: None,
            first: None,
        };
        self.by_key.insert(key, place);
    }

    pub(super) fn remove(&mut self, key: &FullKey) -> Option<Place<N>> {
        self.by_key.remove(key)
    }

    /// Records that `node` is the first of its directory, if it is still the place of `key`.
    pub(super) fn has_its_turn(&mut self, key: &FullKey, node: &N, first: First) {
        if let Some(place) = self.by_key.get_mut(key)
            && place.node == *node
        {
            place.first = Some(first);
        }
    }

    /// True if the place of `key` is `node`.
    pub(super) fn is(&self, key: &FullKey, node: &N) -> bool {
        let place = self.by_key.get(key);
        place.is_some_and(|place| place.node == *node)
    }

    /// Removes the place of `key` if it is `node`. Returns true if the place was removed.
    pub(super) fn remove_node(&mut self, key: &FullKey, node: &N) -> bool {
        let is_this = self.is(key, node);
        if is_this {
            self.by_key.remove(key);
        }
        is_this
    }

    /// Returns the key of the place that `is` selects.
    pub(super) fn key_of(&self, is: impl Fn(&Place<N>) -> bool) -> Option<FullKey> {
        let mut places = self.by_key.iter();
        let (key, _) = places.find(|(_, place)| is(place))?;
        Some(key.clone())
    }

    /// Removes the places whose nodes match `gone`. Returns their keys.
    pub(super) fn remove_all(&mut self, gone: impl Fn(&N) -> bool) -> Vec<FullKey> {
        let found = self.by_key.iter().filter(|(_, place)| gone(&place.node));
        let found: Vec<_> = found.map(|(key, _)| key.clone()).collect();
        for key in &found {
            self.by_key.remove(key);
        }
        found
    }
}
