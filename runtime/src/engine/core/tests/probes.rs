//! Access to the state of a core, for tests and the simulation.

use crate::base::clock::Instant;
use crate::base::token::Token;
use crate::engine::core::Core;
use crate::engine::core::ticket::TicketId;
use crate::selftest::seeded_bugs::Bug;

impl Core {
    pub(in crate::engine) fn with_bug(self, bug: Option<Bug>) -> Self {
        Self { bug, ..self }
    }

    /// Returns the token under which a ticket holds its key.
    pub(in crate::engine) fn token_of(&self, id: TicketId) -> Option<Token> {
        self.tickets.get(id).map(|ticket| ticket.acquire().token)
    }

    pub(in crate::engine) fn knows_token(&self, token: Token) -> bool {
        let mut tickets = self.tickets.iter();
        tickets.any(|(_, ticket)| ticket.acquire().token == token)
    }

    /// Returns a ticket whose lease has no timer for its next renewal or its end, if there is one.
    /// The timer is either the ticket's own, or that of the batch that renews the lease.
    pub(in crate::engine) fn unwatched(&self) -> Option<TicketId> {
        let in_batch = |id: TicketId, due: Instant| {
            let mut batches = self.renewals.checked_by(due);
            batches.any(|op| self.requests.renewed_by(op).contains(&id))
        };
        self.tickets.iter().find_map(|(id, ticket)| {
            let lease = ticket.lease()?;
            let due = lease.next_due();
            let armed = ticket.armed().is_some_and(|at| at <= due);
            let watched = armed || (lease.timer().is_none() && in_batch(id, due));
            (!watched).then_some(id)
        })
    }

    pub(super) fn timers(&self) -> usize {
        self.tickets.timers()
    }
}
