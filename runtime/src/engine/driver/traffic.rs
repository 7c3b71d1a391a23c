//! The unanswered batches of requests, and the times at which further requests may be sent.
//!
//! Requests sent together cost the server less: on Redis, for example, they share a script. So the
//! engine collects requests while [`MOST`] batches are unanswered. It sends them when one of these
//! batches is answered, and at the latest [`WATCH`] after the older batch was sent. [`MOST`] is
//! two: with one batch at a time, a server across a network would be idle while an answer and the
//! next batch travel.
//!
//! Callers that a listener wakes at the same time send their next commands a moment later, each
//! from a separate task. So the engine also collects requests until those tasks have run and the
//! listener is polled again.

use std::collections::VecDeque;
use std::time::Duration;

use super::lanes::WATCH;
use crate::base::clock::Instant;
use crate::base::seeded::seeded;
use crate::store::{OpId, Request};

/// Maximum number of unanswered batches, unless answers are late.
const MOST: usize = 2;

/// Time for which requests are collected after several callers were woken. The first command after
/// this time sends them. No timer is set for the end of this time: without a command, the listener
/// or the keeper sends the requests later.
const GATHER: Duration = Duration::from_micros(100);

#[derive(Debug, Default)]
pub(super) struct Traffic {
    batches: VecDeque<Batch>,
    gathers_until: Option<Instant>,
    /// Number of answers and messages read so far.
    received: u64,
}

/// Requests sent together. Their numbers are consecutive.
#[derive(Debug)]
struct Batch {
    first: OpId,
    last: OpId,
    unanswered: usize,
    /// Time from which further requests no longer wait for this batch.
    closes_until: Instant,
}

impl Traffic {
    /// True if requests may be sent now.
    pub(super) fn may_send(&self, now: Instant) -> bool {
        let opens = [self.batches_open_at(), self.gathers_until];
        opens.into_iter().flatten().all(|at| at <= now)
    }

    /// Returns the time at which the keeper sends the collected requests, if no answer or command
    /// sends them earlier.
    pub(super) fn opens_at(&self) -> Option<Instant> {
        let gathered = self.gathers_until.map(|until| until + WATCH);
        self.batches_open_at().max(gathered)
    }

    /// Returns the time from which unanswered batches no longer delay requests; `None` if fewer
    /// than [`MOST`] batches are unanswered.
    fn batches_open_at(&self) -> Option<Instant> {
        let oldest = self.batches.len().checked_sub(MOST)?;
        Some(self.batches[oldest].closes_until)
    }

    /// Records the requests sent now as one batch.
    pub(super) fn sends(&mut self, requests: &[Request], now: Instant) {
        if let (Some(first), Some(last)) = (requests.first(), requests.last()) {
            self.batches.push_back(Batch {
                first: first.id,
                last: last.id,
                unanswered: requests.len(),
                closes_until: now + WATCH,
            });
        }
    }

    pub(super) fn answered(&mut self, id: OpId) {
        let mut batches = self.batches.iter_mut();
        if let Some(at) = batches.position(|batch| (batch.first..=batch.last).contains(&id)) {
            self.batches[at].unanswered -= 1;
            if self.batches[at].unanswered == 0 {
                self.batches.remove(at);
            }
        }
    }

    /// Counts an answer or a message.
    pub(super) fn receives(&mut self) {
        self.received += 1;
    }

    pub(super) fn received(&self) -> u64 {
        self.received
    }

    /// Begins to collect requests, because several callers are woken now.
    pub(super) fn gather(&mut self, now: Instant) {
        self.gathers_until = Some(now + GATHER);
    }

    /// Stops collecting requests, usually because the woken callers have run.
    pub(super) fn gathered(&mut self) {
        if seeded!(GatheredForever) {
            return;
        }
        self.gathers_until = None;
    }

    /// Lets further requests be sent without waiting for the unanswered batches, because no answer
    /// was read between two checks of the keeper.
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
    fn requests_gather_while_two_batches_are_in_flight() {
        let (mut traffic, now) = (Traffic::default(), Instant::ZERO);
        traffic.sends(&requests(1..=2), now);
        assert!(traffic.may_send(now));
        traffic.sends(&requests(3..=3), now);
        assert!(!traffic.may_send(now));
        traffic.answered(OpId(1));
        assert!(!traffic.may_send(now), "half of the first");
        traffic.answered(OpId(2));
        assert!(traffic.may_send(now));
        traffic.sends(&requests(4..=4), now);
        assert!(!traffic.may_send(now));
        traffic.stalls();
        assert!(traffic.may_send(now));
        // A late answer does no harm: `stalls` has already removed its batch.
        traffic.answered(OpId(3));
    }

    /// Two batches get no answer, for example because a node hangs. Fails if further requests wait
    /// longer than [`WATCH`] for the older one.
    #[test]
    fn unanswered_batches_delay_requests_only_briefly() {
        let (mut traffic, now) = (Traffic::default(), Instant::ZERO);
        traffic.sends(&requests(1..=1), now);
        traffic.sends(&requests(2..=2), now + GATHER);
        assert_eq!(traffic.opens_at(), Some(now + WATCH));
        assert!(!traffic.may_send(now + GATHER) && traffic.may_send(now + WATCH));
        traffic.sends(&requests(3..=3), now + WATCH);
        let next = now + GATHER + WATCH;
        assert_eq!(traffic.opens_at(), Some(next));
        assert!(!traffic.may_send(now + WATCH) && traffic.may_send(next));
    }

    #[test]
    fn requests_gather_briefly_after_a_shared_event() {
        let (mut traffic, now) = (Traffic::default(), Instant::ZERO);
        traffic.gather(now);
        assert!(!traffic.may_send(now));
        assert!(traffic.may_send(now + GATHER));
        traffic.gathered();
        assert!(traffic.may_send(now));
    }
}
