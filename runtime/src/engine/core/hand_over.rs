//! Handing a lock over from one call of this process to its successor, without asking the store.
//!
//! The key keeps its token, which moves to the successor together with the lease. That is safe
//! under four conditions:
//! - The lease is still counted from the request that took or last renewed it.
//! - Both calls have the same ttl, so no pending request of the old call can shorten the lease of
//!   the new one.
//! - The successor's fence is one that the store reserved when it granted the lock.
//! - No database transaction can verify the old call's fence: the program has not read the fence,
//!   or the store has no such transactions.
//!
//! If one of these conditions is not met, the lock is released and requested again.
//!
//! If the store loses the lock without the engine's knowledge, hand-overs begin calls on a lost
//! lease. There is at most one such call for each reserved fence, and each begins only while at
//! least half of the ttl is left. The fences of these calls are lower than that of a new holder.

use super::Core;
use super::queue::KeyQueue;
use super::signal::Signal;
use super::ticket::{Removal, Ticket, TicketId};
use crate::base::clock::Instant;
use crate::base::full_key::FullKey;
use crate::base::seeded::seeded;

impl Core {
    /// Hands the lock of `id` over to the next call in the queue. Returns false if no call may get
    /// it in this way.
    pub(super) fn hand_over(&mut self, id: TicketId, awaited: bool, now: Instant) -> bool {
        let Some(successor) = self.successor(id, now) else {
            return false;
        };
        let Some(holder) = self.tickets.remove(id) else {
            return false;
        };
        self.hold_times.note(&holder, now);
        let Some((acquire, lease)) = holder.into_held() else {
            return false;
        };
        self.releases.count(true);
        let Some(queue) = self.queues.get_mut(&acquire.key) else {
            return false;
        };
        let fence = match queue.hand_over(successor, now) {
            _ if seeded!(self, FenceHandedOver) => lease.fence(),
            fence => fence,
        };
        if let Some(ticket) = self.tickets.get_mut(successor) {
            ticket.inherit(acquire.token);
            self.signals.push(Signal::Inherited {
                ticket: successor,
                token: acquire.token,
            });
        }
        if awaited {
            self.signal(Signal::Released {
                ticket: id,
                removal: Removal::Confirmed,
            });
        }
        let sent = if seeded!(self, HandedOverWithoutEnd) {
            now
        } else {
            lease.sent()
        };
        self.grant(successor, sent, fence, now);
        if seeded!(self, HandedOverNotRenewed)
            && let Some(ticket) = self.tickets.get_mut(successor)
            && let Some(lease) = ticket.lease_mut()
        {
            lease.plan_renewal(None);
        }
        true
    }

    /// Excludes the lock of `id` from a hand-over, because a database transaction may still hold
    /// the lock after the call. The lock is then released to the store, which waits for the
    /// transaction before it grants the lock again.
    pub(crate) fn may_be_pinned(&mut self, id: TicketId) {
        let Some(ticket) = self.tickets.get(id) else {
            return;
        };
        let queue = self.queues.get_mut(&ticket.acquire().key);
        if let Some(queue) = queue.filter(|queue| queue.is_held_by(id)) {
            queue.hand_over_no_more();
        }
    }

    /// Returns the head of the queue, if the lock of `id` may be handed over to it.
    fn successor(&self, id: TicketId, now: Instant) -> Option<TicketId> {
        let holder = self.tickets.get(id)?;
        let lease = holder.lease()?;
        let terms = holder.acquire().terms;
        let queue = self.queues.get(&holder.acquire().key)?;
        let longest = self.limits.longest_turn.unwrap_or(terms.ttl() / 4);
        let successor = queue.head()?;
        let ticket = self.tickets.get(successor)?;
        // At least half of the ttl must be left, to give the successor time for its work.
        let enough = now + terms.ttl() / 2 <= terms.soft(lease.sent())
            && queue.may_hand_over(self.limits.max_passes, longest, now);
        let may = queue.is_held_by(id)
            && !self.makes_way(queue, now)
            && (enough || seeded!(self, HandedOverWithoutEnd))
            && ticket.acquire().terms.ttl() == terms.ttl()
            && ticket.is_in_time(now)
            && ticket.acquire().outlives_the_process(lease.sent(), now)
            && (!holder.is_kept(now) || seeded!(self, KeptHandedOver))
            && holder.recorded().is_none()
            // A `replay` call must ask the store, which may have a kept result for it.
            && (ticket.acquire().replay.is_none() || seeded!(self, ReplayHandedOver))
            && holder.acquire().share.is_none()
            && ticket.acquire().share.is_none()
            && holder.is_settled()
            && !lease.is_renewing()
            // A hand-over replaces the successor's token. So the store must neither have the key
            // with the replaced token, nor set it later.
            && ticket.is_queued()
            && !ticket.may_be_taken();
        may.then_some(successor)
    }

    /// True if the release of `id` must leave the key free for clients that do not use the queue.
    /// False if the lock is shared, or if the key is kept after the release.
    pub(super) fn holder_makes_way(&self, id: TicketId, key: &FullKey, now: Instant) -> bool {
        let ticket = self.tickets.get(id);
        let whole = |ticket: &Ticket| ticket.acquire().share.is_none() && !ticket.is_kept(now);
        let queue = self.queues.get(key);
        let queue = queue.filter(|queue| queue.is_held_by(id) && ticket.is_some_and(whole));
        queue.is_some_and(|queue| self.makes_way(queue, now))
    }

    fn makes_way(&self, queue: &KeyQueue, now: Instant) -> bool {
        !seeded!(self, WayNotMade) && queue.is_to_make_way(self.limits.make_way_after, now)
    }
}
