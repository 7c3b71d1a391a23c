//! Ending a pool in an orderly way.

use std::time::Duration;

use super::ticket::{Stage, Ticket, TicketId};
use super::{Core, Signal};
use crate::base::clock::Instant;
use crate::base::seeded::seeded;
use crate::engine::metrics;
use crate::error::LockError;

/// What a shutdown found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// Locks whose release the store confirmed during the shutdown.
    pub released: usize,
    /// Locks that their holders still held when the time was up. They are kept and renewed for as long as
    /// the process runs; when it ends they expire after their ttl.
    pub still_held: usize,
    /// Locks that were released or lost, which the store had not confirmed when the time was up; they expire after their
    /// ttl at the latest.
    pub unconfirmed: usize,
}

/// Shutdowns under way.
#[derive(Debug, Default)]
pub(super) struct Shutdown {
    /// Who waits for a report, and until when.
    waiting: Vec<(u64, Instant)>,
    released: usize,
    expired: usize,
}

impl Shutdown {
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.waiting.iter().map(|(_, deadline)| *deadline).min()
    }
}

impl Core {
    /// Takes no new orders, refuses those that wait, and reports when all locks are released or
    /// after `limit`. Several shutdowns are one, each with its own limit.
    pub(crate) fn shut_down(&mut self, number: u64, limit: Duration, now: Instant) {
        let shutdown = self.shutdown.get_or_insert_default();
        shutdown.waiting.push((number, now + limit));
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
        if let Some(shutdown) = &mut self.shutdown {
            if confirmed {
                shutdown.released += 1;
            } else {
                shutdown.expired += 1;
            }
        }
    }

    pub(super) fn shutdown_due(&mut self, now: Instant) {
        let left = |ticket: &Ticket| {
            !(seeded!(self, ShutdownHurries) && matches!(ticket.stage, Stage::Releasing(_)))
        };
        let empty = !self.tickets.values().any(left);
        let Some(shutdown) = &mut self.shutdown else {
            return;
        };
        let due = |(_, deadline): &mut (u64, Instant)| empty || *deadline <= now;
        let over: Vec<(u64, Instant)> = shutdown.waiting.extract_if(.., due).collect();
        if over.is_empty() {
            return;
        }
        let (released, expired) = (shutdown.released, shutdown.expired);
        let held = |stage: &Stage| matches!(stage, Stage::Held(_));
        let still_held = self
            .tickets
            .values()
            .filter(|ticket| held(&ticket.stage))
            .count();
        let report = ShutdownReport {
            released,
            still_held,
            unconfirmed: self.tickets.len() - still_held + expired,
        };
        for (number, _) in over {
            self.signal(Signal::ShutDown(number, report));
        }
    }
}
