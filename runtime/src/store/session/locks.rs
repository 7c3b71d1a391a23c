//! Which token has which node, and until when.

use std::collections::{BTreeMap, HashMap};

use crate::base::clock::Instant;
use crate::base::full_key::FullKey;
use crate::base::token::Token;
use crate::fence::Fence;

/// A token of a key.
pub(super) type LockId = (FullKey, Token);

/// The tokens that have a node, or may have one.
#[derive(Debug)]
pub(super) struct Locks<N> {
    by_id: HashMap<LockId, Lock<N>>,
    /// When each lease is over.
    due: BTreeMap<(Instant, u64), LockId>,
    last: u64,
}

/// A token that has a node, or may have one.
#[derive(Debug, Clone)]
pub(super) struct Lock<N> {
    pub(super) node: N,
    /// The fence, once the node is known to be the first of its directory.
    pub(super) fence: Option<Fence>,
    /// Then the store removes the node, unless the lease is renewed.
    pub(super) until: Instant,
    /// The fence of the node that another process wants back by force.
    revoked: Option<Fence>,
    number: u64,
}

impl<N> Lock<N> {
    /// Whether another process wants the node back by force, which has this fence.
    pub(super) fn is_revoked_at(&self, fence: Fence) -> bool {
        self.revoked == Some(fence)
    }

    /// Whether another process wants the lock back by force.
    pub(super) fn is_revoked(&self) -> bool {
        self.fence.is_some() && self.fence == self.revoked
    }
}

impl<N> Default for Locks<N> {
    fn default() -> Self {
        Self {
            by_id: HashMap::new(),
            due: BTreeMap::new(),
            last: 0,
        }
    }
}

impl<N> Locks<N> {
    pub(super) fn get(&self, id: &LockId) -> Option<&Lock<N>> {
        self.by_id.get(id)
    }

    /// The token asks for `node`.
    pub(super) fn ask(&mut self, id: LockId, node: N, until: Instant) {
        self.remove(&id);
        self.last += 1;
        let number = self.last;
        self.due.insert((until, number), id.clone());
        let lock = Lock {
            node,
            fence: None,
            until,
            revoked: None,
            number,
        };
        self.by_id.insert(id, lock);
    }

    /// The token's node is the first of its directory. Returns whether the token still asks.
    pub(super) fn granted(&mut self, id: &LockId, fence: Fence) -> bool {
        let lock = self.by_id.get_mut(id);
        lock.map(|lock| lock.fence = Some(fence)).is_some()
    }

    /// Another process wants the node back that `is` means and that has this fence. Returns which
    /// token has the lock.
    pub(super) fn revoke(&mut self, is: impl Fn(&N) -> bool, fence: Fence) -> Option<LockId> {
        let mut locks = self.by_id.iter_mut();
        let (id, lock) = locks.find(|(_, lock)| is(&lock.node))?;
        // Also before the node is known to be the first.
        lock.revoked = Some(fence);
        lock.is_revoked().then(|| id.clone())
    }

    /// Whether a token has, or asks with, the node that `is` means.
    pub(super) fn any(&self, is: impl Fn(&N) -> bool) -> bool {
        self.by_id.values().any(|lock| is(&lock.node))
    }

    /// The lease lasts until `until`. Returns whether the token has a lock.
    pub(super) fn renew(&mut self, id: &LockId, until: Instant) -> bool {
        let Some(lock) = self.by_id.get_mut(id) else {
            return false;
        };
        self.due.remove(&(lock.until, lock.number));
        // Also where its end was named already.
        self.due.insert((until, lock.number), id.clone());
        lock.until = until;
        true
    }

    pub(super) fn remove(&mut self, id: &LockId) -> Option<Lock<N>> {
        let lock = self.by_id.remove(id)?;
        self.due.remove(&(lock.until, lock.number));
        Some(lock)
    }

    /// Removes the locks with nodes of which `gone` is true.
    pub(super) fn remove_all(&mut self, gone: impl Fn(&N) -> bool) -> Vec<(LockId, Lock<N>)> {
        let found = self.by_id.iter().filter(|(_, lock)| gone(&lock.node));
        let found: Vec<_> = found.map(|(id, _)| id.clone()).collect();
        let taken = found.into_iter().filter_map(|id| {
            let lock = self.remove(&id)?;
            Some((id, lock))
        });
        taken.collect()
    }

    /// When the next lease is over.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due.first_key_value().map(|((due, _), _)| *due)
    }

    /// The locks whose leases are over at `now`. They stay, and are not named again.
    pub(super) fn over(&mut self, now: Instant) -> Vec<LockId> {
        let mut over = Vec::new();
        while self.next_due().is_some_and(|due| due <= now) {
            over.extend(self.due.pop_first().map(|(_, id)| id));
        }
        over
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn id(number: u128) -> LockId {
        (FullKey::from("k"), Token::fixed(number))
    }

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn leases_are_over_in_their_order() {
        let mut locks = Locks::default();
        locks.ask(id(1), "one", at(10));
        locks.ask(id(2), "two", at(5));
        locks.ask(id(3), "three", at(5));
        assert!(locks.renew(&id(2), at(12)));
        assert!(locks.remove(&id(3)).is_some());
        assert_eq!(locks.next_due(), Some(at(10)));
        assert_eq!(locks.over(at(11)), [id(1)]);
        assert_eq!(locks.over(at(20)), [id(2)]);
        assert!(locks.renew(&id(2), at(21)), "renewed after all");
        assert_eq!(locks.over(at(30)), [id(2)]);
        assert_eq!(locks.next_due(), None);
        assert!(locks.remove(&id(1)).is_some(), "it is still known");
    }

    #[test]
    fn a_token_that_asks_again_has_one_lease() {
        let mut locks = Locks::default();
        locks.ask(id(1), "one", at(5));
        assert!(locks.granted(&id(1), Fence::new(7)));
        locks.ask(id(1), "other", at(9));
        assert_eq!(locks.over(at(8)), []);
        let lock = locks.get(&id(1)).expect("it asks");
        assert_eq!((lock.node, lock.fence), ("other", None));
        assert!(!locks.granted(&id(2), Fence::new(8)));
        assert!(!locks.renew(&id(2), at(9)));
    }

    /// Fails if a lock is told twice as another's, or is forgotten that is granted later.
    #[test]
    fn a_node_is_revoked_by_its_fence() {
        let mut locks = Locks::default();
        locks.ask(id(1), "one", at(5));
        let revoke = |locks: &mut Locks<&'static str>, node, fence| {
            locks.revoke(|found| *found == node, Fence::new(fence))
        };
        assert_eq!(revoke(&mut locks, "other", 7), None);
        assert_eq!(revoke(&mut locks, "one", 7), None, "it is not granted");
        assert!(locks.granted(&id(1), Fence::new(7)));
        assert!(locks.get(&id(1)).is_some_and(Lock::is_revoked));
        assert_eq!(revoke(&mut locks, "one", 6), None, "an earlier node");
        assert!(!locks.get(&id(1)).is_some_and(Lock::is_revoked));
        assert_eq!(revoke(&mut locks, "one", 7), Some(id(1)));
    }

    #[test]
    fn the_locks_of_a_session_go_together() {
        let mut locks = Locks::default();
        for number in 0..6 {
            locks.ask(id(number), number % 2, at(5));
        }
        let gone = locks.remove_all(|node| *node == 1);
        assert_eq!(gone.len(), 3);
        assert!(locks.get(&id(0)).is_some() && locks.get(&id(1)).is_none());
    }
}
