//! Reports of an engine to a test kit.

use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

use super::command::Command;
use crate::base::clock::Instant;
use crate::base::full_key::FullKey;
use crate::engine::core::signal::Signal;
use crate::engine::core::ticket::TicketId;

/// Receives reports on the calls of one pool, for a test kit.
pub(crate) trait Watch: Send + Sync + UnwindSafe + RefUnwindSafe {
    /// Reports the command that the engine executes next.
    fn command(&self, command: &Command, now: Instant);

    /// Reports a signal of the engine to a call.
    fn signal(&self, signal: &Signal, now: Instant);

    /// Returns the keys that the store has lost since the last call.
    fn take_lost_keys(&self) -> Vec<FullKey>;

    /// Reports that the body of `ticket` has been polled `polls` times. Returns true if its lock
    /// should be taken away now. The store does that at its next poll.
    fn polled(&self, ticket: TicketId, polls: u32) -> bool;
}

/// The test kit that watches the engine, if any.
#[derive(Default)]
pub(super) struct Observer {
    watch: Option<Arc<dyn Watch>>,
}

impl Observer {
    pub(super) fn watched_by(&mut self, watch: Arc<dyn Watch>) {
        self.watch = Some(watch);
    }

    /// Reports the command that the engine executes next.
    pub(super) fn command(&self, command: &Command, now: Instant) {
        if let Some(watch) = &self.watch {
            watch.command(command, now);
        }
    }

    /// Returns the keys that the store has lost since the last call.
    pub(super) fn lost_keys(&self) -> Vec<FullKey> {
        let watch = self.watch.as_ref();
        watch
            .map(|watch| watch.take_lost_keys())
            .unwrap_or_default()
    }

    /// Reports a signal of the engine to a call.
    pub(super) fn signal(&self, signal: &Signal, now: Instant) {
        if let Some(watch) = &self.watch {
            watch.signal(signal, now);
        }
    }
}
