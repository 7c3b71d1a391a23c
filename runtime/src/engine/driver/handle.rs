//! A pool's handle to the engine.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::runtime::Handle;

use super::command::Command;
use super::listener;
use super::observer::Watch;
use super::shared::Shared;
use crate::base::clock::Clock;
use crate::base::full_key::FullKey;
use crate::engine::core::ticket::TicketId;
use crate::engine::lease_cell::LeaseCell;
use crate::error::LockError;

/// A pool's handle to the engine. The engine ends when the handle is dropped and all locks are
/// released.
pub(crate) struct Engine {
    pub(super) shared: Arc<Shared>,
    clock: Clock,
    verifies: bool,
    last_ticket: AtomicU64,
}

impl Engine {
    pub(super) fn new(shared: Arc<Shared>, clock: Clock, verifies: bool) -> Self {
        Self {
            shared,
            clock,
            verifies,
            last_ticket: AtomicU64::new(1),
        }
    }

    /// Sets the test kit that observes the engine. Must be called before the first command, because
    /// it takes the engine's mutex even on a low-priority thread. Later, such a thread could delay
    /// the renewals of held locks.
    pub(crate) fn watched_by(&self, watch: Arc<dyn Watch>) {
        self.shared.watched_by(watch);
    }

    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    /// Creates the lease cell of a new call for `key`.
    pub(crate) fn new_cell(&self, key: &FullKey) -> Arc<LeaseCell> {
        LeaseCell::new(key.clone(), self.clock, self.verifies)
    }

    /// True if the engine no longer executes commands.
    pub(crate) fn has_stopped(&self) -> bool {
        self.shared.has_stopped()
    }

    pub(crate) fn next_ticket(&self) -> TicketId {
        TicketId(self.last_ticket.fetch_add(1, Ordering::Relaxed))
    }

    /// Executes a command on this thread, and starts missing listeners on the current runtime. If
    /// this thread has a lower priority than the keeper, only leaves the command to the keeper.
    pub(crate) fn send(&self, command: Command) -> Result<(), LockError> {
        let shared = &self.shared;
        if shared.is_outranked() {
            return shared.defer(command);
        }
        let runtime = || Handle::try_current().ok();
        if let Some((runtime, listeners)) = shared.execute(command, runtime)? {
            for (id, socket) in listeners {
                runtime.spawn(listener::listen(shared, id, &socket));
            }
        }
        Ok(())
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // An error means that the engine has already stopped.
        let _ = self.send(Command::Close);
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
}
