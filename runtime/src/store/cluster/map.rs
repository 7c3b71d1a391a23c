//! The map of a cluster: the owner of each slot.

use crate::store::redis::commands::hash_slot::SLOTS;

/// Number of a node. The store numbers all nodes that it has ever seen.
pub(super) type NodeId = usize;

/// For each slot, the node that has it. `None` if unknown.
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

    /// True if `node` has at least one slot.
    pub(super) fn names(&self, node: NodeId) -> bool {
        self.0.contains(&Some(node))
    }
}
