//! A ticket: one lock of one call, from the wait for the lock to its removal.

use std::sync::Arc;
use std::time::Duration;

use super::cleanup::{Cleanup, Origin};
use super::lease::Lease;
use crate::base::clock::{Instant, earlier};
use crate::base::full_key::FullKey;
use crate::base::label::Label;
use crate::base::lease_terms::Terms;
use crate::base::one_or_many::OneOrMany;
use crate::base::token::Token;
use crate::error::LockError;
use crate::fence::Fence;
use crate::owner::Owner;
use crate::store::kept::{Fingerprint, Record};
use crate::store::{Failure, OpId, Reply};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct TicketId(pub(crate) u64);

/// Identifies a place in the program that takes locks: an annotated function, or a call of
/// [`LockPool::lock`](crate::LockPool::lock).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SiteId(pub(crate) u64);

/// Parameters of the automatic renewal of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Watchdog {
    pub(crate) interval: Duration,
    /// Maximum time for which the call may hold the lock. No renewal extends the lease beyond it.
    pub(crate) max_hold: Option<Duration>,
}

const NANOS_PER_MILLI: u128 = 1_000_000;

/// The parameters of one requested lock.
#[derive(Debug, Clone)]
pub(crate) struct Acquire {
    /// The key on the server, namespace included.
    pub(crate) key: FullKey,
    pub(crate) token: Token,
    /// Name of the holder, stored for operators: the annotated function or the `--name` of
    /// `leasehold run`. A `replay` result is kept under this name, and later builds of the program
    /// must find it. So the name must not depend on the compiler.
    pub(crate) function: &'static str,
    pub(crate) site: SiteId,
    pub(crate) label: Label,
    pub(crate) terms: Terms,
    pub(crate) watchdog: Option<Watchdog>,
    /// Time limit for queueing. Zero means one try.
    pub(crate) wait: Duration,
    /// Time for which the lock stays taken after a success, as set before the acquire. Zero if none
    /// was set then. A guard may still set one at its release.
    pub(crate) cooldown: Duration,
    /// Kind of share; none for an exclusive lock.
    pub(crate) share: Option<Share>,
    /// Least time for which the lock stays taken, counted from the body's start.
    pub(crate) min_hold: Option<Duration>,
    /// Set for a `replay` call, which a kept result can answer instead of the lock.
    pub(crate) replay: Option<Box<Replay>>,
}

/// Parameters of a `replay` call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Replay {
    pub(crate) fingerprint: Option<Fingerprint>,
}

/// Parameters of the adoption of a lock from another process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Adoption {
    /// Token of the lock before the adoption.
    pub(crate) from: Token,
    /// The fence in the handover. It may be wrong, because the handover may have been altered on
    /// its way to this process.
    pub(crate) fence: Option<Fence>,
}

impl Adoption {
    /// Returns the fence of the adopted lock. The store gave `first` and the next `reserved` fences
    /// to this acquisition. The result is the fence in the handover if it is one of these,
    /// otherwise the greatest of these. The greatest is safe, because no earlier call can have had
    /// a greater fence.
    pub(super) fn fence_among(self, first: Option<Fence>, reserved: u32) -> Option<Fence> {
        let first = first?.get();
        let last = first.saturating_add(reserved.into());
        let valid = |fence: &Fence| (first..=last).contains(&fence.get());
        self.fence.filter(valid).or(Some(Fence::new(last)))
    }
}

/// A share of a lock. Other calls may have shares of the same lock at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Share {
    /// A reader. Any number of readers may share the lock.
    Reader,
    /// A permit. At most this many calls may have one at the same time.
    Permit(u32),
}

impl Share {
    /// Returns the maximum number of simultaneous shares; 0 means no limit.
    pub(crate) fn limit(self) -> u32 {
        match self {
            Self::Reader => 0,
            Self::Permit(limit) => limit,
        }
    }
}

/// One lock of one call.
#[derive(Debug)]
pub(super) struct Ticket {
    acquire: Acquire,
    since: Instant,
    /// Time at which the call stops waiting for the lock.
    budget: Instant,
    stage: Stage,
    /// Acquires with an unknown outcome: in flight, or sent on a connection that broke.
    open: OneOrMany<OpId>,
    /// True if an acquire has succeeded, even if its answer came too late, or if the key was handed
    /// over to this ticket. The key may then have this ticket's token.
    taken: bool,
    /// Time until which the key stays set after the release.
    kept_until: Option<Instant>,
    /// The result that the release stores.
    record: Option<Arc<Record>>,
    /// Set for a call that adopts its lock.
    adoption: Option<Box<Adoption>>,
    /// Set if the store's message that it took the lock away by force was read before the answer
    /// to the acquire. Then this is the last request sent before the message was read.
    pub(super) revoked: Option<OpId>,
    /// Time to which the ticket's timer is set.
    armed: Option<Instant>,
}

#[derive(Debug)]
pub(super) enum Stage {
    /// The ticket waits in the key's local queue.
    Queued,
    /// An acquire is under way. Without an answer, the ticket asks again at `until`.
    Asking {
        op: OpId,
        until: Instant,
    },
    Held(Lease),
    /// The lease was lost and the caller was notified. The caller has not released the ticket yet.
    Lost,
    /// The lock is being removed from the store.
    Releasing(Cleanup),
}

/// The outcome of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Removal {
    /// The store has confirmed the release, or the lock was handed over inside the process.
    Confirmed,
    /// The outcome is unknown: no answer came while the caller waited.
    Unknown,
    /// The lease was lost before the release: the store no longer had the lock.
    Gone,
}

impl Acquire {
    /// True if a `min_hold` that begins now ends before the lease counted from `sent`. The key then
    /// stays taken for this time even if the process dies. Always true for a lock with a watchdog,
    /// because its `min_hold` does not promise that.
    pub(super) fn outlives_the_process(&self, sent: Instant, now: Instant) -> bool {
        let lasts = |min_hold| now + min_hold <= sent + self.terms.ttl();
        self.watchdog.is_some() || self.min_hold.is_none_or(lasts)
    }

    /// True if the caller queues for a held lock.
    pub(crate) fn waits(&self) -> bool {
        !self.wait.is_zero()
    }

    pub(super) fn contended(
        &self,
        retry_after: Option<Duration>,
        holder: Option<Arc<Owner>>,
    ) -> LockError {
        LockError::Contended {
            key: self.key.name().to_owned(),
            retry_after,
            holder,
        }
    }
}

impl Ticket {
    pub(super) fn new(acquire: Acquire, since: Instant, budget: Instant) -> Self {
        Self {
            acquire,
            since,
            budget,
            stage: Stage::Queued,
            open: OneOrMany::default(),
            taken: false,
            kept_until: None,
            record: None,
            adoption: None,
            revoked: None,
            armed: None,
        }
    }

    pub(super) fn acquire(&self) -> &Acquire {
        &self.acquire
    }

    pub(super) fn stage(&self) -> &Stage {
        &self.stage
    }

    /// Returns the lease, if the lock is held.
    pub(super) fn lease(&self) -> Option<&Lease> {
        match &self.stage {
            Stage::Held(lease) => Some(lease),
            _ => None,
        }
    }

    pub(super) fn lease_mut(&mut self) -> Option<&mut Lease> {
        match &mut self.stage {
            Stage::Held(lease) => Some(lease),
            _ => None,
        }
    }

    /// Returns the removal, if it is under way.
    pub(super) fn cleanup(&self) -> Option<&Cleanup> {
        match &self.stage {
            Stage::Releasing(cleanup) => Some(cleanup),
            _ => None,
        }
    }

    pub(super) fn cleanup_mut(&mut self) -> Option<&mut Cleanup> {
        match &mut self.stage {
            Stage::Releasing(cleanup) => Some(cleanup),
            _ => None,
        }
    }

    pub(super) fn is_queued(&self) -> bool {
        matches!(self.stage, Stage::Queued)
    }

    /// True if the ticket waits for the answer to an acquire.
    pub(super) fn is_asking(&self) -> bool {
        matches!(self.stage, Stage::Asking { .. })
    }

    pub(super) fn is_acquiring(&self) -> bool {
        self.is_queued() || self.is_asking()
    }

    /// True if the time for acquiring is not over.
    pub(super) fn is_in_time(&self, now: Instant) -> bool {
        now < self.budget
    }

    pub(super) fn waited(&self, now: Instant) -> Duration {
        now.since(self.since)
    }

    /// Records the acquire `op`. Without an answer, the ticket asks again at `until`.
    pub(super) fn ask(&mut self, op: OpId, until: Instant) {
        self.open.push(op);
        self.stage = Stage::Asking { op, until };
    }

    /// Sets the parameters of an adoption, for a ticket that adopts its lock.
    pub(super) fn adopts(&mut self, adoption: Adoption) {
        self.adoption = Some(Box::new(adoption));
    }

    /// Returns the parameters of an adoption, if the ticket adopts its lock.
    pub(super) fn adoption(&self) -> Option<Adoption> {
        self.adoption.as_deref().copied()
    }

    /// Makes a ticket that waits for an answer repeat its acquire at `at`.
    pub(super) fn ask_again_at(&mut self, at: Instant) {
        if let Stage::Asking { until, .. } = &mut self.stage {
            *until = at;
        }
    }

    /// True if the ticket must repeat its unanswered acquire now.
    pub(super) fn asks_again(&self, now: Instant) -> bool {
        matches!(self.stage, Stage::Asking { until, .. } if until <= now)
    }

    /// Moves the ticket to the stage `Queued`: it no longer waits for an answer.
    pub(super) fn requeue(&mut self) {
        self.stage = Stage::Queued;
    }

    /// Records the answer to the acquire `op`. After a success, the key may have this ticket's
    /// token. If the acquire was sent after a revocation, its success is not revoked.
    pub(super) fn answered(&mut self, op: OpId, result: &Result<Reply, Failure>) {
        let unknown = result.as_ref().is_err_and(|failure| failure.executed);
        if !unknown {
            self.settle(op);
        }
        if matches!(result, Ok(Reply::Acquired { .. })) {
            self.taken = true;
            self.revoked = self.revoked.filter(|last| op <= *last);
        }
    }

    /// Records that the outcome of the acquire `op` is known.
    pub(super) fn settle(&mut self, op: OpId) {
        self.open.retain(|open| *open != op);
    }

    /// Returns the acquires with an unknown outcome.
    pub(super) fn open(&self) -> &[OpId] {
        &self.open
    }

    /// True if the outcome of every acquire is known, so that none of them can take the key later.
    pub(super) fn is_settled(&self) -> bool {
        self.open.is_empty()
    }

    /// True if the store may have the key with this ticket's token.
    pub(super) fn may_be_taken(&self) -> bool {
        self.taken || !self.is_settled()
    }

    pub(super) fn grant(&mut self, lease: Lease) {
        self.stage = Stage::Held(lease);
    }

    /// Records that the key is handed over to this ticket. The key's `token` replaces the ticket's
    /// token.
    pub(super) fn inherit(&mut self, token: Token) {
        self.acquire.token = token;
        self.taken = true;
        self.revoked = None;
    }

    /// Returns the parameters and the lease of a ticket that hands its lock over.
    pub(super) fn into_held(self) -> Option<(Acquire, Lease)> {
        match self.stage {
            Stage::Held(lease) => Some((self.acquire, lease)),
            _ => None,
        }
    }

    /// Makes the call count as a reader.
    pub(super) fn become_reader(&mut self) {
        self.acquire.share = Some(Share::Reader);
    }

    /// Records that the lease is lost and the caller is notified.
    pub(super) fn lose(&mut self) {
        self.stage = Stage::Lost;
    }

    /// Sets the result that the release stores.
    pub(super) fn record(&mut self, record: Arc<Record>) {
        self.record = Some(record);
    }

    pub(super) fn recorded(&self) -> Option<&Arc<Record>> {
        self.record.as_ref()
    }

    /// Keeps the key after the release, at least until `until`.
    pub(super) fn keep_until(&mut self, until: Instant) {
        self.kept_until = self.kept_until.max(Some(until));
    }

    /// True if the key must stay taken after a release at `now`.
    pub(super) fn is_kept(&self, now: Instant) -> bool {
        self.keep(now).is_some()
    }

    /// Returns the time for which the key must still be kept, if any. The time is rounded up to
    /// milliseconds, the store's unit, so that the key is never free early.
    pub(super) fn keep(&self, now: Instant) -> Option<Duration> {
        let left = self.kept_until?.since(now);
        let millis = left.as_nanos().div_ceil(NANOS_PER_MILLI);
        let millis = u64::try_from(millis).unwrap_or(u64::MAX);
        (millis > 0).then(|| Duration::from_millis(millis))
    }

    /// Begins to remove the lock from the store. `awaited` is true if the caller waits for the
    /// removal. If `makes_way` is true, the store then leaves the key free for other clients for a
    /// moment.
    pub(super) fn start_cleanup(&mut self, awaited: bool, makes_way: bool, now: Instant) {
        let origin = match &self.stage {
            Stage::Held(lease) => Origin::Live {
                fence: lease.fence(),
                expires: lease.expires(),
            },
            Stage::Lost => Origin::Lost,
            _ => Origin::Abandoned,
        };
        let cleanup = Cleanup::new(origin, self.acquire.terms, awaited, makes_way, now);
        self.stage = Stage::Releasing(cleanup);
    }

    /// Returns the due time of the ticket's timer. `asks_at` is the time at which the ticket may
    /// ask the store; none if another ticket asks first.
    pub(super) fn next_due(&self, asks_at: Option<Instant>) -> Option<Instant> {
        match &self.stage {
            Stage::Queued => earlier(Some(self.budget), asks_at),
            Stage::Asking { until, .. } => Some(self.budget.min(*until)),
            Stage::Held(lease) => lease.timer(),
            Stage::Releasing(cleanup) => Some(cleanup.next_due()),
            Stage::Lost => None,
        }
    }

    /// Sets the ticket's timer to `due`. Returns false if it is already set to that time or an
    /// earlier one.
    pub(super) fn arm(&mut self, due: Instant) -> bool {
        let sets = self.armed.is_none_or(|armed| due < armed);
        if sets {
            self.armed = Some(due);
        }
        sets
    }

    /// Handles a timer that was due at `at`. If the ticket's timer is still set to that time,
    /// clears it and returns true. Returns false if the timer is outdated, because the ticket has
    /// set another one since.
    pub(super) fn disarm(&mut self, at: Instant) -> bool {
        self.armed.take_if(|armed| *armed == at).is_some()
    }

    pub(super) fn armed(&self) -> Option<Instant> {
        self.armed
    }
}
