//! Passing a lock on from one call of this process to the next, without asking the store.
//!
//! The key keeps its token, and the token moves to the next call together with what is left of the
//! lease. That is safe because nothing else has changed hands: the lease is counted from the same
//! request, both calls have the same ttl (so no request of the old one that is still under way can
//! shorten the new one's), and the fence comes from a block that the store gave away with the lock.
//! A store that has lost the lock is not asked, so as many calls as there are fences in the block
//! may begin on a lease that is lost: with fences below that of a new holder, and as long as half
//! of the ttl is left. Where any of this is not so, the lock is released and asked for anew.

use super::Core;
use super::queue::KeyQueue;
use super::signal::Signal;
use super::ticket::{Removal, Stage, Ticket, TicketId};
use crate::base::clock::Instant;
use crate::base::full_key::FullKey;
use crate::base::seeded::seeded;
use crate::engine::metrics;

impl Core {
    /// Passes the lock that `id` holds to the next call that waits for it; whether there was one that may have it.
    pub(super) fn pass_on(&mut self, id: TicketId, awaited: bool, now: Instant) -> bool {
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

    /// The next call in the queue, if the lock of `id` may be passed on to it.
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
        // At least half of the ttl is left, so that the next call is not worse off than with a lock of its own.
        let enough = now + terms.ttl() / 2 <= terms.soft(lease.sent)
            && queue.tenure.may_go_on(self.limits.max_passes, longest, now);
        let may = queue.holder == Some(id)
            && !self.makes_way(queue, now)
            && (enough || seeded!(self, PassedOnWithoutEnd))
            && ticket.acquire.terms.ttl() == terms.ttl()
            && now < ticket.budget
            && (holder.kept_until.is_none() || seeded!(self, KeptPassedOn))
            && holder.acquire.share.is_none()
            && ticket.acquire.share.is_none()
            && is_settled(holder)
            && !lease.renewing
            && is_untried(ticket);
        may.then_some(successor)
    }

    /// Whether the key of `id`, if that holds it alone and does not keep it, is to be left free for clients that know no queue.
    pub(super) fn holder_makes_way(&self, id: TicketId, key: &FullKey, now: Instant) -> bool {
        let ticket = self.tickets.get(&id);
        let whole = |ticket: &Ticket| ticket.acquire.share.is_none() && ticket.kept_until.is_none();
        let queue = self.queues.get(key);
        let queue = queue.filter(|queue| queue.holder == Some(id) && ticket.is_some_and(whole));
        queue.is_some_and(|queue| self.makes_way(queue, now))
    }

    fn makes_way(&self, queue: &KeyQueue, now: Instant) -> bool {
        !seeded!(self, WayNotMade) && queue.is_to_make_way(self.limits.make_way_after, now)
    }
}

/// Whether nothing of the holder's is under way that could act later.
fn is_settled(holder: &Ticket) -> bool {
    holder.open.is_empty()
}

/// Whether the call has left nothing at the store under the token that it would lose.
fn is_untried(ticket: &Ticket) -> bool {
    matches!(ticket.stage, Stage::Queued) && ticket.open.is_empty() && !ticket.taken
}
