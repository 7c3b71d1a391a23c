//! Hold times of locks, and the `retry_after` of refused calls.
//!
//! The remaining lease of a lock with a watchdog does not predict the release. It is usually close
//! to a full ttl, even if the body is short. So the core computes a mean hold time for each call
//! site. A refused call gets that mean as `retry_after`, but at most the remaining lease.

use std::time::Duration;

use super::Core;
use super::queue::KeyQueue;
use super::ticket::{Acquire, SiteId, Ticket};
use crate::base::clock::Instant;
use crate::base::id_map::IdMap;

/// `retry_after` of a refused call if the lock has a watchdog, and no hold time is known for the
/// call site.
pub(crate) const UNKNOWN: Duration = Duration::from_secs(1);

/// Shortest `retry_after` of a refused call. A shorter time would save nothing, because each try
/// also takes a round trip.
const SHORTEST: Duration = Duration::from_millis(10);

/// A new hold time makes up one part in `2^WEIGHT` of the mean.
const WEIGHT: u32 = 3;

/// Mean hold time of the locks of each call site, in nanoseconds. Recent locks have more weight. A
/// program has a fixed number of call sites, so the map stays small.
#[derive(Debug, Default)]
pub(super) struct HoldTimes(IdMap<SiteId, u64>);

impl HoldTimes {
    /// Adds the hold time of a ticket that its caller gives up, if the ticket holds the lock.
    pub(super) fn note(&mut self, ticket: &Ticket, now: Instant) {
        let Some(lease) = ticket.lease() else {
            return;
        };
        let acquire = ticket.acquire();
        // Capped at one ttl, so that a body that hangs once distorts the mean for only a few calls.
        let held = lease.held_for(now).min(acquire.terms.ttl());
        // After the release, the key may stay taken for some time. The mean includes this time, but
        // not for a call with a `cooldown` in its options: `retry_after` adds that `cooldown`.
        let kept = ticket.keep(now).filter(|_| acquire.cooldown.is_zero());
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
    /// Estimates `retry_after`. `holder` is the holder's request, or the refused request if the
    /// holder is unknown. `left` is the remaining lease of the holder, if known.
    pub(super) fn retry_after(&self, holder: &Acquire, left: Option<Duration>) -> Option<Duration> {
        if self.limits.retry_hint.is_some() {
            return self.limits.retry_hint;
        }
        let mean = self.hold_times.mean(holder.site);
        // Without a mean, the estimate is `UNKNOWN` if the lock has a watchdog, and otherwise the
        // end of the lease.
        let body = mean.or(holder.watchdog.map(|_| UNKNOWN));
        let usual = body.map(|body| body + holder.cooldown);
        let after = match (usual, left) {
            (Some(usual), Some(left)) => Some(usual.min(left)),
            (usual, left) => usual.or(left),
        };
        after.map(|after| after.max(SHORTEST))
    }

    /// Like `retry_after`, but takes the holder and the remaining lease from `queue`. For calls
    /// that are refused without a request to the store, or run out of time in the queue.
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
        // Another process holds the lock. The holder's call site is unknown, but most likely the
        // same as that of the refused call.
        self.retry_after(refused, left)
    }
}
