//! Computes the times of renewals, and keeps the renewals that are due or unanswered.

use std::collections::BTreeSet;
use std::mem;
use std::time::Duration;

use super::ticket::{TicketId, Watchdog};
use crate::base::clock::Instant;
use crate::store::OpId;

/// Times of renewals are rounded down to steps, and leases due in the same step are renewed
/// together. A step is a 256th of the renewal interval, at most 10 ms. The short step keeps batches
/// small, because all other clients wait while the server runs a batch.
const RENEWAL_STEPS: u32 = 256;
const LONGEST_RENEWAL_STEP: Duration = Duration::from_millis(10);

/// The leases to renew now, and the batches of renewals without an answer.
#[derive(Debug)]
pub(super) struct Renewals {
    /// Offset of the steps on the clock, different for each pool, so that pools do not renew at the
    /// same times.
    phase: Duration,
    /// Leases due now. They are renewed in as few requests as possible.
    due: Vec<TicketId>,
    /// Batches without an answer, each with the time at which its first lease is due again.
    unanswered: BTreeSet<(Instant, OpId)>,
}

impl Renewals {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            phase: Duration::from_nanos(seed % 10_000_000),
            due: Vec::new(),
            unanswered: BTreeSet::new(),
        }
    }

    /// Returns the time at which to renew a lease counted from `sent`. It is `sent` plus the
    /// interval, rounded down to a step that many leases share, so that one request renews them.
    pub(super) fn time(&self, watchdog: Watchdog, sent: Instant) -> Instant {
        let due = sent + watchdog.interval;
        let step = (watchdog.interval / RENEWAL_STEPS).min(LONGEST_RENEWAL_STEP);
        let step = u64::try_from(step.as_nanos()).unwrap_or(u64::MAX).max(1);
        due - Duration::from_nanos((due + self.phase).as_nanos() % step)
    }

    /// Adds a lease to the batch to send now.
    pub(super) fn add(&mut self, id: TicketId) {
        self.due.push(id);
    }

    /// True if a lease must be renewed now.
    pub(super) fn are_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// Takes the leases to renew now.
    pub(super) fn take_due(&mut self) -> Vec<TicketId> {
        mem::take(&mut self.due)
    }

    /// Records that the request `op` renews a batch. Without an answer, the core checks the leases
    /// of the batch at `due`.
    pub(super) fn sent(&mut self, op: OpId, due: Instant) {
        self.unanswered.insert((due, op));
    }

    /// Records the answer to the batch `op`, whose check is at `due`.
    pub(super) fn answered(&mut self, op: OpId, due: Instant) {
        self.unanswered.remove(&(due, op));
    }

    /// Returns the time of the next check of a batch.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.unanswered.first().map(|(due, _)| *due)
    }

    /// Takes the next unanswered batch whose check is due.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<OpId> {
        if now < self.next_due()? {
            return None;
        }
        self.unanswered.pop_first().map(|(_, op)| op)
    }

    /// Returns the unanswered batches that the core checks at or before `due`.
    #[cfg(test)]
    pub(super) fn checked_by(&self, due: Instant) -> impl Iterator<Item = OpId> {
        let checked = self.unanswered.iter().take_while(move |(at, _)| *at <= due);
        checked.map(|(_, op)| *op)
    }
}
