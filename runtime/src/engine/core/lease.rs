//! A lease that is held: when it ends, and when it is renewed.

use std::mem;
use std::time::Duration;

use crate::base::clock::Instant;
use crate::base::lease_terms::Terms;
use crate::error::LockError;
use crate::fence::Fence;

/// A lease that is held.
#[derive(Debug)]
pub(super) struct Lease {
    terms: Terms,
    /// When the request was sent that the lease is counted from.
    sent: Instant,
    /// When the lock was granted.
    since: Instant,
    /// When `max_hold` ends the lock.
    ceiling: Option<Instant>,
    renew_at: Option<Instant>,
    fence: Option<Fence>,
    /// Whether a failed renewal has been retried at once since the last successful one.
    hurried: bool,
    /// Whether a renewal is due or sent, and not confirmed.
    renewing: bool,
    /// Whether the lease is in a batch of renewals, which has the timer.
    in_batch: bool,
    /// Why the last renewal was not confirmed. Boxed, as few leases have one.
    refusal: Option<Box<LockError>>,
}

impl Lease {
    /// A lease that was granted at `now`, and that ends unless a renewal is planned.
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

    /// The lock ends at `ceiling`, whatever is renewed.
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

    /// When the lease ends if it is not renewed. The store's key does not expire before.
    pub(super) fn expires(&self) -> Instant {
        self.terms.hard(self.sent)
    }

    /// The end of the lease as the body sees it.
    pub(super) fn deadline(&self) -> Instant {
        self.by_ceiling(self.expires())
    }

    /// When the caller is told that the lease is over.
    fn end(&self) -> Instant {
        self.by_ceiling(self.terms.soft(self.sent))
    }

    fn by_ceiling(&self, at: Instant) -> Instant {
        self.ceiling.map_or(at, |ceiling| at.min(ceiling))
    }

    /// When the lease is due next: its renewal or its end.
    pub(super) fn next_due(&self) -> Instant {
        let end = self.end();
        self.renew_at.map_or(end, |renew| renew.min(end))
    }

    /// When the ticket's timer is due; none while a batch has the timer.
    pub(super) fn timer(&self) -> Option<Instant> {
        (!self.in_batch).then(|| self.next_due())
    }

    /// Whether the caller is to be told that the lease is over.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.end() <= now
    }

    /// Whether `max_hold` has ended the lock.
    fn is_at_ceiling(&self, now: Instant) -> bool {
        self.ceiling.is_some_and(|ceiling| ceiling <= now)
    }

    /// The last renewal was not confirmed, because of `refusal`.
    pub(super) fn not_confirmed(&mut self, refusal: LockError) {
        self.refusal = Some(Box::new(refusal));
    }

    /// Why a lease that is lost at `now` is lost, for the log.
    pub(super) fn loss(&mut self, now: Instant) -> String {
        if self.is_at_ceiling(now) {
            return "max_hold is over".to_owned();
        }
        if !self.is_over(now) {
            return "the store has not got this lock any more; another client deleted it or took it, \
                    or the store lost it"
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

    /// Whether a renewal is due or sent, and not confirmed.
    pub(super) fn is_renewing(&self) -> bool {
        self.renewing
    }

    /// A renewal is due now. Without an answer the next one is due at `retry_at`.
    pub(super) fn renew(&mut self, retry_at: Instant) {
        self.renewing = true;
        self.renew_at = Some(retry_at);
    }

    /// A batch has the timer from now on.
    pub(super) fn enter_batch(&mut self) {
        self.in_batch = true;
    }

    /// Takes the lease out of its batch, so that its ticket has a timer again. Returns whether it
    /// was in one.
    pub(super) fn leave_batch(&mut self) -> bool {
        mem::take(&mut self.in_batch)
    }

    /// The store confirmed a renewal that was sent at `sent`. An answer that is older than the last
    /// one prolongs nothing.
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

    /// Whether a failed renewal may be retried at once: only once until a renewal succeeds.
    pub(super) fn may_hurry(&mut self) -> bool {
        !mem::replace(&mut self.hurried, true)
    }

    /// A connection is new: the lease is renewed now, if it is renewed at all.
    pub(super) fn renew_now(&mut self, now: Instant) {
        self.renew_at = self.renew_at.map(|_| now);
        self.in_batch = false;
    }

    /// The lease is renewed at `at` at the latest, if it is renewed at all.
    pub(super) fn renew_by(&mut self, at: Instant) {
        if let Some(renew_at) = &mut self.renew_at {
            *renew_at = at.min(*renew_at);
        }
    }
}
