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

    /// Acquires or adopts a lock. Refuses a call that tries once, if the store is away.
    pub(super) fn acquire(
        &mut self,
        id: TicketId,
        acquire: Acquire,
        adoption: Option<Adoption>,
        now: Instant,
    ) {
        match (self.absence(&acquire), adoption) {
            (Some(error), Some(_)) => self.core.refuse_adoption(id, error),
            (Some(error), None) => self.core.refuse_absent(id, &acquire, error, now),
            (None, Some(adoption)) => self.core.adopt(id, acquire, adoption, now),
            (None, None) => self.core.acquire(id, acquire, now),
        }
    }

    /// Acquires the locks of one call with one request. If the store is away for one of the keys,
    /// refuses the call. A call that can wait is instead asked to acquire its locks individually.
    pub(super) fn acquire_each(
        &mut self,
        acquires: Vec<(TicketId, Acquire)>,
        wait: Duration,
        now: Instant,
    ) {
        // Each of the `acquires` tries once, because only `wait` has the waiting time of the call.
        // So `absence` checks all of them, even if the call can wait.
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

    /// Ends the pending calls that try once, if the store has gone away. A store of several servers
    /// may have gone away only for some keys.
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
