//! Turning an exclusive lock into a share.
//!
//! The request renews the lock as a share. In one step, the store replaces the exclusive lock by
//! the share. Like any renewal, the request is repeated until the answer is known or the lease is
//! over. Its caller waits for the answer, so the pause before a repetition is short even with a
//! long ttl. From the start of the downgrade, the core treats the lock as a share, although the
//! store may still have it as an exclusive lock. That does no harm, because renewals and removals
//! of a share also apply to an exclusive lock.

use super::Core;
use super::signal::Signal;
use super::ticket::{Ticket, TicketId};
use crate::base::clock::Instant;
use crate::base::seeded::seeded;

impl Core {
    /// Turns an exclusive lock into a share, so that readers can share it. The answer is `Shared`,
    /// or `Lost` if the lease is lost. A repeated call waits for the answer to the first.
    pub(crate) fn downgrade(&mut self, id: TicketId, now: Instant) {
        let ticket = self.tickets.get_mut(id);
        let Some(ticket) = ticket.filter(|ticket| ticket.lease().is_some()) else {
            return;
        };
        if ticket.acquire().share.is_some() {
            if !self.is_downgrading(id) {
                self.signal(Signal::Shared(id));
            }
            return;
        }
        ticket.become_reader();
        if seeded!(self, MaxHoldForgotten)
            && let Some(lease) = ticket.lease_mut()
        {
            lease.set_ceiling(None);
        }
        self.renew(id, now);
        self.arm(id);
    }

    /// True if a downgrade has begun and is not confirmed yet.
    pub(super) fn is_downgrading(&self, id: TicketId) -> bool {
        let acquire = self.tickets.get(id).map(Ticket::acquire);
        let share = acquire.filter(|acquire| acquire.share.is_some());
        let queue = share.and_then(|acquire| self.queues.get(&acquire.key));
        queue.is_some_and(|queue| queue.is_held_by(id))
    }

    /// Handles the confirmed renewal of a share. If that renewal has turned an exclusive lock into
    /// the share, signals `Shared` and lets the waiting calls ask.
    pub(super) fn is_shared(&mut self, id: TicketId, now: Instant) {
        let Some(ticket) = self.tickets.get(id) else {
            return;
        };
        let key = ticket.acquire().key.clone();
        let queue = self.queues.get_mut(&key);
        if let Some(queue) = queue.filter(|queue| queue.is_held_by(id))
            && ticket.acquire().share.is_some()
        {
            queue.shared();
            self.signal(Signal::Shared(id));
            self.vacate(id, &key, false, now);
        }
    }
}
