//! Locks by token: the node of each token, and the end of the token's lease.

use std::collections::{BTreeMap, HashMap};

use crate::base::clock::Instant;
use crate::base::full_key::FullKey;
use crate::base::token::Token;
use crate::fence::Fence;

/// A key, and the token with which a call takes its lock.
pub(super) type LockId = (FullKey, Token);

/// The tokens that have a node, or may have one because a request is unanswered.
#[derive(Debug)]
pub(super) struct Locks<N> {
    by_id: HashMap<LockId, Lock<N>>,
    /// Tokens by the end of their lease. The number is the lock's, so several leases can have the
    /// same end.
    due: BTreeMap<(Instant, u64), LockId>,
    last: u64,
}

/// The node that a token holds, or may hold.
#[derive(Debug, Clone)]
pub(super) struct Lock<N> {
    pub(super) node: N,
    /// The fence, once the node is known to be the first of its directory.
    pub(super) fence: Option<Fence>,
    /// End of the lease. The store then removes the node.
    pub(super) until: Instant,
    /// Fence in the last revocation of a node with this name. A revocation concerns this node only
    /// if the fences are equal: an earlier node may have had the same name.
    revoked: Option<Fence>,
    /// True once a release has begun to keep the node. The node may then have another lease.
    kept: bool,
    number: u64,
}

impl<N> Lock<N> {
    pub(super) fn is_kept(&self) -> bool {
        self.kept
    }

    /// True if another process has begun to take the node with this fence away by force.
    pub(super) fn is_revoked_at(&self, fence: Fence) -> bool {
        self.revoked == Some(fence)
    }

    /// True if another process has begun to take away the lock by force.
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

    /// Records that the token of `id` requests the lock with `node`.
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
            kept: false,
            number,
        };
        self.by_id.insert(id, lock);
    }

    /// Records that the token of `id` has the lock, because its node is the first of its directory.
    /// Returns false if `id` is not known, or was removed.
    pub(super) fn granted(&mut self, id: &LockId, fence: Fence) -> bool {
        let lock = self.by_id.get_mut(id);
        lock.map(|lock| lock.fence = Some(fence)).is_some()
    }

    /// Records a revocation with this fence for the node that `is` selects. Returns the lock's id
    /// if its token holds the lock with the same fence.
    pub(super) fn revoke(&mut self, is: impl Fn(&N) -> bool, fence: Fence) -> Option<LockId> {
        let mut locks = self.by_id.iter_mut();
        let (id, lock) = locks.find(|(_, lock)| is(&lock.node))?;
        // The revocation is recorded even before the lock is granted, so that the pending acquire
        // fails.
        lock.revoked = Some(fence);
        lock.is_revoked().then(|| id.clone())
    }

    /// True if a token holds the node that `is` selects, or requests a lock with it.
    pub(super) fn any(&self, is: impl Fn(&N) -> bool) -> bool {
        self.by_id.values().any(|lock| is(&lock.node))
    }

    /// Moves the end of the lease to `until`, unless it is later already: renewals can be answered
    /// out of order. Returns false if `id` is not known, or was removed.
    pub(super) fn renew(&mut self, id: &LockId, until: Instant) -> bool {
        let Some(lock) = self.by_id.get_mut(id) else {
            return false;
        };
        let until = until.max(lock.until);
        self.due.remove(&(lock.until, lock.number));
        // Inserted even if `over` has already returned this lock at the old end of its lease.
        // `over` then returns the lock again at the new end.
        self.due.insert((until, lock.number), id.clone());
        lock.until = until;
        true
    }

    /// Records that a release keeps the node of `id` at the server until `until`.
    pub(super) fn keep(&mut self, id: &LockId, until: Instant) {
        self.renew(id, until);
        if let Some(lock) = self.by_id.get_mut(id) {
            lock.kept = true;
        }
    }

    pub(super) fn remove(&mut self, id: &LockId) -> Option<Lock<N>> {
        let lock = self.by_id.remove(id)?;
        self.due.remove(&(lock.until, lock.number));
        Some(lock)
    }

    /// Removes the locks whose nodes match `gone`.
    pub(super) fn remove_all(&mut self, gone: impl Fn(&N) -> bool) -> Vec<(LockId, Lock<N>)> {
        let found = self.by_id.iter().filter(|(_, lock)| gone(&lock.node));
        let found: Vec<_> = found.map(|(id, _)| id.clone()).collect();
        let taken = found.into_iter().filter_map(|id| {
            let lock = self.remove(&id)?;
            Some((id, lock))
        });
        taken.collect()
    }

    /// Returns the end of the lease that ends next.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due.first_key_value().map(|((due, _), _)| *due)
    }

    /// Returns the locks whose leases are over at `now`, but does not remove them. A later call
    /// returns such a lock again only after a renewal.
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
    fn leases_end_in_order_of_their_deadlines() {
        let mut locks = Locks::default();
        locks.ask(id(1), "one", at(10));
        locks.ask(id(2), "two", at(5));
        locks.ask(id(3), "three", at(5));
        assert!(locks.renew(&id(2), at(12)));
        assert!(
            locks.renew(&id(2), at(11)),
            "an earlier renewal, answered late"
        );
        assert!(locks.remove(&id(3)).is_some());
        assert_eq!(locks.next_due(), Some(at(10)));
        assert_eq!(locks.over(at(11)), [id(1)]);
        assert_eq!(locks.over(at(12)), [id(2)]);
        assert!(locks.renew(&id(2), at(21)), "renewed after all");
        assert_eq!(locks.over(at(30)), [id(2)]);
        assert_eq!(locks.next_due(), None);
        assert!(locks.remove(&id(1)).is_some(), "it is still known");
    }

    #[test]
    fn a_repeated_token_has_one_lease() {
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

    /// Fails if a revocation is reported for the wrong lock, or is forgotten when it arrives before
    /// the lock is granted.
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
    fn the_locks_of_a_session_are_removed_together() {
        let mut locks = Locks::default();
        for number in 0..6 {
            locks.ask(id(number), number % 2, at(5));
        }
        let gone = locks.remove_all(|node| *node == 1);
        assert_eq!(gone.len(), 3);
        assert!(locks.get(&id(0)).is_some() && locks.get(&id(1)).is_none());
    }
}
