//! What still has to be removed from one node. Pure.
//!
//! A removal counts only where it went behind every acquire of its token on one connection, or where the outcome of
//! each is known. Otherwise it is repeated until the key would have expired by itself.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use crate::base::clock::Instant;
use crate::base::full_key::FullKey;
use crate::base::token::Token;
use crate::store::OpId;

const FIRST_RETRY: Duration = Duration::from_millis(50);
const LONGEST_RETRY: Duration = Duration::from_secs(1);

/// A key of ours that may be on the node.
#[derive(Debug, Clone)]
pub(super) struct PendingRemoval {
    pub(super) key: FullKey,
    pub(super) wire: Token,
    /// The acquires that may have set it.
    pub(super) asked: Vec<OpId>,
    /// By then it has expired.
    pub(super) until: Instant,
    /// How long the key is kept without an owner instead of being removed.
    pub(super) keep: Option<Duration>,
    /// The release that waits for the next answer.
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
            keep: None,
            release: None,
            tries: 0,
            due: Instant::ZERO,
        }
    }
}

/// One node's debts. All tries of one carry the same id: any answer to any of them is as good.
#[derive(Debug, Default)]
pub(super) struct PendingRemovals {
    by_id: HashMap<OpId, PendingRemoval>,
    by_name: HashMap<(FullKey, Token), OpId>,
    due: BTreeSet<(Instant, OpId)>,
}

impl PendingRemovals {
    /// Takes a debt over, unless it is there already; says under which id.
    pub(super) fn owe(&mut self, id: OpId, debt: PendingRemoval) -> OpId {
        let id = *self
            .by_name
            .entry((debt.key.clone(), debt.wire))
            .or_insert(id);
        let release = debt.release;
        let known = self.by_id.entry(id).or_insert(debt);
        if release.is_some() {
            known.release = release;
        }
        id
    }

    /// Another try is under way: when the next one comes, and what this one carries.
    pub(super) fn tried(&mut self, id: OpId, now: Instant) -> Option<&PendingRemoval> {
        let debt = self.by_id.get_mut(&id)?;
        self.due.remove(&(debt.due, id));
        let pause = FIRST_RETRY.saturating_mul(1 << debt.tries.min(10));
        debt.tries += 1;
        debt.due = (now + pause.min(LONGEST_RETRY)).min(debt.until);
        self.due.insert((debt.due, id));
        Some(debt)
    }

    /// Whether at most one try of `id` has been sent.
    pub(super) fn is_first_try(&self, id: OpId) -> bool {
        self.by_id.get(&id).is_none_or(|debt| debt.tries <= 1)
    }

    /// The release that waits for an answer of `id`, once.
    pub(super) fn take_release(&mut self, id: OpId) -> Option<OpId> {
        self.by_id.get_mut(&id)?.release.take()
    }

    /// Nothing of it is left on the node.
    pub(super) fn settle(&mut self, id: OpId) -> Option<PendingRemoval> {
        let debt = self.by_id.remove(&id)?;
        self.by_name.remove(&(debt.key.clone(), debt.wire));
        self.due.remove(&(debt.due, id));
        Some(debt)
    }

    /// All that are to be tried again now.
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

    /// Whether the key has expired by now.
    pub(super) fn is_over(&self, id: OpId, now: Instant) -> bool {
        self.by_id.get(&id).is_some_and(|debt| debt.until <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(1) + Duration::from_millis(millis)
    }

    fn debt(release: Option<OpId>) -> PendingRemoval {
        PendingRemoval {
            release,
            ..PendingRemoval::new("k".into(), Token::fixed(1), vec![OpId(5)], at(400))
        }
    }

    #[test]
    fn a_debt_is_tried_until_it_is_settled_or_over() {
        let mut debts = PendingRemovals::default();
        let id = debts.owe(OpId(90), debt(None));
        debts.tried(id, at(0)).unwrap();
        assert_eq!(debts.next_due(), Some(at(50)));
        assert_eq!(debts.due(at(49)), []);
        debts.tried(id, at(50)).unwrap();
        debts.tried(id, at(150)).unwrap();
        assert_eq!(debts.due(at(350)), [id]);
        debts.tried(id, at(350)).unwrap();
        assert_eq!(
            debts.next_due(),
            Some(at(400)),
            "the end of the key, not later"
        );
        assert!(debts.is_over(id, at(400)));
        assert!(debts.settle(id).is_some());
        assert_eq!(debts.next_due(), None);
    }

    #[test]
    fn a_release_joins_the_removal_that_is_under_way() {
        let mut debts = PendingRemovals::default();
        let id = debts.owe(OpId(90), debt(None));
        assert_eq!(debts.owe(OpId(89), debt(Some(OpId(3)))), id);
        assert_eq!(debts.take_release(id), Some(OpId(3)));
        assert_eq!(debts.take_release(id), None);
        assert_eq!(debts.all(), [id]);
    }
}
