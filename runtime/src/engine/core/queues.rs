//! The queues of all keys. Some are held back, because too many requests are under way.

use std::collections::VecDeque;

use super::queue::KeyQueue;
use super::ticket::{Acquire, TicketId};
use crate::base::clock::Instant;
use crate::base::full_key::{FullKey, KeyMap};

/// The queues of all keys that a call of this process waits for, or holds exclusively.
#[derive(Debug, Default)]
pub(super) struct Queues {
    /// Boxed, because nearly half of the map's slots are empty.
    by_key: KeyMap<Box<KeyQueue>>,
    /// Keys whose queue has a held-back head, in the order in which they were held back. A head may
    /// ask when fewer requests are under way.
    held_back: VecDeque<FullKey>,
}

impl Queues {
    pub(super) fn get(&self, key: &FullKey) -> Option<&KeyQueue> {
        self.by_key.get(key).map(Box::as_ref)
    }

    pub(super) fn get_mut(&mut self, key: &FullKey) -> Option<&mut KeyQueue> {
        self.by_key.get_mut(key).map(Box::as_mut)
    }

    pub(super) fn contains(&self, key: &FullKey) -> bool {
        self.by_key.contains_key(key)
    }

    /// Adds a call to the queue of its key.
    pub(super) fn join(&mut self, id: TicketId, acquire: &Acquire) {
        let queue = self.by_key.entry(acquire.key.clone());
        queue.or_default().push(id, acquire);
    }

    /// Returns the queue of a key, for a call that adopted the key and so never waited in the
    /// queue. Creates the queue if necessary.
    pub(super) fn open(&mut self, key: &FullKey) -> &mut KeyQueue {
        let queue = self.by_key.entry(key.clone());
        queue.or_default()
    }

    pub(super) fn remove(&mut self, key: &FullKey) {
        self.by_key.remove(key);
    }

    /// Returns the time at which `id` may ask the store for `key`; none if another ticket asks
    /// first.
    pub(super) fn asks_at(&self, key: &FullKey, id: TicketId) -> Option<Instant> {
        self.by_key.get(key).and_then(|queue| queue.asks_at(id))
    }

    /// Holds the head of the queue back until [`next_held_back`](Self::next_held_back) returns its
    /// key.
    pub(super) fn hold_back(&mut self, key: &FullKey) {
        if let Some(queue) = self.by_key.get_mut(key) {
            queue.hold_back(true);
            self.held_back.push_back(key.clone());
        }
    }

    /// Takes the key that was held back first. The head of its queue may ask again.
    pub(super) fn next_held_back(&mut self) -> Option<FullKey> {
        let key = self.held_back.pop_front()?;
        if let Some(queue) = self.by_key.get_mut(&key) {
            queue.hold_back(false);
        }
        Some(key)
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }
}
