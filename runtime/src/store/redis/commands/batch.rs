//! Collects simultaneous requests into as few scripts as their order allows.
//!
//! Starting a script costs a server more than taking one more lock in it. So simultaneous acquires
//! are sent as one script, and simultaneous releases as another. If the only requests are a release
//! and an acquire of the same lock, a single script serves both. With this script, a process gives
//! a lock to other processes and queues for it again in one step.
//!
//! The order of requests for different locks does not matter. Requests for the same lock keep their
//! order: a release may be sent before earlier acquires of other locks, but not of its own lock.

use std::mem;
use std::time::Duration;

use super::in_flight::InFlight;
use crate::base::full_key::{FullKey, KeySet};
use crate::base::one_or_many::OneOrMany;
use crate::store::{Give, GiveKind, Op, Take, TakeKind};

/// Maximum number of locks that one script takes or releases. A longer script saves hardly any time
/// for each lock, and makes all other clients of the server wait longer.
pub(crate) const MOST: usize = 32;

/// Requests sent as one script.
pub(crate) type Batch = OneOrMany<InFlight>;

/// Batches, in the order of sending.
pub(crate) type Batches = OneOrMany<Batch>;

/// Sorts requests into batches.
pub(crate) struct Batcher {
    most: usize,
    /// True if a release and an acquire of the same lock may be sent as one script. False for a
    /// node of a quorum or of a cluster.
    turns: bool,
    /// True if only one request is expected. No lock can then occur twice in a batch, so the
    /// batcher needs no sets of keys.
    is_single: bool,
    releases: Side,
    acquires: Side,
    closed: Batches,
}

/// An open batch of releases or of acquires. It contains no lock twice.
#[derive(Default)]
struct Side {
    batch: Vec<InFlight>,
    keys: KeySet,
}

impl Batcher {
    pub(crate) fn new(most: usize, turns: bool) -> Self {
        Self {
            most,
            turns,
            is_single: false,
            releases: Side::default(),
            acquires: Side::default(),
            closed: Batches::default(),
        }
    }

    /// Prepares for this many requests.
    pub(crate) fn expect(&mut self, requests: usize) {
        self.is_single = requests == 1;
        if 1 < requests {
            for side in [&mut self.releases, &mut self.acquires] {
                side.batch.reserve(requests.min(self.most));
                side.keys.reserve(requests.min(self.most));
            }
        }
    }

    pub(crate) fn add(&mut self, request: InFlight) {
        match &request.op {
            _ if request.flags.alone || self.is_single => {
                self.close();
                self.closed.push(Batch::One(request));
            }
            Op::Take(Take {
                key,
                kind: TakeKind::Lock { .. },
                ..
            }) => {
                let key = key.clone();
                if !self.acquires.has_room(&key, self.most) {
                    self.close();
                }
                self.acquires.add(key, request);
            }
            Op::Give(Give {
                key,
                kind: GiveKind::Lock,
                ..
            }) => {
                let key = key.clone();
                if self.acquires.keys.contains(&key) {
                    self.close();
                } else if !self.releases.has_room(&key, self.most) {
                    self.releases.close(&mut self.closed);
                }
                self.releases.add(key, request);
            }
            _ => {
                self.close();
                self.closed.push(Batch::One(request));
            }
        }
    }

    /// Returns all batches, in the order of sending.
    pub(crate) fn finish(mut self) -> Batches {
        self.close();
        self.closed
    }

    /// Closes the open batches. Releases go first, because other processes may be waiting for their
    /// locks.
    fn close(&mut self) {
        if self.turns && self.is_turn() {
            let mut turn = mem::take(&mut self.releases).batch;
            turn.append(&mut mem::take(&mut self.acquires).batch);
            self.closed.push(Batch::Many(turn));
            return;
        }
        self.releases.close(&mut self.closed);
        self.acquires.close(&mut self.closed);
    }

    /// True if the open batches are only a release and an acquire of the same lock. The release
    /// must be a plain one, without `keep` and `makes_way`.
    fn is_turn(&self) -> bool {
        let ([released], [acquired]) = (&self.releases.batch[..], &self.acquires.batch[..]) else {
            return false;
        };
        match (&released.op, &acquired.op) {
            (Op::Give(give), Op::Take(next)) => {
                give.key == next.key && give.keep.is_none() && !give.makes_way
            }
            _ => false,
        }
    }
}

impl Side {
    fn has_room(&self, key: &FullKey, most: usize) -> bool {
        self.batch.len() < most && !self.keys.contains(key)
    }

    fn add(&mut self, key: FullKey, request: InFlight) {
        self.keys.insert(key);
        self.batch.push(request);
    }

    fn close(&mut self, closed: &mut Batches) {
        if !self.batch.is_empty() {
            let mut batch = mem::take(&mut self.batch);
            // Sorts the requests, so that requests with equal conditions are adjacent: the script
            // gets the conditions once for such a group. Usually, all requests have the same
            // conditions.
            if !batch.is_sorted_by_key(|request| Conditions::of(&request.op)) {
                batch.sort_by_key(|request| Conditions::of(&request.op));
            }
            closed.push(Batch::Many(batch));
            self.keys.clear();
        }
    }
}

/// Parameters of an acquire or a release other than key and token. A script gets them once for all
/// requests that share them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Conditions {
    Acquire {
        ttl: Duration,
        function: &'static str,
        queue: bool,
        kind: TakeKind,
    },
    Release {
        keep: Option<Duration>,
        makes_way: bool,
    },
    /// Any other request. It is sent without a batch.
    Other,
}

impl Conditions {
    pub(super) fn of(op: &Op) -> Self {
        match *op {
            Op::Take(Take {
                ttl,
                function,
                queue,
                kind,
                ..
            }) => Self::Acquire {
                ttl,
                function,
                queue,
                kind,
            },
            Op::Give(Give {
                keep, makes_way, ..
            }) => Self::Release { keep, makes_way },
            _ => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::token::Token;
    use crate::store::OpId;
    use crate::store::redis::commands::redirect::RequestFlags;

    fn acquire(id: u64, key: &str) -> InFlight {
        let token = Token::fixed(id.into());
        let take = Take::lock(key.into(), token, Duration::from_secs(1), "");
        in_flight(id, Op::Take(take))
    }

    fn release(id: u64, key: &str) -> InFlight {
        let give = Give::now(key.into(), Token::fixed(id.into()), GiveKind::Lock);
        in_flight(id, Op::Give(give))
    }

    fn leave(id: u64, key: &str) -> InFlight {
        in_flight(id, Op::Leave { key: key.into() })
    }

    fn in_flight(id: u64, op: Op) -> InFlight {
        InFlight {
            id: OpId(id),
            op,
            flags: RequestFlags::default(),
            ordered: false,
            listening: true,
        }
    }

    fn batches(most: usize, requests: Vec<InFlight>) -> Vec<Vec<u64>> {
        let mut batcher = Batcher::new(most, false);
        for request in requests {
            batcher.add(request);
        }
        let ids = |batch: &Batch| batch.iter().map(|request| request.id.0).collect();
        batcher.finish().iter().map(ids).collect()
    }

    #[test]
    fn simultaneous_requests_are_sent_as_two_scripts() {
        let requests = vec![
            acquire(1, "a"),
            release(2, "b"),
            acquire(3, "c"),
            release(4, "d"),
        ];
        assert_eq!(batches(64, requests), [[2, 4], [1, 3]]);
    }

    #[test]
    fn the_requests_of_one_lock_keep_their_order() {
        let taken_then_released = vec![acquire(1, "a"), release(2, "a"), acquire(3, "b")];
        assert_eq!(
            batches(64, taken_then_released),
            [vec![1], vec![2], vec![3]]
        );
        let released_then_taken = vec![release(1, "a"), acquire(2, "a"), release(3, "b")];
        assert_eq!(batches(64, released_then_taken), [vec![1, 3], vec![2]]);
        let round_about = vec![
            release(1, "a"),
            acquire(2, "a"),
            release(3, "a"),
            acquire(4, "a"),
        ];
        assert_eq!(batches(64, round_about), [[1], [2], [3], [4]]);
        let left_between = vec![acquire(1, "a"), leave(2, "a"), acquire(3, "b")];
        assert_eq!(batches(64, left_between), [[1], [2], [3]]);
    }

    #[test]
    fn an_isolated_request_is_sent_alone() {
        let mut alone = acquire(2, "b");
        alone.flags.alone = true;
        let requests = vec![acquire(1, "a"), alone, acquire(3, "c"), release(4, "d")];
        assert_eq!(batches(64, requests), [vec![1], vec![2], vec![4], vec![3]]);
    }

    #[test]
    fn a_release_and_an_acquire_of_the_same_lock_are_one_script() {
        let batches = |requests: Vec<InFlight>| {
            let mut batcher = Batcher::new(64, true);
            for request in requests {
                batcher.add(request);
            }
            let ids = |batch: &Batch| batch.iter().map(|request| request.id.0).collect();
            batcher.finish().iter().map(ids).collect::<Vec<Vec<u64>>>()
        };
        let round_about = vec![
            release(1, "a"),
            acquire(2, "a"),
            release(3, "a"),
            acquire(4, "a"),
        ];
        assert_eq!(batches(round_about), [[1, 2], [3, 4]]);
        let of_two = vec![release(1, "a"), acquire(2, "b")];
        assert_eq!(batches(of_two), [[1], [2]]);
        let among_others = vec![release(1, "a"), acquire(2, "a"), acquire(3, "b")];
        assert_eq!(batches(among_others), [vec![1], vec![2, 3]]);
        let mut kept = release(1, "a");
        if let Op::Give(give) = &mut kept.op {
            give.keep = Some(Duration::from_secs(1));
        }
        assert_eq!(batches(vec![kept, acquire(2, "a")]), [[1], [2]]);
    }

    #[test]
    fn similar_requests_are_grouped_in_their_order() {
        let short = |id, key| {
            let mut request = acquire(id, key);
            if let Op::Take(take) = &mut request.op {
                take.ttl /= 2;
            }
            request
        };
        let requests = vec![
            acquire(1, "a"),
            short(2, "b"),
            acquire(3, "c"),
            short(4, "d"),
        ];
        assert_eq!(batches(64, requests), [[2, 4, 1, 3]]);
    }

    #[test]
    fn no_script_names_a_lock_twice() {
        assert_eq!(
            batches(64, vec![acquire(1, "a"), acquire(2, "a")]),
            [[1], [2]]
        );
        assert_eq!(
            batches(64, vec![release(1, "a"), release(2, "a")]),
            [[1], [2]]
        );
    }

    #[test]
    fn a_script_has_a_bounded_length() {
        let requests = vec![
            release(1, "a"),
            acquire(2, "a"),
            acquire(3, "b"),
            acquire(4, "c"),
            release(5, "d"),
            release(6, "e"),
            release(7, "f"),
        ];
        assert_eq!(
            batches(2, requests),
            [vec![1], vec![2, 3], vec![5, 6], vec![7], vec![4]]
        );
        let alone = vec![release(1, "b"), acquire(2, "a")];
        assert_eq!(batches(1, alone), [[1], [2]]);
    }
}
