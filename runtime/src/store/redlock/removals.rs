//! The pending removals of keys from one node. Does no I/O.
//!
//! A removal is final only if every acquire of its token was sent before it on the same connection,
//! or has a known outcome. Otherwise, an acquire may set the key after the removal. So the removal
//! is repeated until the key has expired.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use crate::base::clock::Instant;
use crate::base::full_key::FullKey;
use crate::base::token::Token;
use crate::store::OpId;

const FIRST_RETRY: Duration = Duration::from_millis(50);
const LONGEST_RETRY: Duration = Duration::from_secs(1);

/// Removal of a key that the node may have.
#[derive(Debug, Clone)]
pub(super) struct PendingRemoval {
    pub(super) key: FullKey,
    pub(super) wire: Token,
    /// Acquires that may have set the key.
    pub(super) asked: Vec<OpId>,
    /// Latest time at which the key expires on the node.
    pub(super) until: Instant,
    /// Time until which the node keeps the key without a holder, so that no call gets the lock.
    /// `None` if the node removes the key at once.
    pub(super) kept_until: Option<Instant>,
    /// The release that waits for the next answer to this removal.
    pub(super) release: Option<OpId>,
    tries: u32,
    due: Instant,
}

impl PendingRemoval {
    pub(super) fn new(key: FullKey, wire: Token, asked: Vec<OpId>, until: Instant) -> Self {
        Self {
            key,
            wire,
            asked,
            until,
            kept_until: None,
            release: None,
            tries: 0,
            due: Instant::ZERO,
        }
    }

    /// Returns the time for which an attempt at `now` makes the node keep the key: the time until
    /// `kept_until`. So a node that carries out only a later attempt keeps the key no longer than
    /// the other nodes.
    pub(super) fn keep(&self, now: Instant) -> Option<Duration> {
        let left = self.kept_until?.since(now);
        (Duration::from_millis(1) <= left).then_some(left)
    }
}

/// The pending removals of one node. All attempts at a removal have the same id, because an answer
/// to any of them counts.
#[derive(Debug, Default)]
pub(super) struct PendingRemovals {
    by_id: HashMap<OpId, PendingRemoval>,
    by_name: HashMap<(FullKey, Token), OpId>,
    due: BTreeSet<(Instant, OpId)>,
}

impl PendingRemovals {
    /// Adds a removal with `id`, unless the same key and token already have one. Returns the id in
    /// use.
    pub(super) fn add(&mut self, id: OpId, removal: PendingRemoval) -> OpId {
        let id = *self
            .by_name
            .entry((removal.key.clone(), removal.wire))
            .or_insert(id);
        let release = removal.release;
        let known = self.by_id.entry(id).or_insert(removal);
        if release.is_some() {
            known.release = release;
        }
        id
    }

    /// Counts an attempt and sets the time of the next one. Returns the removal to send.
    pub(super) fn tried(&mut self, id: OpId, now: Instant) -> Option<&PendingRemoval> {
        let removal = self.by_id.get_mut(&id)?;
        self.due.remove(&(removal.due, id));
        let pause = FIRST_RETRY.saturating_mul(1 << removal.tries.min(10));
        removal.tries += 1;
        removal.due = (now + pause.min(LONGEST_RETRY)).min(removal.until);
        self.due.insert((removal.due, id));
        Some(removal)
    }

    /// True if at most one attempt at the removal `id` was sent.
    pub(super) fn is_first_try(&self, id: OpId) -> bool {
        self.by_id.get(&id).is_none_or(|removal| removal.tries <= 1)
    }

    /// Removes and returns the release that waits for an answer to the removal `id`.
    pub(super) fn take_release(&mut self, id: OpId) -> Option<OpId> {
        self.by_id.get_mut(&id)?.release.take()
    }

    /// Drops the removal `id`, because its outcome is certain or its key has expired.
    pub(super) fn settle(&mut self, id: OpId) -> Option<PendingRemoval> {
        let removal = self.by_id.remove(&id)?;
        self.by_name.remove(&(removal.key.clone(), removal.wire));
        self.due.remove(&(removal.due, id));
        Some(removal)
    }

    /// Returns the removals whose next attempt is due at `now`.
    pub(super) fn due(&self, now: Instant) -> Vec<OpId> {
        let due = self.due.iter().take_while(|(at, _)| *at <= now);
        due.map(|(_, id)| *id).collect()
    }

    pub(super) fn all(&self) -> Vec<OpId> {
        self.by_id.keys().copied().collect()
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// True if the key has expired at `now`.
    pub(super) fn is_over(&self, id: OpId, now: Instant) -> bool {
        self.by_id
            .get(&id)
            .is_some_and(|removal| removal.until <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(1) + Duration::from_millis(millis)
    }

    fn removal(release: Option<OpId>) -> PendingRemoval {
        PendingRemoval {
            release,
            ..PendingRemoval::new("k".into(), Token::fixed(1), vec![OpId(5)], at(400))
        }
    }

    #[test]
    fn a_removal_is_retried_until_done_or_expired() {
        let mut removals = PendingRemovals::default();
        let id = removals.add(OpId(90), removal(None));
        removals.tried(id, at(0)).unwrap();
        assert_eq!(removals.next_due(), Some(at(50)));
        assert_eq!(removals.due(at(49)), []);
        removals.tried(id, at(50)).unwrap();
        removals.tried(id, at(150)).unwrap();
        assert_eq!(removals.due(at(350)), [id]);
        removals.tried(id, at(350)).unwrap();
        assert_eq!(
            removals.next_due(),
            Some(at(400)),
            "the end of the key, not later"
        );
        assert!(removals.is_over(id, at(400)));
        assert!(removals.settle(id).is_some());
        assert_eq!(removals.next_due(), None);
    }

    /// Fails if a later attempt at a removal keeps the key for the full time again. A node that
    /// carries out only this attempt would keep the key longer than the other nodes.
    #[test]
    fn a_late_node_keeps_the_key_for_the_remaining_time() {
        let mut removals = PendingRemovals::default();
        let kept = PendingRemoval {
            kept_until: Some(at(300)),
            ..removal(None)
        };
        let id = removals.add(OpId(90), kept);
        let mut keep = |now| removals.tried(id, now).and_then(|kept| kept.keep(now));
        assert_eq!(keep(at(0)), Some(Duration::from_millis(300)));
        assert_eq!(keep(at(50)), Some(Duration::from_millis(250)));
        assert_eq!(keep(at(300)), None);
    }

    #[test]
    fn a_release_joins_a_running_removal() {
        let mut removals = PendingRemovals::default();
        let id = removals.add(OpId(90), removal(None));
        assert_eq!(removals.add(OpId(89), removal(Some(OpId(3)))), id);
        assert_eq!(removals.take_release(id), Some(OpId(3)));
        assert_eq!(removals.take_release(id), None);
        assert_eq!(removals.all(), [id]);
    }
}
