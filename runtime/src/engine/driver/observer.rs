//! What a test kit learns of an engine; without the feature `testing`, no one is told.

#[cfg(feature = "testing")]
use std::panic::{RefUnwindSafe, UnwindSafe};
#[cfg(feature = "testing")]
use std::sync::Arc;

use super::command::Command;
use crate::base::clock::Instant;
use crate::base::full_key::FullKey;
use crate::engine::core::signal::Signal;
#[cfg(feature = "testing")]
use crate::engine::core::ticket::TicketId;

/// What a test kit is told of the calls of one pool.
#[cfg(feature = "testing")]
pub(crate) trait Watch: Send + Sync + UnwindSafe + RefUnwindSafe {
    /// The engine executes this command next.
    fn command(&self, command: &Command, now: Instant);

    /// The engine tells a call this.
    fn signal(&self, signal: &Signal, now: Instant);

    /// The keys that the store has lost since the last call.
    fn take_lost_keys(&self) -> Vec<FullKey>;

    /// The body of `ticket` has been polled so often. Returns whether its lock is to be taken away
    /// now: the store does that at its next poll.
    fn polled(&self, ticket: TicketId, polls: u32) -> bool;
}

/// The kit that watches the engine, if one does.
#[derive(Default)]
pub(super) struct Observer {
    #[cfg(feature = "testing")]
    watch: Option<Arc<dyn Watch>>,
}

#[cfg(feature = "testing")]
impl Observer {
    pub(super) fn watched_by(&mut self, watch: Arc<dyn Watch>) {
        self.watch = Some(watch);
    }

    /// The engine executes this command next.
    pub(super) fn command(&self, command: &Command, now: Instant) {
        if let Some(watch) = &self.watch {
            watch.command(command, now);
        }
    }

    /// Keys that the store has lost since the last call.
    pub(super) fn lost_keys(&self) -> Vec<FullKey> {
        let watch = self.watch.as_ref();
        watch
            .map(|watch| watch.take_lost_keys())
            .unwrap_or_default()
    }

    /// The engine tells a call this.
    pub(super) fn signal(&self, signal: &Signal, now: Instant) {
        if let Some(watch) = &self.watch {
            watch.signal(signal, now);
        }
    }
}

#[cfg(not(feature = "testing"))]
#[expect(clippy::unused_self, reason = "there is nothing to tell")]
impl Observer {
    pub(super) fn command(&self, _: &Command, _: Instant) {}

    pub(super) fn lost_keys(&self) -> Vec<FullKey> {
        Vec::new()
    }

    pub(super) fn signal(&self, _: &Signal, _: Instant) {}
}
