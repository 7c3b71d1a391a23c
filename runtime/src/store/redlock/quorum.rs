//! Counts the nodes' votes on a question. Does no I/O.

use std::time::Duration;

use crate::base::seeded::seeded;

/// One node's vote on a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Vote {
    Yes,
    /// The node refuses. If the node has another holder's key, that key expires after at most this
    /// time, if known.
    No(Option<Duration>),
    /// The node has no vote: an error, silence, or a yes from a node that may not vote.
    Void,
}

/// Result of a vote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The result depends on votes that are still missing.
    Open,
    Yes,
    /// Refused. The lock is free after at most this time, if known.
    No(Option<Duration>),
    /// Too many votes are void for a decision.
    Unknown,
}

/// The votes on one question. A quorum is a majority of all configured nodes, not only of the nodes
/// that answer.
#[derive(Debug, Clone)]
pub(super) struct Tally {
    nodes: usize,
    yes: usize,
    void: usize,
    no: Vec<Option<Duration>>,
}

/// Returns the smallest number that is more than half of `nodes`. Any two quorums then have a node
/// in common.
pub(super) fn majority(nodes: usize) -> usize {
    nodes / 2 + 1
}

impl Tally {
    pub(super) fn new(nodes: usize) -> Self {
        Self {
            nodes,
            yes: 0,
            void: 0,
            no: Vec::new(),
        }
    }

    /// Adds a vote. The caller ensures that each node votes at most once.
    pub(super) fn cast(&mut self, vote: Vote) {
        match vote {
            Vote::Yes => self.yes += 1,
            Vote::No(left) => self.no.push(left),
            Vote::Void => self.void += 1,
        }
    }

    fn quorum(&self) -> usize {
        if seeded!(QuorumOfAnswers) {
            return majority(self.yes + self.no.len());
        }
        majority(self.nodes)
    }

    fn to_come(&self) -> usize {
        self.nodes - self.yes - self.no.len() - self.void
    }

    /// Decides if the votes grant the lock. The decision is open while a quorum of yes votes is
    /// still possible. When it is no longer possible, the lock is refused if a node voted no and
    /// the nodes without a void vote are a quorum. Otherwise, the result is unknown.
    pub(super) fn acquired(&self) -> Verdict {
        let quorum = self.quorum();
        if self.yes >= quorum {
            Verdict::Yes
        } else if self.yes + self.to_come() >= quorum {
            Verdict::Open
        } else if !self.no.is_empty() && self.nodes - self.void >= quorum {
            Verdict::No(self.no_longer_than())
        } else {
            Verdict::Unknown
        }
    }

    /// Decides if the lock is still held. It is lost only after a quorum of no votes.
    pub(super) fn renewed(&self) -> Verdict {
        let quorum = if seeded!(RenewedByOne) {
            1
        } else {
            self.quorum()
        };
        let (no, to_come) = (self.no.len(), self.to_come());
        if self.yes >= quorum {
            Verdict::Yes
        } else if no >= quorum {
            Verdict::No(None)
        } else if self.yes.max(no) + to_come >= quorum {
            Verdict::Open
        } else {
            Verdict::Unknown
        }
    }

    /// Returns the longest time until enough keys of other holders have expired for a quorum of yes
    /// votes, if known.
    fn no_longer_than(&self) -> Option<Duration> {
        let mut left = self.no.clone();
        left.sort_by_key(|left| left.unwrap_or(Duration::MAX));
        let missing = majority(self.nodes).saturating_sub(self.yes).max(1);
        left.get(missing - 1).or(left.last()).copied().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NO: Vote = Vote::No(None);

    fn tally(nodes: usize, votes: &[Vote]) -> Tally {
        let mut tally = Tally::new(nodes);
        for vote in votes {
            tally.cast(*vote);
        }
        tally
    }

    #[test]
    fn two_of_three_votes_decide() {
        use Vote::{Void, Yes};
        assert_eq!(tally(3, &[Yes]).acquired(), Verdict::Open);
        assert_eq!(tally(3, &[Yes, Yes]).acquired(), Verdict::Yes);
        assert_eq!(tally(3, &[Void, Yes, Yes]).acquired(), Verdict::Yes);
        assert_eq!(tally(3, &[NO, NO]).acquired(), Verdict::No(None));
        assert_eq!(tally(3, &[Void, Void]).acquired(), Verdict::Unknown);
        assert_eq!(tally(3, &[Yes, Void, Void]).acquired(), Verdict::Unknown);
        assert_eq!(tally(3, &[Yes, NO, Void]).acquired(), Verdict::No(None));
    }

    #[test]
    fn a_minority_cannot_take_a_lease_away() {
        use Vote::{Void, Yes};
        assert_eq!(tally(3, &[NO, Void]).renewed(), Verdict::Open);
        assert_eq!(tally(3, &[NO, Void, Yes]).renewed(), Verdict::Unknown);
        assert_eq!(tally(3, &[NO, NO]).renewed(), Verdict::No(None));
        assert_eq!(tally(3, &[NO, Yes, Yes]).renewed(), Verdict::Yes);
        assert_eq!(tally(5, &[NO, NO, Yes, Yes]).renewed(), Verdict::Open);
    }

    #[test]
    fn a_refusal_ends_when_enough_blocking_keys_expire() {
        let no = |seconds| Vote::No(Some(Duration::from_secs(seconds)));
        let held = |votes: &[Vote]| tally(3, votes).acquired();
        let left = |seconds| Verdict::No(Some(Duration::from_secs(seconds)));
        assert_eq!(held(&[no(9), Vote::Yes, no(3)]), left(3));
        assert_eq!(held(&[no(9), no(3), no(5)]), left(5));
        assert_eq!(held(&[no(9), NO]), Verdict::No(None));
    }

    proptest! {
        /// Fails if some order of votes, or some number of void votes, gives a verdict without a
        /// majority of all nodes. Two holders could then have no node in common.
        #[test]
        fn a_verdict_needs_a_majority_of_all(
            nodes in 3_usize..=9,
            votes in proptest::collection::vec(0_u8..3, 9),
        ) {
            let mut tally = Tally::new(nodes);
            let mut yes = 0;
            let mut no = 0;
            for number in &votes[..nodes] {
                let before = tally.acquired();
                let vote = [Vote::Yes, NO, Vote::Void][usize::from(*number)];
                yes += usize::from(vote == Vote::Yes);
                no += usize::from(vote == NO);
                tally.cast(vote);
                prop_assert!(before != Verdict::Yes || tally.acquired() == Verdict::Yes);
                prop_assert_eq!(tally.acquired() == Verdict::Yes, 2 * yes > nodes);
                let fails = matches!(tally.acquired(), Verdict::No(_) | Verdict::Unknown);
                prop_assert_eq!(fails, 2 * (yes + tally.to_come()) <= nodes);
                prop_assert_eq!(tally.renewed() == Verdict::Yes, 2 * yes > nodes);
                prop_assert_eq!(tally.renewed() == Verdict::No(None), 2 * no > nodes);
            }
            prop_assert!(tally.acquired() != Verdict::Open && tally.renewed() != Verdict::Open);
        }
    }
}
