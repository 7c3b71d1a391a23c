//! Counting votes. Pure.

use std::time::Duration;

use crate::base::seeded::seeded;

/// One node's vote on a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Vote {
    Yes,
    /// No. The lock is held for at most this long, if known.
    No(Option<Duration>),
    /// No vote: an error, silence, or a yes of a node that may not vote.
    Void,
}

/// The decision of the votes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The decision depends on missing votes.
    Open,
    Yes,
    /// No. The lock is held for at most this long, if known.
    No(Option<Duration>),
    /// Too few votes count.
    Unknown,
}

/// The votes on one question. A quorum is a majority of all configured nodes, not of the nodes that
/// answer.
#[derive(Debug, Clone)]
pub(super) struct Tally {
    nodes: usize,
    yes: usize,
    void: usize,
    no: Vec<Option<Duration>>,
}

/// Returns more than half of `nodes`, so that any two quorums have a node in common.
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

    /// Counts a vote. The caller makes sure that each node casts at most one.
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

    /// Decides if the lock is taken. A single no vote decides as soon as a quorum of yes votes is
    /// impossible, if a quorum can still vote.
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

    /// Returns the time after which enough of the keys that stand in the way will have expired.
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
        /// No order of votes and no number of failures gives a verdict without a majority of all
        /// nodes. So the quorums of a holder and of a contender have a node in common.
        #[test]
        fn a_verdict_needs_a_majority_of_all(
            nodes in 3_usize..=9,
            votes in proptest::collection::vec(0_u8..3, 9),
        ) {
            let mut tally = Tally::new(nodes);
            let mut yes = 0;
            let mut no = 0;
            for votes in &votes[..nodes] {
                let before = tally.acquired();
                let vote = [Vote::Yes, NO, Vote::Void][usize::from(*votes)];
                yes += usize::from(vote == Vote::Yes);
                no += usize::from(vote == NO);
                tally.cast(vote);
                prop_assert!(before != Verdict::Yes || tally.acquired() == Verdict::Yes);
                prop_assert_eq!(tally.acquired() == Verdict::Yes, 2 * yes > nodes);
                prop_assert_eq!(tally.renewed() == Verdict::Yes, 2 * yes > nodes);
                prop_assert_eq!(tally.renewed() == Verdict::No(None), 2 * no > nodes);
            }
            prop_assert!(tally.acquired() != Verdict::Open && tally.renewed() != Verdict::Open);
        }
    }
}
