//! Handing a lock over from one call of this process to its successor, without asking the store.
//!
//! The key keeps its token. The token moves to the successor together with the rest of the lease.
//! That is safe for three reasons:
//! - The lease is still counted from the same request.
//! - Both calls have the same ttl, so no request of the old call that is under way can shorten the
//!   lease of the new one.
//! - The fence is one that the store reserved when it granted the lock.
//!
//! Where one of these does not hold, the lock is released and asked for anew.
//!
//! The store is not asked, so it may have lost the lock. Then calls may begin on a lost lease: at
//! most one for each reserved fence, and only while half of the ttl is left. Their fences are below
//! that of a new holder.

use super::Core;
use super::queue::KeyQueue;
use super::signal::Signal;
use super::ticket::{Removal, Stage, Ticket, TicketId};
use crate::base::clock::Instant;
use crate::base::full_key::FullKey;
use crate::base::seeded::seeded;
use crate::engine::metrics;

impl Core {
    /// Hands the lock of `id` over to its successor. Returns whether there was one.
    pub(super) fn hand_over(&mut self, id: TicketId, awaited: bool, now: Instant) -> bool {
        let Some(successor) = self.successor(id, now) else {
            return false;
        };
        let Some(holder) = self.tickets.remove(&id) else {
            return false;
        };
        let Stage::Held(lease) = holder.stage else {
            return false;
        };
        metrics::released(true);
        let key = holder.acquire.key;
        let Some(queue) = self.queues.get_mut(&key) else {
            return false;
        };
        let fence = match queue.tenure.next_fence() {
            _ if seeded!(self, FencePassedOn) => lease.fence,
            fence => fence,
        };
        queue.remove(successor);
        queue.holder = Some(successor);
        if let Some(ticket) = self.tickets.get_mut(&successor) {
            ticket.acquire.token = holder.acquire.token;
            ticket.taken = true;
        }
        if awaited {
            self.signal(Signal::Released {
                ticket: id,
                removal: Removal::Confirmed,
            });
        }
        let sent = if seeded!(self, PassedOnWithoutEnd) {
            now
        } else {
            lease.sent
        };
        self.grant(successor, sent, fence, now);
        if seeded!(self, HeirNotRenewed)
            && let Some(ticket) = self.tickets.get_mut(&successor)
            && let Stage::Held(lease) = &mut ticket.stage
        {
            lease.renew_at = None;
        }
        true
    }

    /// The head of the queue, if the lock of `id` may be handed over to it.
    fn successor(&self, id: TicketId, now: Instant) -> Option<TicketId> {
        let holder = self.tickets.get(&id)?;
        let Stage::Held(lease) = &holder.stage else {
            return None;
        };
        let terms = holder.acquire.terms;
        let queue = self.queues.get(&holder.acquire.key)?;
        let longest = self.limits.longest_turn.unwrap_or(terms.ttl() / 4);
        let successor = *queue.waiting.front()?;
        let ticket = self.tickets.get(&successor)?;
        // At least half of the ttl is left, so that the successor has time for its work.
        let enough = now + terms.ttl() / 2 <= terms.soft(lease.sent)
            && queue.tenure.may_go_on(self.limits.max_passes, longest, now);
        let may = queue.holder == Some(id)
            && !self.makes_way(queue, now)
            && (enough || seeded!(self, PassedOnWithoutEnd))
            && ticket.acquire.terms.ttl() == terms.ttl()
            && now < ticket.budget
            && ticket.acquire.outlives_the_process(lease.sent, now)
            && (holder.keep(now).is_none() || seeded!(self, KeptPassedOn))
            && holder.acquire.share.is_none()
            && ticket.acquire.share.is_none()
            && is_settled(holder)
            && !lease.renewing
            && is_untried(ticket);
        may.then_some(successor)
    }

    /// Whether the key of `id` must be left free for clients that know no queue. Not if the lock is
    /// shared, and not if the key is kept after the release.
    pub(super) fn holder_makes_way(&self, id: TicketId, key: &FullKey, now: Instant) -> bool {
        let ticket = self.tickets.get(&id);
        let whole = |ticket: &Ticket| ticket.acquire.share.is_none() && ticket.keep(now).is_none();
        let queue = self.queues.get(key);
        let queue = queue.filter(|queue| queue.holder == Some(id) && ticket.is_some_and(whole));
        queue.is_some_and(|queue| self.makes_way(queue, now))
    }

    fn makes_way(&self, queue: &KeyQueue, now: Instant) -> bool {
        !seeded!(self, WayNotMade) && queue.is_to_make_way(self.limits.make_way_after, now)
    }
}

/// Whether the holder has no acquire under way, which could act later.
fn is_settled(holder: &Ticket) -> bool {
    holder.open.is_empty()
}

/// Whether the store can have no key with this call's token. A hand-over replaces that token.
fn is_untried(ticket: &Ticket) -> bool {
    matches!(ticket.stage, Stage::Queued) && ticket.open.is_empty() && !ticket.taken
}
