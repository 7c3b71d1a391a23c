//! A ticket: one lock of one call, from waiting to held to released.

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

/// The place in the program that asks for locks: an annotated function, or a call of
/// [`LockPool::lock`](crate::LockPool::lock).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SiteId(pub(crate) u64);

/// How a lease is renewed while it is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Watchdog {
    pub(crate) interval: Duration,
    /// The lock is released after this long, even if it could be renewed.
    pub(crate) max_hold: Option<Duration>,
}

const NANOS_PER_MILLI: u128 = 1_000_000;

/// The parameters of one lock that a caller asks for.
#[derive(Debug, Clone)]
pub(crate) struct Acquire {
    /// The key on the server, namespace included.
    pub(crate) key: FullKey,
    pub(crate) token: Token,
    /// The annotated function that asks, which operators see in the key's value. Empty for a lock
    /// that is taken without the attribute.
    pub(crate) function: &'static str,
    pub(crate) site: SiteId,
    pub(crate) label: Label,
    pub(crate) terms: Terms,
    pub(crate) watchdog: Option<Watchdog>,
    /// How long to queue; zero is one try.
    pub(crate) wait: Duration,
    /// How long the lock stays after success, as far as that is known before.
    pub(crate) hold: Duration,
    /// The kind of share; none for an exclusive lock.
    pub(crate) share: Option<Share>,
    /// For how long the lock stays from the body's start on.
    pub(crate) at_least: Option<Duration>,
    /// For a call that a kept result answers.
    pub(crate) replay: Option<Box<Replay>>,
}

/// What a call asks with that a kept result answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Replay {
    pub(crate) fingerprint: Option<Fingerprint>,
}

/// A lock that a call adopts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Adoption {
    /// The token that it has until then.
    pub(crate) from: Token,
    /// The fence in the baggage, which may be altered on its way.
    pub(crate) fence: Option<Fence>,
}

impl Adoption {
    /// The fence of the adopted lock. The store gave `first` and the `reserved` fences after it to
    /// this acquisition, and the baggage can only select one of these. Without a valid one the
    /// greatest is safe: no earlier call can have had a greater one.
    pub(super) fn fence_among(self, first: Option<Fence>, reserved: u32) -> Option<Fence> {
        let first = first?.get();
        let last = first.saturating_add(reserved.into());
        let valid = |fence: &Fence| (first..=last).contains(&fence.get());
        self.fence.filter(valid).or(Some(Fence::new(last)))
    }
}

/// Which calls share a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Share {
    /// All readers.
    Reader,
    /// At most so many calls at a time.
    Permit(u32),
}

impl Share {
    /// How many shares there may be at most; 0 for no bound.
    pub(crate) fn limit(self) -> u32 {
        match self {
            Self::Reader => 0,
            Self::Permit(limit) => limit,
        }
    }
}

/// One lock of one call, and its stage.
#[derive(Debug)]
pub(super) struct Ticket {
    acquire: Acquire,
    since: Instant,
    /// When acquiring must end.
    budget: Instant,
    stage: Stage,
    /// Acquires without a known outcome: in flight, or sent on a connection that broke.
    open: OneOrMany<OpId>,
    /// Whether an acquire has succeeded, even if too late to be of use: the key may carry the
    /// token.
    taken: bool,
    /// Until when the key stays after the release.
    kept_until: Option<Instant>,
    /// The result that the release stores.
    record: Option<Arc<Record>>,
    /// For a call that adopts its lock.
    adoption: Option<Box<Adoption>>,
    /// The timer that is set for this ticket.
    armed: Option<Instant>,
}

#[derive(Debug)]
pub(super) enum Stage {
    /// In the key's local queue.
    Queued,
    /// With an acquire under way; asked again at `until`.
    Asking {
        op: OpId,
        until: Instant,
    },
    Held(Lease),
    /// The lease was lost and the caller was told. The caller has not released the ticket yet.
    Lost,
    /// Being removed from the store.
    Releasing(Cleanup),
}

/// The outcome of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Removal {
    /// The store has confirmed the release, or the lock was handed over inside the process.
    Confirmed,
    /// The outcome is not known: no answer came while the caller waited.
    Unknown,
    /// The lease had been lost: the store did not have the lock any more.
    Gone,
}

impl Acquire {
    /// Whether a lease that is counted from `sent` lasts at the store for as long as this call's
    /// lock is to stay, even if the process dies. With a watchdog that is not promised.
    pub(super) fn outlives_the_process(&self, sent: Instant, now: Instant) -> bool {
        let lasts = |at_least| now + at_least <= sent + self.terms.ttl();
        self.watchdog.is_some() || self.at_least.is_none_or(lasts)
    }

    /// Whether the caller queues for a lock that is held.
    pub(super) fn waits(&self) -> bool {
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
            armed: None,
        }
    }

    pub(super) fn acquire(&self) -> &Acquire {
        &self.acquire
    }

    pub(super) fn stage(&self) -> &Stage {
        &self.stage
    }

    /// The lease, while it is held.
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

    /// The removal, while it is under way.
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

    /// Whether an acquire is under way whose answer the ticket waits for.
    pub(super) fn is_asking(&self) -> bool {
        matches!(self.stage, Stage::Asking { .. })
    }

    pub(super) fn is_acquiring(&self) -> bool {
        self.is_queued() || self.is_asking()
    }

    /// Whether acquiring may go on.
    pub(super) fn is_in_time(&self, now: Instant) -> bool {
        now < self.budget
    }

    pub(super) fn waited(&self, now: Instant) -> Duration {
        now.since(self.since)
    }

    /// `op` asks for the lock. Without an answer the ticket asks again at `until`.
    pub(super) fn ask(&mut self, op: OpId, until: Instant) {
        self.open.push(op);
        self.stage = Stage::Asking { op, until };
    }

    /// The ticket adopts its lock.
    pub(super) fn adopts(&mut self, adoption: Adoption) {
        self.adoption = Some(Box::new(adoption));
    }

    /// What a ticket knows of a lock that it adopts.
    pub(super) fn adoption(&self) -> Option<Adoption> {
        self.adoption.as_deref().copied()
    }

    /// A ticket that asks does so again at `at`.
    pub(super) fn ask_again_at(&mut self, at: Instant) {
        if let Stage::Asking { until, .. } = &mut self.stage {
            *until = at;
        }
    }

    /// Whether a ticket that asks is to do so again.
    pub(super) fn asks_again(&self, now: Instant) -> bool {
        matches!(self.stage, Stage::Asking { until, .. } if until <= now)
    }

    /// Back to the key's local queue: no answer is waited for.
    pub(super) fn requeue(&mut self) {
        self.stage = Stage::Queued;
    }

    /// Notes what the answer to the acquire `op` says of the key.
    pub(super) fn answered(&mut self, op: OpId, result: &Result<Reply, Failure>) {
        let unknown = result.as_ref().is_err_and(|failure| failure.executed);
        if !unknown {
            self.settle(op);
        }
        self.taken |= matches!(result, Ok(Reply::Acquired { .. }));
    }

    /// The outcome of the acquire `op` is known.
    pub(super) fn settle(&mut self, op: OpId) {
        self.open.retain(|open| *open != op);
    }

    /// The acquires without a known outcome.
    pub(super) fn open(&self) -> &[OpId] {
        &self.open
    }

    /// Whether no acquire is under way, which could act later.
    pub(super) fn is_settled(&self) -> bool {
        self.open.is_empty()
    }

    /// Whether the store may have the key with this ticket's token.
    pub(super) fn may_be_taken(&self) -> bool {
        self.taken || !self.is_settled()
    }

    /// The ticket has the lock.
    pub(super) fn grant(&mut self, lease: Lease) {
        self.stage = Stage::Held(lease);
    }

    /// The key is handed over to this ticket with its `token`, which replaces the ticket's own.
    pub(super) fn inherit(&mut self, token: Token) {
        self.acquire.token = token;
        self.taken = true;
    }

    /// The parameters and the lease of a ticket that hands its lock over.
    pub(super) fn into_held(self) -> Option<(Acquire, Lease)> {
        match self.stage {
            Stage::Held(lease) => Some((self.acquire, lease)),
            _ => None,
        }
    }

    /// From here on the call counts as a reader.
    pub(super) fn become_reader(&mut self) {
        self.acquire.share = Some(Share::Reader);
    }

    /// The lease is over, and the caller is told.
    pub(super) fn lose(&mut self) {
        self.stage = Stage::Lost;
    }

    /// The release stores this result.
    pub(super) fn record(&mut self, record: Arc<Record>) {
        self.record = Some(record);
    }

    /// The result that the release stores.
    pub(super) fn recorded(&self) -> Option<&Arc<Record>> {
        self.record.as_ref()
    }

    /// The key stays after the release until `until` at least.
    pub(super) fn keep_until(&mut self, until: Instant) {
        self.kept_until = self.kept_until.max(Some(until));
    }

    /// Whether the key would stay after a release at `now`.
    pub(super) fn is_kept(&self, now: Instant) -> bool {
        self.keep(now).is_some()
    }

    /// For how long the key is still kept; none if it is not. Rounded up to the store's unit, a
    /// millisecond, so that the key is never free early.
    pub(super) fn keep(&self, now: Instant) -> Option<Duration> {
        let left = self.kept_until?.since(now);
        let millis = left.as_nanos().div_ceil(NANOS_PER_MILLI);
        let millis = u64::try_from(millis).unwrap_or(u64::MAX);
        (millis > 0).then(|| Duration::from_millis(millis))
    }

    /// The lock is removed from the store from now on. `awaited`: whether the caller waits for
    /// that.
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

    /// When the ticket's timer is due. `asks_at`: when the ticket may ask the store; none unless it
    /// is the next to ask.
    pub(super) fn next_due(&self, asks_at: Option<Instant>) -> Option<Instant> {
        match &self.stage {
            Stage::Queued => earlier(Some(self.budget), asks_at),
            Stage::Asking { until, .. } => Some(self.budget.min(*until)),
            Stage::Held(lease) => lease.timer(),
            Stage::Releasing(cleanup) => Some(cleanup.next_due()),
            Stage::Lost => None,
        }
    }

    /// Sets the ticket's timer to `due`. Returns false if it is set to an earlier time.
    pub(super) fn arm(&mut self, due: Instant) -> bool {
        let sets = self.armed.is_none_or(|armed| due < armed);
        if sets {
            self.armed = Some(due);
        }
        sets
    }

    /// A timer has come to its end. Returns whether it is the one that is set.
    pub(super) fn disarm(&mut self, at: Instant) -> bool {
        self.armed.take_if(|armed| *armed == at).is_some()
    }

    /// The time to which the ticket's timer is set.
    pub(super) fn armed(&self) -> Option<Instant> {
        self.armed
    }
}
