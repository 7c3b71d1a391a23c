//! Removal of a lock from the store: the tries, and their outcome as far as known.

use std::time::Duration;

use crate::base::clock::Instant;
use crate::base::lease_terms::Terms;
use crate::fence::Fence;
use crate::store::{Failure, Retry};

pub(super) const FIRST_RETRY: Duration = Duration::from_millis(20);
const LONGEST_RETRY: Duration = Duration::from_secs(1);

/// Removal of a lock from the store, repeated until its outcome is certain.
#[derive(Debug)]
pub(super) struct Cleanup {
    /// Time until which the caller waits for the outcome; none if no caller waits.
    awaited: Option<Instant>,
    next_try: Instant,
    /// Time by which the key expires even without a removal.
    until: Instant,
    tries: u32,
    /// Number of sent tries. A try no longer counts if an answer shows that the store did not carry
    /// it out.
    open: u32,
    /// True if the store should leave the key free for a moment after the removal, for clients that
    /// do not use the queue.
    makes_way: bool,
    origin: Origin,
    /// True if the store has confirmed a removal.
    removed: bool,
}

/// State of the lock before its removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// A lease that was not lost, as far as the engine knew. The store's key cannot expire before
    /// `expires`.
    Live {
        fence: Option<Fence>,
        expires: Instant,
    },
    /// A lost lease. The caller was notified of the loss.
    Lost,
    /// An abandoned acquire, which may have set the key.
    Abandoned,
}

impl Cleanup {
    pub(super) fn new(
        origin: Origin,
        terms: Terms,
        awaited: bool,
        makes_way: bool,
        now: Instant,
    ) -> Self {
        Self {
            awaited: awaited.then(|| now + terms.attempt()),
            next_try: now,
            until: now + terms.ttl(),
            tries: 0,
            open: 0,
            makes_way,
            origin,
            removed: false,
        }
    }

    /// Returns the earliest of three times: the next try, the end of the caller's wait, and the
    /// expiry of the key.
    pub(super) fn next_due(&self) -> Instant {
        let next = self.next_try.min(self.until);
        self.awaited.map_or(next, |awaited| next.min(awaited))
    }

    pub(super) fn makes_way(&self) -> bool {
        self.makes_way
    }

    pub(super) fn tries(&self) -> u32 {
        self.tries
    }

    /// Returns the fence of the removed lock; none for a lost lease or an abandoned acquire.
    pub(super) fn fence(&self) -> Option<Fence> {
        match self.origin {
            Origin::Live { fence, .. } => fence,
            Origin::Lost | Origin::Abandoned => None,
        }
    }

    /// True if the removal ends a held or lost lock, and not an abandoned acquire.
    pub(super) fn ends_a_lock(&self) -> bool {
        self.origin != Origin::Abandoned
    }

    pub(super) fn is_removed(&self) -> bool {
        self.removed
    }

    /// True if the key has expired by now, even without a removal.
    pub(super) fn has_expired(&self, now: Instant) -> bool {
        self.until <= now
    }

    pub(super) fn is_to_try(&self, now: Instant) -> bool {
        self.next_try <= now
    }

    /// Makes the next try due at `now`.
    pub(super) fn try_at(&mut self, now: Instant) {
        self.next_try = now;
    }

    /// Records that a try is sent. Without an answer, the next try follows after `patience` and a
    /// pause.
    pub(super) fn tried(
        &mut self,
        patience: Duration,
        now: Instant,
        spread: impl FnOnce(Duration) -> Duration,
    ) {
        let pause = spread(pause(self.tries));
        self.tries += 1;
        self.open += 1;
        self.next_try = now + patience + pause;
    }

    /// True if a try that found no lock proves a lost lease. This needs three conditions: the lease
    /// cannot have expired by `now`, no other try can have removed the key, and `certain` is true.
    /// `certain` is true if the outcomes of all acquires of the ticket were known when the try was
    /// sent.
    pub(super) fn missed(&self, certain: bool, now: Instant) -> bool {
        let live = matches!(self.origin, Origin::Live { expires, .. } if now < expires);
        certain && live && self.open == 1
    }

    /// Records that the store carried out a removal. Returns true if the caller still waits for the
    /// outcome.
    pub(super) fn removed(
        &mut self,
        now: Instant,
        spread: impl FnOnce(Duration) -> Duration,
    ) -> bool {
        self.removed = true;
        self.next_try = now + spread(pause(self.tries));
        self.awaited.take().is_some()
    }

    /// Records that a removal failed, or that its outcome is unknown.
    pub(super) fn failed(
        &mut self,
        failure: &Failure,
        now: Instant,
        spread: impl FnOnce(Duration) -> Duration,
    ) {
        // A try with a permanent error counts as carried out: the error may come from the middle of
        // a script, after the removal.
        if !failure.executed && failure.retry != Retry::Never {
            self.open -= 1;
        }
        let pause = match failure.retry {
            Retry::Now if self.tries == 1 => Duration::ZERO,
            _ => pause(self.tries),
        };
        self.next_try = now + spread(pause);
    }

    /// Returns true once, when the caller's waiting time is over.
    pub(super) fn gives_up_waiting(&mut self, now: Instant) -> bool {
        self.awaited.take_if(|awaited| *awaited <= now).is_some()
    }
}

/// Returns the pause after this number of tries, before jitter.
fn pause(tries: u32) -> Duration {
    FIRST_RETRY
        .saturating_mul(1 << tries.min(10))
        .min(LONGEST_RETRY)
}
