//! From having a lock alone to having a share of it.
//!
//! The request is a renewal of the share that the call wants: the store makes the share in the same step in which the whole lock ends. It is
//! repeated like any renewal until the answer is known or the lease is over; from the first request on the call counts as a reader, so
//! that whatever the outcome is, its renewals and its removal fit.

use super::Core;
use super::signal::Signal;
use super::ticket::{Share, Stage, TicketId};
use crate::base::clock::Instant;
use crate::base::seeded::seeded;

impl Core {
    /// Lets readers in beside the holder; answered by `Shared`, or by the loss of the lease.
    pub(crate) fn downgrade(&mut self, id: TicketId, now: Instant) {
        let Some(ticket) = self.tickets.get_mut(&id) else {
            return;
        };
        if !matches!(ticket.stage, Stage::Held(_)) {
            return;
        }
        if ticket.acquire.share.is_some() {
            return self.signal(Signal::Shared(id));
        }
        ticket.acquire.share = Some(Share::Reader);
        if seeded!(self, MaxHoldForgotten)
            && let Stage::Held(lease) = &mut ticket.stage
        {
            lease.ceiling = None;
        }
        self.renew(id, now);
        self.arm(id);
    }

    /// A renewal as a share was confirmed: if that made it one, those that wait may come in.
    pub(super) fn is_shared(&mut self, id: TicketId, now: Instant) {
        let Some(ticket) = self.tickets.get(&id) else {
            return;
        };
        let key = ticket.acquire.key.clone();
        let queue = self.queues.get_mut(&key);
        let queue = queue.filter(|queue| queue.holder == Some(id));
        if let Some(queue) = queue
            && ticket.acquire.share.is_some()
        {
            queue.shared();
            self.signal(Signal::Shared(id));
            self.vacate(id, &key, false, now);
        }
    }
}
