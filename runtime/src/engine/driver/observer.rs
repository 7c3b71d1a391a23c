//! The interface through which a test kit observes an engine.

use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

use super::command::Command;
use crate::base::clock::Instant;
use crate::base::full_key::FullKey;
use crate::engine::core::signal::Signal;
use crate::engine::core::ticket::TicketId;

/// Observes the calls of one pool. Implemented by a test kit.
pub(crate) trait Watch: Send + Sync + UnwindSafe + RefUnwindSafe {
    /// Called before the engine executes `command`.
    fn command(&self, command: &Command, now: Instant);

    /// Called before `signal` is applied to its call.
    fn signal(&self, signal: &Signal, now: Instant);

    /// Returns the keys that the kit's store has lost since this method was last called.
    fn take_lost_keys(&self) -> Vec<FullKey>;

    /// Called before the first poll of a body, and after each pending poll. Also called after the
    /// last poll of a blocking body or a leader's body, whose value is dropped if the lock is lost
    /// by then. `polls` is the number of polls so far. Returns true if the kit's store must take
    /// the lock away. The store does so when the engine next polls it.
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

    /// Reports the command that the engine executes next, if a test kit observes the engine.
    pub(super) fn command(&self, command: &Command, now: Instant) {
        if let Some(watch) = &self.watch {
            watch.command(command, now);
        }
    }

    /// Returns the keys that the kit's store has lost; empty without a test kit.
    pub(super) fn lost_keys(&self) -> Vec<FullKey> {
        let watch = self.watch.as_ref();
        watch
            .map(|watch| watch.take_lost_keys())
            .unwrap_or_default()
    }

    /// Reports a signal before it is applied, if a test kit observes the engine.
    pub(super) fn signal(&self, signal: &Signal, now: Instant) {
        if let Some(watch) = &self.watch {
            watch.signal(signal, now);
        }
    }
}
