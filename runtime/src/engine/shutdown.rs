//! Ending a pool in an orderly way.

use std::time::Duration;

use super::core::{Core, Signal};
use super::meter;
use super::ticket::{Stage, TicketId};
use crate::LockError;
use crate::clock::Instant;

/// What a shutdown found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// Locks whose release the store confirmed during the shutdown.
    pub released: usize,
    /// Locks that their holders still held when the time was up. They are kept and renewed for as long as
    /// the process runs; when it ends they expire after their ttl.
    pub still_held: usize,
    /// Releases that the store had not confirmed when the time was up; these locks expire after
    /// their ttl at the latest.
    pub unconfirmed: usize,
}

/// A shutdown under way.
#[derive(Debug)]
pub(super) struct Shutdown {
    /// When to report at the latest; `None` once reported.
    deadline: Option<Instant>,
    released: usize,
    expired: usize,
}

impl Shutdown {
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }
}

impl Core {
    /// Takes no new orders, refuses those that wait, and reports when all locks are released or
    /// after `limit`.
    pub(crate) fn shut_down(&mut self, limit: Duration, now: Instant) {
        let (released, expired) = self
            .shutdown
            .as_ref()
            .map_or((0, 0), |before| (before.released, before.expired));
        self.shutdown = Some(Shutdown {
            deadline: Some(now + limit),
            released,
            expired,
        });
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
        meter::released(confirmed);
        if let Some(shutdown) = &mut self.shutdown {
            if confirmed {
                shutdown.released += 1;
            } else {
                shutdown.expired += 1;
            }
        }
    }

    pub(super) fn shutdown_due(&mut self, now: Instant) {
        let empty = self.tickets.is_empty();
        let Some(shutdown) = &mut self.shutdown else {
            return;
        };
        if shutdown
            .deadline
            .is_none_or(|deadline| now < deadline && !empty)
        {
            return;
        }
        shutdown.deadline = None;
        let (released, expired) = (shutdown.released, shutdown.expired);
        let releasing = |stage: &Stage| matches!(stage, Stage::Releasing(_));
        let releasing = self
            .tickets
            .values()
            .filter(|ticket| releasing(&ticket.stage))
            .count();
        self.signal(Signal::ShutDown(ShutdownReport {
            released,
            still_held: self.tickets.len() - releasing,
            unconfirmed: releasing + expired,
        }));
    }
}
