//! Refuses calls that try once while the store is away: an attempt to connect has failed, and the
//! store has not answered since.
//!
//! A call with a `wait` is not refused. It asks the store again until its `wait` is over.

use super::Core;
use super::signal::Signal;
use super::ticket::{Acquire, Ticket, TicketId};
use crate::base::clock::Instant;
use crate::base::full_key::FullKey;
use crate::error::LockError;

impl Core {
    /// Refuses a new call that tries once, because the store is away. If there is another reason to
    /// refuse the call, such as a holder in this process, the error names that reason.
    pub(crate) fn refuse_absent(
        &mut self,
        id: TicketId,
        acquire: &Acquire,
        absence: LockError,
        now: Instant,
    ) {
        let error = if self.drain.is_some() {
            LockError::ShuttingDown
        } else {
            self.refusal(acquire, now).unwrap_or(absence)
        };
        self.signal(Signal::Failed(id, error));
    }

    /// Makes a new call for several locks queue for each lock separately, because the store is away
    /// and the call can wait. `id` is the ticket of one of these locks.
    pub(crate) fn part_absent(&mut self, id: TicketId) {
        self.signal(Signal::Apart(id));
    }

    /// Returns the calls that end when the store is away, with their keys: those that try once and
    /// have no lock yet. Adoptions are left out. If an adoption ended now, its lock would be
    /// removed, because the store may already have carried the adoption out.
    pub(crate) fn single_tries(&self) -> Vec<(TicketId, FullKey)> {
        let tries = self.tickets.iter().filter(|(_, ticket)| {
            ticket.is_acquiring() && !ticket.acquire().waits() && ticket.adoption().is_none()
        });
        let keys = tries.map(|(id, ticket)| (id, ticket.acquire().key.clone()));
        keys.collect()
    }

    /// Ends a call that tries once, because the store has gone away.
    pub(crate) fn end_absent(&mut self, id: TicketId, absence: LockError, now: Instant) {
        if self.tickets.get(id).is_some_and(Ticket::is_acquiring) {
            self.fail(id, absence, now);
        }
    }
}
