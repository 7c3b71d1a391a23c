//! All tickets, each with its timer.

use super::ticket::{Ticket, TicketId};
use super::timers::Timers;
use crate::base::clock::Instant;
use crate::base::id_map::IdMap;

/// Number of outdated timers that are not worth removing. A timer is outdated if its ticket is gone
/// or has another timer.
const STALE_TIMERS: usize = 64;

/// All tickets, each with its timer.
#[derive(Debug, Default)]
pub(super) struct Tickets {
    /// Boxed to save memory, because nearly half of the map's slots are empty.
    by_id: IdMap<TicketId, Box<Ticket>>,
    timers: Timers,
}

impl Tickets {
    pub(super) fn insert(&mut self, id: TicketId, ticket: Ticket) {
        self.by_id.insert(id, Box::new(ticket));
    }

    pub(super) fn get(&self, id: TicketId) -> Option<&Ticket> {
        self.by_id.get(&id).map(Box::as_ref)
    }

    pub(super) fn get_mut(&mut self, id: TicketId) -> Option<&mut Ticket> {
        self.by_id.get_mut(&id).map(Box::as_mut)
    }

    pub(super) fn remove(&mut self, id: TicketId) -> Option<Ticket> {
        self.by_id.remove(&id).map(|ticket| *ticket)
    }

    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (TicketId, &Ticket)> {
        self.by_id.iter().map(|(id, ticket)| (*id, &**ticket))
    }

    /// Sets the timer of a ticket to `due`, unless it is already set to an earlier time. A timer
    /// that goes off too early does no harm: the core checks the ticket and sets the timer again.
    pub(super) fn arm(&mut self, id: TicketId, due: impl FnOnce(&Ticket) -> Option<Instant>) {
        if let Some(ticket) = self.by_id.get_mut(&id)
            && let Some(due) = due(ticket)
            && ticket.arm(due)
        {
            self.timers.push((due, id));
            self.drop_stale_timers();
        }
    }

    /// Returns the next ticket with a due timer, and clears that timer.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<TicketId> {
        while let Some((at, id)) = self.timers.pop(now) {
            let ticket = self.by_id.get_mut(&id);
            if ticket.is_some_and(|ticket| ticket.disarm(at)) {
                return Some(id);
            }
        }
        None
    }

    /// Returns the due time of the first timer.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// Drops the outdated timers once they are the majority. Otherwise each would stay until its
    /// due time. Many calls have a long `wait` but get their lock at once, so outdated timers would
    /// pile up.
    fn drop_stale_timers(&mut self) {
        if self.timers.len() <= 2 * self.by_id.len() + STALE_TIMERS {
            return;
        }
        let armed = self
            .iter()
            .filter_map(|(id, ticket)| ticket.armed().map(|at| (at, id)));
        self.timers = armed.collect();
    }

    #[cfg(test)]
    pub(super) fn timers(&self) -> usize {
        self.timers.len()
    }
}
