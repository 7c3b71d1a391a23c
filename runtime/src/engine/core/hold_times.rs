//! How long calls hold their locks, and when a refused call is to try again.
//!
//! The rest of a lease with a watchdog says nothing about the lock's end: it is a ttl at most and
//! mostly close to one, however short the body. So each call site has a mean of how long its locks
//! were held. A refused call is told that mean, and no more than the rest of the lease.

use std::time::Duration;

use super::Core;
use super::queue::KeyQueue;
use super::ticket::{Acquire, SiteId, Ticket};
use crate::base::clock::Instant;
use crate::base::id_map::IdMap;

/// What a refused call is told where nothing is known of the holder's body.
pub(crate) const UNKNOWN: Duration = Duration::from_secs(1);

/// No refused call is told a shorter time, as the way there and back takes time too.
const SHORTEST: Duration = Duration::from_millis(10);

/// A new time counts as one part in `2^WEIGHT` of the mean.
const WEIGHT: u32 = 3;

/// The mean of how long the locks of each call site were held, in nanoseconds. Later locks count
/// more. A program has a fixed number of call sites, so this stays small.
#[derive(Debug, Default)]
pub(super) struct HoldTimes(IdMap<SiteId, u64>);

impl HoldTimes {
    /// Notes that the caller gives its ticket up; counts it if the ticket holds the lock.
    pub(super) fn note(&mut self, ticket: &Ticket, now: Instant) {
        let Some(lease) = ticket.lease() else {
            return;
        };
        let acquire = ticket.acquire();
        // Nothing longer is ever told. So a body that hangs once spoils the mean for a few calls.
        let held = lease.held_for(now).min(acquire.terms.ttl());
        // The `hold` of a call site is known without a mean.
        let kept = ticket.keep(now).filter(|_| acquire.hold.is_zero());
        let held = held + kept.unwrap_or_default();
        let held = u64::try_from(held.as_nanos()).unwrap_or(u64::MAX);
        let mean = self.0.entry(acquire.site).or_insert(held);
        *mean = *mean - (*mean >> WEIGHT) + (held >> WEIGHT);
    }

    pub(super) fn mean(&self, site: SiteId) -> Option<Duration> {
        self.0.get(&site).copied().map(Duration::from_nanos)
    }
}

impl Core {
    /// When a call is to try again that finds the lock held for `left`, if the store tells that.
    /// `holder` is the holder's request, or one that is likely similar.
    pub(super) fn retry_after(&self, holder: &Acquire, left: Option<Duration>) -> Option<Duration> {
        if self.limits.retry_hint.is_some() {
            return self.limits.retry_hint;
        }
        let mean = self.hold_times.mean(holder.site);
        // Without a watchdog the lock is free at the end of its lease.
        let body = mean.or(holder.watchdog.map(|_| UNKNOWN));
        let usual = body.map(|body| body + holder.hold);
        let after = match (usual, left) {
            (Some(usual), Some(left)) => Some(usual.min(left)),
            (usual, left) => usual.or(left),
        };
        after.map(|after| after.max(SHORTEST))
    }

    /// The same for a call that is refused by what this process knows of the key.
    pub(super) fn retry_by_queue(
        &self,
        queue: &KeyQueue,
        refused: &Acquire,
        now: Instant,
    ) -> Option<Duration> {
        if let Some(holder) = queue.holder().and_then(|id| self.tickets.get(id)) {
            let left = holder.lease().map(|lease| lease.deadline().since(now));
            return self.retry_after(holder.acquire(), left);
        }
        let left = queue.held_for(now);
        if queue.is_left_free(now) {
            return self.limits.retry_hint.or(left);
        }
        // Another process holds the lock, most likely by the same function.
        self.retry_after(refused, left)
    }
}
