//! A question to all nodes, and the answers so far. Does no I/O.

use std::sync::Arc;
use std::time::Duration;

use super::failures;
use super::quorum::{Tally, Verdict, Vote, majority};
use crate::base::clock::Instant;
use crate::base::full_key::FullKey;
use crate::base::token::Token;
use crate::owner::Owner;
use crate::store::{Failure, Reply, Retry};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct NodeSet(u64);

impl NodeSet {
    /// Maximum number of nodes in a set: one for each bit.
    pub(super) const MOST: usize = 64;

    pub(super) fn insert(&mut self, node: usize) {
        self.0 |= 1 << node;
    }

    /// Removes a node. Returns true if it was in the set.
    pub(super) fn remove(&mut self, node: usize) -> bool {
        let found = self.contains(node);
        self.0 &= !(1 << node);
        found
    }

    pub(super) fn contains(self, node: usize) -> bool {
        self.0 >> node & 1 == 1
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// An undecided question to all nodes.
#[derive(Debug)]
pub(super) struct PendingQuestion {
    pub(super) question: Question,
    pub(super) sent: Instant,
    /// Time at which the question stops waiting for answers.
    pub(super) deadline: Instant,
    /// Nodes whose answers are still missing.
    pub(super) waiting: NodeSet,
    /// Nodes whose yes to an acquire counts. They are not in quarantine.
    pub(super) voters: NodeSet,
    pub(super) nodes: usize,
    troubles: Vec<(usize, Trouble)>,
}

#[derive(Debug)]
pub(super) enum Question {
    Acquire {
        key: FullKey,
        token: Token,
        ttl: Duration,
        /// Number of times that the process may hand the lock over among its calls.
        reserved_fences: u32,
        tally: Tally,
        /// The owners in the answers of nodes that refused the lock.
        owners: Vec<Arc<Owner>>,
    },
    /// One tally for each key.
    Renew(Vec<Tally>),
    Release {
        /// True if an earlier acquire of the call may still set the key. The release then waits for
        /// all nodes.
        uncertain: bool,
        /// Number of answers so far.
        answered: usize,
        /// Number of answering nodes that had the key.
        found: usize,
        /// Number of nodes on which the removal followed every acquire of the lock.
        ordered: usize,
        /// Number of nodes that certainly did not have the key. A node counts only if it found no
        /// key before a second attempt at the removal was sent. After that, the first attempt may
        /// have removed the key.
        without: usize,
    },
}

/// Reason why a node has no vote on a question.
#[derive(Debug)]
enum Trouble {
    Failed(Failure),
    Silent,
    Young,
}

impl PendingQuestion {
    pub(super) fn new(question: Question, nodes: usize, sent: Instant, deadline: Instant) -> Self {
        Self {
            question,
            sent,
            deadline,
            waiting: NodeSet::default(),
            voters: NodeSet::default(),
            nodes,
            troubles: Vec::new(),
        }
    }

    /// Handles a node's answer. Only the first answer of each node counts.
    ///
    /// `first` is true for the answer to a removal of which only one attempt was sent. No earlier
    /// attempt can then have removed the key.
    pub(super) fn receive(&mut self, node: usize, result: &Result<Reply, Failure>, first: bool) {
        if !self.waiting.remove(node) {
            return;
        }
        match result {
            Ok(reply) => self.count(node, reply, first),
            Err(failure) => self.void(node, Trouble::Failed(failure.clone())),
        }
    }

    /// Records that a node was not asked.
    pub(super) fn skip(&mut self, node: usize, failure: Failure) {
        self.void(node, Trouble::Failed(failure));
    }

    /// Gives up all nodes without an answer.
    pub(super) fn expire(&mut self) {
        for node in 0..self.nodes {
            if self.waiting.remove(node) {
                self.void(node, Trouble::Silent);
            }
        }
    }

    fn count(&mut self, node: usize, reply: &Reply, first: bool) {
        match (&mut self.question, reply) {
            (Question::Acquire { tally, .. }, Reply::Acquired { .. }) => {
                if self.voters.contains(node) {
                    tally.cast(Vote::Yes);
                } else {
                    self.void(node, Trouble::Young);
                }
            }
            (Question::Acquire { tally, owners, .. }, Reply::Held { left, owner, .. }) => {
                tally.cast(Vote::No(*left));
                owners.extend(owner.clone());
            }
            (Question::Renew(tallies), Reply::Renewed(kept)) => {
                for (tally, kept) in tallies.iter_mut().zip(kept) {
                    tally.cast(if *kept { Vote::Yes } else { Vote::No(None) });
                }
            }
            (
                Question::Release {
                    found,
                    answered,
                    ordered,
                    without,
                    ..
                },
                Reply::Released {
                    found: had,
                    ordered: behind,
                },
            ) => {
                *answered += 1;
                *found += usize::from(*had);
                *without += usize::from(!*had && first);
                *ordered += usize::from(*behind);
            }
            // The reply does not fit the question, so the node counts as silent.
            _ => self.void(node, Trouble::Silent),
        }
    }

    fn void(&mut self, node: usize, trouble: Trouble) {
        match &mut self.question {
            Question::Acquire { tally, .. } => tally.cast(Vote::Void),
            Question::Renew(tallies) => tallies.iter_mut().for_each(|tally| tally.cast(Vote::Void)),
            Question::Release { .. } => {}
        }
        self.troubles.push((node, trouble));
    }

    /// Returns the decision of the votes, as the answer to the engine. `None` while more votes are
    /// needed.
    pub(super) fn decision(&self, names: &[String]) -> Option<Result<Reply, Failure>> {
        match &self.question {
            Question::Acquire {
                tally,
                reserved_fences,
                owners,
                ..
            } => match tally.acquired() {
                Verdict::Open => None,
                // Independent nodes cannot provide a common fence.
                Verdict::Yes => Some(Ok(Reply::Acquired {
                    fence: None,
                    reserved_fences: *reserved_fences,
                    wanted: None,
                })),
                Verdict::No(left) => Some(Ok(Reply::Held {
                    left,
                    queued: false,
                    owner: self.agreed(owners),
                })),
                Verdict::Unknown => Some(Err(self.no_quorum(names))),
            },
            Question::Renew(tallies) => self.renewed(tallies, names),
            Question::Release { .. } => self.released(names),
        }
    }

    /// Returns the owner that a majority of all nodes has reported, if there is one.
    fn agreed(&self, owners: &[Arc<Owner>]) -> Option<Arc<Owner>> {
        let count = |owner: &Arc<Owner>| owners.iter().filter(|other| *other == owner).count();
        let agreed = owners
            .iter()
            .find(|owner| majority(self.nodes) <= count(owner));
        agreed.cloned()
    }

    fn renewed(&self, tallies: &[Tally], names: &[String]) -> Option<Result<Reply, Failure>> {
        let verdict = |tally: &Tally| match tally.renewed() {
            Verdict::Open => None,
            Verdict::Yes => Some(Some(true)),
            Verdict::No(_) => Some(Some(false)),
            Verdict::Unknown => Some(None),
        };
        let kept: Vec<Option<bool>> = tallies.iter().map(verdict).collect::<Option<_>>()?;
        Some(if kept.iter().all(Option::is_none) {
            Err(self.no_quorum(names))
        } else if let Some(kept) = kept.iter().copied().collect() {
            Ok(Reply::Renewed(kept))
        } else {
            Ok(Reply::RenewedInPart(kept))
        })
    }

    fn released(&self, names: &[String]) -> Option<Result<Reply, Failure>> {
        let Question::Release {
            uncertain,
            answered,
            found,
            ordered,
            without,
        } = self.question
        else {
            return None;
        };
        let quorum = majority(self.nodes);
        let enough = quorum <= answered;
        // The lock was lost only if so many nodes were certainly without the key that no quorum can
        // have had it. A node without an answer may have had the key. The first answers may be from
        // nodes that refused the acquire, so the release then waits for the other nodes.
        let lost = self.nodes - without < quorum;
        let open = found < quorum && !lost;
        if !self.waiting.is_empty() && (uncertain || !enough || open) {
            return None;
        }
        Some(if enough {
            Ok(Reply::Released {
                found: !lost,
                ordered: ordered == self.nodes,
            })
        } else {
            Err(self.no_quorum(names))
        })
    }

    /// Returns the failure for a question on which too few votes count.
    fn no_quorum(&self, names: &[String]) -> Failure {
        let mut why = String::new();
        let mut retry = Retry::Never;
        for (node, trouble) in &self.troubles {
            let (text, again) = trouble.explain();
            why = format!("{why}; {}: {text}", names[*node]);
            if again != Retry::Never {
                retry = Retry::Later;
            }
        }
        failures::no_quorum(self.troubles.len(), self.nodes, &why, retry)
    }
}

impl Trouble {
    fn explain(&self) -> (String, Retry) {
        match self {
            Self::Failed(failure) => (failure.text(), failure.retry),
            Self::Silent => ("no answer in time".to_owned(), Retry::Later),
            Self::Young => (
                "it was restarted recently and may have lost locks, so it does not vote until the \
                 longest of them has expired"
                    .to_owned(),
                Retry::Later,
            ),
        }
    }
}
