//! Ending a pool in an orderly way.

use std::time::Duration;

use super::Core;
use super::signal::Signal;
use super::ticket::{Stage, Ticket, TicketId};
use crate::base::clock::Instant;
use crate::base::seeded::seeded;
use crate::engine::metrics;
use crate::error::LockError;

impl Core {
    /// Takes no new orders, refuses those that wait, and reports when all locks are released or
    /// after `limit`. Several shutdowns are one, each with its own limit.
    pub(crate) fn shut_down(&mut self, number: u64, limit: Duration, now: Instant) {
        let drain = self.drain.get_or_insert_default();
        drain.add(number, now + limit);
        let waiting = |stage: &Stage| matches!(stage, Stage::Queued | Stage::Asking { .. });
        let refused: Vec<TicketId> = self
            .tickets
            .iter()
            .filter(|(_, ticket)| waiting(&ticket.stage))
            .map(|(id, _)| *id)
            .collect();
        for id in refused {
            self.fail(id, LockError::ShuttingDown, now);
        }
        self.shutdown_due(now);
    }

    pub(super) fn count_release(&mut self, confirmed: bool) {
        metrics::released(confirmed);
        if let Some(drain) = &mut self.drain {
            drain.count_release(confirmed);
        }
    }

    pub(super) fn shutdown_due(&mut self, now: Instant) {
        let Some(drain) = &mut self.drain else {
            return;
        };
        let left = |ticket: &Ticket| {
            !(seeded!(self, ShutdownHurries) && matches!(ticket.stage, Stage::Releasing(_)))
        };
        let over = drain.take_over(!self.tickets.values().any(left), now);
        if over.is_empty() {
            return;
        }
        let held = |ticket: &&Ticket| matches!(ticket.stage, Stage::Held(_));
        let still_held = self.tickets.values().filter(held).count();
        let report = drain.report(still_held, self.tickets.len() - still_held);
        for number in over {
            self.signal(Signal::ShutDown(number, report));
        }
    }
}
