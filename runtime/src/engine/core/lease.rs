//! A held lease: its end and its renewals.

use std::mem;
use std::time::Duration;

use crate::base::clock::Instant;
use crate::base::lease_terms::Terms;
use crate::error::LockError;
use crate::fence::Fence;

#[derive(Debug)]
pub(super) struct Lease {
    terms: Terms,
    /// Time at which the last confirmed request for this lease was sent. The lease is counted from
    /// this time.
    sent: Instant,
    /// Time of the grant.
    since: Instant,
    /// Time at which `max_hold` ends the lease.
    ceiling: Option<Instant>,
    renew_at: Option<Instant>,
    fence: Option<Fence>,
    /// True if a failed renewal has been retried at once since the last successful renewal.
    hurried: bool,
    /// True if a renewal has begun and is not confirmed yet.
    renewing: bool,
    /// True if the lease is in a batch of renewals. Then the batch has a timer, and the ticket
    /// needs none.
    in_batch: bool,
    /// Error of the last failed renewal, for the log. Boxed to keep the type small, because few
    /// leases have an error.
    refusal: Option<Box<LockError>>,
}

impl Lease {
    /// Creates a lease granted at `now`. No renewal is planned yet.
    pub(super) fn new(terms: Terms, sent: Instant, fence: Option<Fence>, now: Instant) -> Self {
        Self {
            terms,
            sent,
            since: now,
            ceiling: None,
            renew_at: None,
            fence,
            hurried: false,
            renewing: false,
            in_batch: false,
            refusal: None,
        }
    }

    /// Makes the lease end at `ceiling`, even if it is renewed.
    pub(super) fn set_ceiling(&mut self, ceiling: Option<Instant>) {
        self.ceiling = ceiling;
    }

    /// Sets the time of the next renewal.
    pub(super) fn plan_renewal(&mut self, at: Option<Instant>) {
        self.renew_at = at;
    }

    pub(super) fn sent(&self) -> Instant {
        self.sent
    }

    pub(super) fn fence(&self) -> Option<Fence> {
        self.fence
    }

    pub(super) fn held_for(&self, now: Instant) -> Duration {
        now.since(self.since)
    }

    /// Returns the end of the lease if it is not renewed again. The store's key does not expire
    /// earlier.
    pub(super) fn expires(&self) -> Instant {
        self.terms.hard(self.sent)
    }

    /// Returns the time after which the body is not polled: the end of the lease or of `max_hold`,
    /// whichever is earlier.
    pub(super) fn deadline(&self) -> Instant {
        self.by_ceiling(self.expires())
    }

    /// Returns the time at which the engine gives the lease up and notifies the caller.
    fn end(&self) -> Instant {
        self.by_ceiling(self.terms.soft(self.sent))
    }

    fn by_ceiling(&self, at: Instant) -> Instant {
        self.ceiling.map_or(at, |ceiling| at.min(ceiling))
    }

    /// Returns the time of the next renewal or of the end, whichever is earlier.
    pub(super) fn next_due(&self) -> Instant {
        let end = self.end();
        self.renew_at.map_or(end, |renew| renew.min(end))
    }

    /// Returns the due time of the ticket's timer; none while the lease is in a batch.
    pub(super) fn timer(&self) -> Option<Instant> {
        (!self.in_batch).then(|| self.next_due())
    }

    /// True if the caller must be notified that the lease is over.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.end() <= now
    }

    /// True if `max_hold` has ended the lock.
    fn is_at_ceiling(&self, now: Instant) -> bool {
        self.ceiling.is_some_and(|ceiling| ceiling <= now)
    }

    /// Records that a renewal failed because of `refusal`.
    pub(super) fn not_confirmed(&mut self, refusal: LockError) {
        self.refusal = Some(Box::new(refusal));
    }

    /// Returns the reason for a loss at `now`, for the log.
    pub(super) fn loss(&mut self, now: Instant) -> String {
        if self.is_at_ceiling(now) {
            return "max_hold is over".to_owned();
        }
        if !self.is_over(now) {
            return "the store no longer has this lock; another client deleted it or took it, or \
                    the store lost it"
                .to_owned();
        }
        match self.refusal.take() {
            Some(refusal) => format!("not renewed in time: {refusal}"),
            None if self.renew_at.is_some() => "not renewed in time".to_owned(),
            None => "its ttl is over, and no watchdog renews it".to_owned(),
        }
    }

    pub(super) fn is_to_renew(&self, now: Instant) -> bool {
        self.renew_at.is_some_and(|at| at <= now)
    }

    pub(super) fn is_renewing(&self) -> bool {
        self.renewing
    }

    /// Begins a renewal. Without an answer, the renewal is repeated at `retry_at`.
    pub(super) fn renew(&mut self, retry_at: Instant) {
        self.renewing = true;
        self.renew_at = Some(retry_at);
    }

    /// Records that the lease is in a batch. The timer of the batch then replaces that of the
    /// ticket.
    pub(super) fn enter_batch(&mut self) {
        self.in_batch = true;
    }

    /// Removes the lease from its batch, so that its ticket has a timer again. Returns true if the
    /// lease was in a batch.
    pub(super) fn leave_batch(&mut self) -> bool {
        mem::take(&mut self.in_batch)
    }

    /// Records that the store confirmed a renewal sent at `sent`. The lease is not extended if a
    /// later request is already confirmed.
    pub(super) fn renewed(&mut self, sent: Instant, renew_at: Option<Instant>) {
        self.renewing = false;
        self.in_batch = false;
        if self.sent < sent {
            self.sent = sent;
            self.renew_at = renew_at;
            self.hurried = false;
            self.refusal = None;
        }
    }

    /// Returns true if a failed renewal may be retried at once: only once until a renewal succeeds.
    pub(super) fn may_hurry(&mut self) -> bool {
        !mem::replace(&mut self.hurried, true)
    }

    /// Makes the renewal due now, if the lease has a planned renewal. Used after a reconnect.
    pub(super) fn renew_now(&mut self, now: Instant) {
        self.renew_at = self.renew_at.map(|_| now);
        self.in_batch = false;
    }

    /// Makes the renewal due at `at` at the latest, if the lease has a planned renewal.
    pub(super) fn renew_by(&mut self, at: Instant) {
        if let Some(renew_at) = &mut self.renew_at {
            *renew_at = at.min(*renew_at);
        }
    }
}
