//! From an exclusive lock to a share of it.
//!
//! The request is a renewal of the share that the call wants. In one step the store ends the
//! exclusive lock and makes the share. The request is repeated like any renewal, until the answer
//! is known or the lease is over. From the first request on the call counts as a reader, so its
//! renewals and its removal fit either outcome.

use super::Core;
use super::signal::Signal;
use super::ticket::TicketId;
use crate::base::clock::Instant;
use crate::base::seeded::seeded;

impl Core {
    /// Lets readers in beside the holder; answered by `Shared`, or by the loss of the lease.
    pub(crate) fn downgrade(&mut self, id: TicketId, now: Instant) {
        let ticket = self.tickets.get_mut(id);
        let Some(ticket) = ticket.filter(|ticket| ticket.lease().is_some()) else {
            return;
        };
        if ticket.acquire().share.is_some() {
            return self.signal(Signal::Shared(id));
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

    /// A renewal as a share was confirmed. If that renewal made the share, waiting readers may
    /// join.
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
