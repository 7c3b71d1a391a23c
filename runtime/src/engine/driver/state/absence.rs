//! Calls that try once while the store is away.

use std::time::Duration;

use super::EngineState;
use crate::base::clock::Instant;
use crate::base::seeded::seeded;
use crate::engine::core::ticket::{Acquire, Adoption, TicketId};
use crate::error::LockError;

impl EngineState {
    /// Returns the error of a call that tries once, if the store is away. Without this, the call
    /// would end only after the `io_timeout`.
    fn absence(&self, acquire: &Acquire) -> Option<LockError> {
        if acquire.waits() || seeded!(AbsenceIgnored) {
            return None;
        }
        self.store.absence(&acquire.key)
    }

    /// Takes or adopts a lock, unless the call tries once and the store is away.
    pub(super) fn acquire(
        &mut self,
        id: TicketId,
        acquire: Acquire,
        adoption: Option<Adoption>,
        now: Instant,
    ) {
        match (self.absence(&acquire), adoption) {
            (Some(error), _) => self.core.refuse_absent(id, &acquire, error, now),
            (None, Some(adoption)) => self.core.adopt(id, acquire, adoption, now),
            (None, None) => self.core.acquire(id, acquire, now),
        }
    }

    /// Takes the locks of one call with one request, unless the store is away for one of the keys.
    pub(super) fn acquire_each(
        &mut self,
        acquires: Vec<(TicketId, Acquire)>,
        wait: Duration,
        now: Instant,
    ) {
        // Each acquire in `acquires` tries once, even if the call waits.
        let absence = acquires
            .iter()
            .find_map(|(_, acquire)| self.absence(acquire));
        let Some(absence) = absence else {
            return self.core.acquire_all(acquires, wait, now);
        };
        for (id, acquire) in acquires {
            if wait.is_zero() {
                let error = absence.clone();
                self.core.refuse_absent(id, &acquire, error, now);
            } else {
                self.core.part_absent(id);
            }
        }
    }

    /// Ends the calls that try once and need a part of the store that has gone away.
    pub(super) fn gone_away(&mut self, now: Instant) {
        if seeded!(AbsenceIgnored) {
            return;
        }
        for (id, key) in self.core.single_tries() {
            if let Some(error) = self.store.absence(&key) {
                self.core.end_absent(id, error, now);
            }
        }
    }
}
