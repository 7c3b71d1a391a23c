//! The orderly shutdown of a pool.

use std::time::Duration;

use super::Core;
use super::signal::Signal;
use super::ticket::{Ticket, TicketId};
use crate::base::clock::Instant;
use crate::base::seeded::seeded;
use crate::error::LockError;

impl Core {
    /// Refuses new and waiting acquires. Signals the report of this shutdown, with its `number`,
    /// when all locks are released, at the latest after `limit`. A second shutdown does not replace
    /// the first: each has a limit and a report, which counts the releases since the first shutdown
    /// began.
    pub(crate) fn shut_down(&mut self, number: u64, limit: Duration, now: Instant) {
        let drain = self.drain.get_or_insert_default();
        drain.add(number, now + limit);
        let waiting = self.tickets.iter().filter(|(_, it)| it.is_acquiring());
        let refused: Vec<TicketId> = waiting.map(|(id, _)| id).collect();
        for id in refused {
            self.fail(id, LockError::ShuttingDown, now);
        }
        self.shutdown_due(now);
    }

    pub(super) fn count_release(&mut self, confirmed: bool) {
        self.releases.count(confirmed);
        if let Some(drain) = &mut self.drain {
            drain.count_release(confirmed);
        }
    }

    pub(super) fn shutdown_due(&mut self, now: Instant) {
        let Some(drain) = &mut self.drain else {
            return;
        };
        let left =
            |ticket: &Ticket| !(seeded!(self, ShutdownHurries) && ticket.cleanup().is_some());
        let any_left = self.tickets.iter().any(|(_, ticket)| left(ticket));
        let over = drain.take_over(!any_left, now);
        if over.is_empty() {
            return;
        }
        let held = self.tickets.iter().filter(|(_, it)| it.lease().is_some());
        let still_held = held.count();
        let report = drain.report(still_held, self.tickets.len() - still_held);
        for number in over {
            self.signal(Signal::ShutDown(number, report));
        }
    }
}
