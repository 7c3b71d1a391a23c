//! One call's way through the engine: from waiting to holding to released.

use std::time::Duration;

use crate::base::clock::Instant;
use crate::base::full_key::FullKey;
use crate::base::lease_terms::Terms;
use crate::base::one_or_many::OneOrMany;
use crate::base::token::Token;
use crate::error::LockError;
use crate::fence::Fence;
use crate::store::OpId;

/// Names a ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct TicketId(pub(crate) u64);

/// How a lease is renewed while it is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Watchdog {
    pub(crate) interval: Duration,
    /// Give the lock up after this long, however healthy it is.
    pub(crate) max_hold: Option<Duration>,
}

/// Leases are renewed together if they are due within a 256th of their interval, and no more than 10 ms: what leaves together
/// is what everybody else waits for at the server.
const TOGETHER: u32 = 256;
const LONGEST_TOGETHER: Duration = Duration::from_millis(10);

impl Watchdog {
    /// When to renew a lease that is counted from `sent`: after the interval or a little before, at a time that many leases share, so that
    /// they leave as one request. `phase` keeps pools from doing so at the same times.
    pub(super) fn due(&self, sent: Instant, phase: Duration) -> Instant {
        let due = sent + self.interval;
        let step = (self.interval / TOGETHER).min(LONGEST_TOGETHER);
        let step = u64::try_from(step.as_nanos()).unwrap_or(u64::MAX).max(1);
        due - Duration::from_nanos((due + phase).as_nanos() % step)
    }
}

/// What a caller wants.
#[derive(Debug, Clone)]
pub(crate) struct Acquire {
    /// The key on the server, namespace included.
    pub(crate) key: FullKey,
    pub(crate) token: Token,
    /// The annotated function that asks, for people who look at the key; empty for a call.
    pub(crate) function: &'static str,
    pub(crate) terms: Terms,
    pub(crate) watchdog: Option<Watchdog>,
    /// How long to queue; zero is one try.
    pub(crate) wait: Duration,
    /// A share of the lock instead of all of it.
    pub(crate) share: Option<Share>,
}

/// With whom a lock is shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Share {
    /// With all others that read.
    Reader,
    /// With so many in all.
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

/// An order on its way.
#[derive(Debug)]
pub(super) struct Ticket {
    pub(super) acquire: Acquire,
    pub(super) since: Instant,
    /// When acquiring must end.
    pub(super) budget: Instant,
    pub(super) stage: Stage,
    /// Acquires whose outcome is not known: in flight, or sent on a connection that broke.
    pub(super) open: OneOrMany<OpId>,
    /// Whether an acquire has succeeded, be it too late to be of use: the key may carry the token.
    pub(super) taken: bool,
    /// How long the key stays after the release.
    pub(super) kept_until: Option<Instant>,
    /// The timer that is set for this ticket.
    pub(super) armed: Option<Instant>,
}

#[derive(Debug)]
pub(super) enum Stage {
    /// In the key's local queue.
    Queued,
    /// First in the queue, with an acquire on its way; asked again at `until`.
    Asking { op: OpId, until: Instant },
    /// The lock is held.
    Held(Lease),
    /// The lease was lost, the caller was told, and has not come back yet.
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
    /// When the lock is given up at the latest.
    pub(super) ceiling: Option<Instant>,
    pub(super) renew_at: Option<Instant>,
    pub(super) fence: Option<Fence>,
    /// Whether a failed renewal has been tried again at once since the last that succeeded.
    pub(super) hurried: bool,
    /// Whether a renewal has been sent that was not confirmed.
    pub(super) renewing: bool,
    /// Whether it is to be sent, or was and its batch has the timer.
    pub(super) leaving: bool,
}

/// A lock that is being removed from the store.
#[derive(Debug)]
pub(super) struct Cleanup {
    /// Until when somebody waits for the outcome.
    pub(super) awaited: Option<Instant>,
    pub(super) next_try: Instant,
    /// By then the key has expired by itself.
    pub(super) until: Instant,
    pub(super) tries: u32,
    /// Tries that the store may have carried out, or may yet, each counted until it is known that
    /// it did not.
    pub(super) open: u32,
    /// Whether the key is left free for clients that know no queue, also by a removal that is tried again.
    pub(super) makes_way: bool,
    pub(super) origin: Origin,
    /// Whether a confirmed removal has been seen.
    pub(super) removed: bool,
}

/// What a removal ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// A lease that lasted, as far as the engine knew. The store's key cannot have expired before `expires`.
    Live {
        fence: Option<Fence>,
        expires: Instant,
    },
    /// A lease whose loss has been told.
    Lost,
    /// What an abandoned acquire may have left.
    Abandoned,
}

/// What became of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Removal {
    /// The store has confirmed it, or the lock was handed over inside the process.
    Confirmed,
    /// Not known, when the caller's time to wait was over.
    Unknown,
    /// The lease had been lost: the store did not have the lock any more.
    Gone,
}

impl Acquire {
    /// Whether the caller queues for a lock that is held.
    pub(super) fn waits(&self) -> bool {
        !self.wait.is_zero()
    }

    /// Others count more holders than this call does.
    pub(super) fn limited(&self, limit: u32) -> LockError {
        let asked = self.share.map_or(0, Share::limit);
        LockError::config(format!(
            "`permits = {asked}` on the key `{}`, which others hold with `permits = {limit}`; give all functions of a key the \
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

    /// For how long the key is still to stay, in the store's milliseconds.
    pub(super) fn keep(&self, now: Instant) -> Option<Duration> {
        let left = self.kept_until?.since(now);
        (Duration::from_millis(1) <= left).then_some(left)
    }

    /// The end of the lease as the body sees it.
    pub(super) fn deadline(&self, lease: &Lease) -> Instant {
        let hard = self.acquire.terms.hard(lease.sent);
        lease.ceiling.map_or(hard, |ceiling| hard.min(ceiling))
    }

    /// When a held lease is looked at next.
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
