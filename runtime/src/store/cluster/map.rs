//! The node of each slot.

use crate::store::redis::commands::hash_slot::SLOTS;

/// The number of a node among all nodes that this store has ever seen.
pub(super) type NodeId = usize;

/// The owner of each slot, if the store knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Map(Vec<Option<NodeId>>);

impl Map {
    pub(super) fn new() -> Self {
        Self(vec![None; usize::from(SLOTS)])
    }

    pub(super) fn owner(&self, slot: u16) -> Option<NodeId> {
        self.0.get(usize::from(slot)).copied().flatten()
    }

    pub(super) fn set(&mut self, slot: u16, node: NodeId) {
        if let Some(owner) = self.0.get_mut(usize::from(slot)) {
            *owner = Some(node);
        }
    }

    /// True if `node` has any slot.
    pub(super) fn names(&self, node: NodeId) -> bool {
        self.0.contains(&Some(node))
    }
}
