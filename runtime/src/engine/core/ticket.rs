//! A ticket: one lock of one call, from waiting to held to released.

use std::time::Duration;

use crate::base::clock::Instant;
use crate::base::full_key::FullKey;
use crate::base::lease_terms::Terms;
use crate::base::one_or_many::OneOrMany;
use crate::base::token::Token;
use crate::error::LockError;
use crate::fence::Fence;
use crate::store::OpId;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct TicketId(pub(crate) u64);

/// How a lease is renewed while it is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Watchdog {
    pub(crate) interval: Duration,
    /// The lock is released after this long, even if it could be renewed.
    pub(crate) max_hold: Option<Duration>,
}

const NANOS_PER_MILLI: u128 = 1_000_000;

/// One batch renews all leases that are due within a 256th of their interval, and within 10 ms.
/// The bound keeps batches small, because every other client waits while the server runs one.
const RENEWAL_STEPS: u32 = 256;
const LONGEST_RENEWAL_STEP: Duration = Duration::from_millis(10);

impl Watchdog {
    /// When to renew a lease that is counted from `sent`: after the interval or a little before.
    /// The time is rounded down to a step that many leases share, so that one request renews them.
    /// `phase` keeps pools from renewing at the same times.
    pub(super) fn due(&self, sent: Instant, phase: Duration) -> Instant {
        let due = sent + self.interval;
        let step = (self.interval / RENEWAL_STEPS).min(LONGEST_RENEWAL_STEP);
        let step = u64::try_from(step.as_nanos()).unwrap_or(u64::MAX).max(1);
        due - Duration::from_nanos((due + phase).as_nanos() % step)
    }
}

/// The parameters of one lock that a caller asks for.
#[derive(Debug, Clone)]
pub(crate) struct Acquire {
    /// The key on the server, namespace included.
    pub(crate) key: FullKey,
    pub(crate) token: Token,
    /// The annotated function that asks, which operators see in the key's value. Empty for a lock
    /// that is taken without the attribute.
    pub(crate) function: &'static str,
    pub(crate) terms: Terms,
    pub(crate) watchdog: Option<Watchdog>,
    /// How long to queue; zero is one try.
    pub(crate) wait: Duration,
    /// The kind of share; none for an exclusive lock.
    pub(crate) share: Option<Share>,
    /// For how long the lock stays from the body's start on.
    pub(crate) at_least: Option<Duration>,
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
    pub(super) acquire: Acquire,
    pub(super) since: Instant,
    /// When acquiring must end.
    pub(super) budget: Instant,
    pub(super) stage: Stage,
    /// Acquires without a known outcome: in flight, or sent on a connection that broke.
    pub(super) open: OneOrMany<OpId>,
    /// Whether an acquire has succeeded, even if too late to be of use: the key may carry the
    /// token.
    pub(super) taken: bool,
    /// Until when the key stays after the release.
    pub(super) kept_until: Option<Instant>,
    /// The timer that is set for this ticket.
    pub(super) armed: Option<Instant>,
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

/// A lease that is held.
#[derive(Debug)]
pub(super) struct Lease {
    /// When the request was sent that the lease is counted from.
    pub(super) sent: Instant,
    /// When the lock was granted.
    pub(super) since: Instant,
    /// When `max_hold` ends the lock.
    pub(super) ceiling: Option<Instant>,
    pub(super) renew_at: Option<Instant>,
    pub(super) fence: Option<Fence>,
    /// Whether a failed renewal has been retried at once since the last successful one.
    pub(super) hurried: bool,
    /// Whether a renewal is due or sent, and not confirmed.
    pub(super) renewing: bool,
    /// Whether the lease is in a batch of renewals, which has the timer.
    pub(super) leaving: bool,
}

/// A lock that is being removed from the store.
#[derive(Debug)]
pub(super) struct Cleanup {
    /// Until when the caller waits for the outcome.
    pub(super) awaited: Option<Instant>,
    pub(super) next_try: Instant,
    /// At this time the key has expired by itself.
    pub(super) until: Instant,
    pub(super) tries: u32,
    /// Tries that the store has carried out or may yet carry out. A try counts until an answer says
    /// that the store has not carried it out.
    pub(super) open: u32,
    /// Whether each try leaves the key free for clients that know no queue.
    pub(super) makes_way: bool,
    pub(super) origin: Origin,
    /// Whether the store has confirmed a removal.
    pub(super) removed: bool,
}

/// The lease or acquire that a removal ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// A lease that lasted, as far as the engine knew. The store's key cannot expire before
    /// `expires`.
    Live {
        fence: Option<Fence>,
        expires: Instant,
    },
    /// A lost lease; the caller was told of the loss.
    Lost,
    /// An abandoned acquire, which may have set the key.
    Abandoned,
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

    /// The error for a call that allows fewer holders than the key's present holders do.
    pub(super) fn limited(&self, limit: u32) -> LockError {
        let asked = self.share.map_or(0, Share::limit);
        LockError::config(format!(
            "`permits = {asked}` on the key `{}`, which other calls hold with `permits = {limit}`; give all functions of a key the \
             same number",
            self.key.name()
        ))
    }

    pub(super) fn contended(&self, retry_after: Option<Duration>) -> LockError {
        LockError::Contended {
            key: self.key.name().to_owned(),
            retry_after,
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
            armed: None,
        }
    }

    /// The key stays after the release until `until` at least.
    pub(super) fn keep_until(&mut self, until: Instant) {
        self.kept_until = self.kept_until.max(Some(until));
    }

    /// For how long the key is still kept; none if it is not. Rounded up to the store's unit, a
    /// millisecond, so that the key is never free early.
    pub(super) fn keep(&self, now: Instant) -> Option<Duration> {
        let left = self.kept_until?.since(now);
        let millis = left.as_nanos().div_ceil(NANOS_PER_MILLI);
        let millis = u64::try_from(millis).unwrap_or(u64::MAX);
        (millis > 0).then(|| Duration::from_millis(millis))
    }

    /// The end of the lease as the body sees it.
    pub(super) fn deadline(&self, lease: &Lease) -> Instant {
        let hard = self.acquire.terms.hard(lease.sent);
        lease.ceiling.map_or(hard, |ceiling| hard.min(ceiling))
    }

    /// When a held lease is due next: its renewal or its end.
    pub(super) fn next_due(&self, lease: &Lease) -> Instant {
        let end = self.end(lease);
        lease.renew_at.map_or(end, |renew| renew.min(end))
    }

    /// When the caller is told that the lease is over.
    pub(super) fn end(&self, lease: &Lease) -> Instant {
        let soft = self.acquire.terms.soft(lease.sent);
        lease.ceiling.map_or(soft, |ceiling| soft.min(ceiling))
    }
}
