//! What is under way to the store, and what gathers meanwhile.
//!
//! Requests that leave together are one script, which costs a server less than one for each. So
//! while [`MOST`] batches are under way what is asked gathers, and leaves with the next answer. Two,
//! since with one under way a server across a network would idle for half of each round trip.
//!
//! Callers that are told together ask together a moment later, each in its own task. So after such
//! news what they ask gathers too, until the lane that told them comes round again behind them.

use std::collections::VecDeque;
use std::time::Duration;

use crate::clock::Instant;
use crate::seeded::seeded;
use crate::store::{OpId, Request};

/// So many batches are under way at most while answers come.
const MOST: usize = 2;

/// For so long at most what callers ask after common news gathers: one that computes for longer is
/// not waited for.
const GATHER: Duration = Duration::from_micros(100);

#[derive(Debug, Default)]
pub(super) struct Traffic {
    batches: VecDeque<Batch>,
    gathers_until: Option<Instant>,
    /// How many answers have come.
    answers: u64,
}

/// Requests that have left together: their numbers follow each other.
#[derive(Debug)]
struct Batch {
    first: OpId,
    last: OpId,
    unanswered: usize,
}

impl Traffic {
    /// Whether what there is to ask leaves at once.
    pub(super) fn may_send(&self, now: Instant) -> bool {
        self.batches.len() < MOST && self.gathers_until.is_none_or(|until| until <= now)
    }

    /// These leave now.
    pub(super) fn sends(&mut self, requests: &[Request]) {
        if let (Some(first), Some(last)) = (requests.first(), requests.last()) {
            self.batches.push_back(Batch {
                first: first.id,
                last: last.id,
                unanswered: requests.len(),
            });
        }
    }

    pub(super) fn answered(&mut self, id: OpId) {
        self.answers += 1;
        let mut batches = self.batches.iter_mut();
        if let Some(at) = batches.position(|batch| (batch.first..=batch.last).contains(&id)) {
            self.batches[at].unanswered -= 1;
            if self.batches[at].unanswered == 0 {
                self.batches.remove(at);
            }
        }
    }

    /// How many answers have come.
    pub(super) fn answers(&self) -> u64 {
        self.answers
    }

    /// Several callers are told now.
    pub(super) fn gather(&mut self, now: Instant) {
        self.gathers_until = Some(now + GATHER);
    }

    /// They have had their turn.
    pub(super) fn gathered(&mut self) {
        if seeded!(GatheredForever) {
            return;
        }
        self.gathers_until = None;
    }

    /// Nothing is answered for long: what is asked does not wait for that.
    pub(super) fn stalls(&mut self) {
        self.batches.clear();
        self.gathered();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Op;

    fn requests(ids: std::ops::RangeInclusive<u64>) -> Vec<Request> {
        let request = |id| Request {
            id: OpId(id),
            op: Op::Leave { key: "key".into() },
            patience: GATHER,
        };
        ids.map(request).collect()
    }

    #[test]
    fn with_two_batches_under_way_requests_gather_until_one_is_answered_or_all_stall() {
        let (mut traffic, now) = (Traffic::default(), Instant::ZERO);
        traffic.sends(&requests(1..=2));
        assert!(traffic.may_send(now));
        traffic.sends(&requests(3..=3));
        assert!(!traffic.may_send(now));
        traffic.answered(OpId(1));
        assert!(!traffic.may_send(now), "half of the first");
        traffic.answered(OpId(2));
        assert!(traffic.may_send(now));
        traffic.sends(&requests(4..=4));
        assert!(!traffic.may_send(now));
        traffic.stalls();
        assert!(traffic.may_send(now));
        // One that was taken to be lost.
        traffic.answered(OpId(3));
        assert_eq!(traffic.answers(), 3);
    }

    #[test]
    fn after_common_news_requests_gather_for_a_moment() {
        let (mut traffic, now) = (Traffic::default(), Instant::ZERO);
        traffic.gather(now);
        assert!(!traffic.may_send(now));
        assert!(traffic.may_send(now + GATHER));
        traffic.gathered();
        assert!(traffic.may_send(now));
    }
}
