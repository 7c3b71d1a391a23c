//! What a test kit learns of an engine; without the feature `testing`, no one is told.

#[cfg(feature = "testing")]
use std::sync::Arc;

use super::command::Command;
use crate::base::clock::Instant;
use crate::base::full_key::FullKey;
use crate::engine::core::signal::Signal;
use crate::store::LockStore;
#[cfg(feature = "testing")]
use crate::testing::Line;

/// The line of a test kit, if the engine's store belongs to one.
pub(super) struct Observer {
    #[cfg(feature = "testing")]
    line: Option<Arc<Line>>,
}

#[cfg(feature = "testing")]
impl Observer {
    pub(super) fn of(store: &dyn LockStore) -> Self {
        Self { line: store.line() }
    }

    /// The engine executes this command next.
    pub(super) fn command(&self, command: &Command, now: Instant) {
        if let Some(line) = &self.line {
            line.command(command, now);
        }
    }

    /// Keys that the store has lost since the last call.
    pub(super) fn lost_keys(&self) -> Vec<FullKey> {
        let line = self.line.as_ref();
        line.map(|line| line.take_lost_keys()).unwrap_or_default()
    }

    /// The engine tells a call this.
    pub(super) fn signal(&self, signal: &Signal, now: Instant) {
        if let Some(line) = &self.line {
            line.signal(signal, now);
        }
    }
}

#[cfg(not(feature = "testing"))]
#[expect(clippy::unused_self, reason = "there is nothing to tell")]
impl Observer {
    pub(super) fn of(_: &dyn LockStore) -> Self {
        Self {}
    }

    pub(super) fn command(&self, _: &Command, _: Instant) {}

    pub(super) fn lost_keys(&self) -> Vec<FullKey> {
        Vec::new()
    }

    pub(super) fn signal(&self, _: &Signal, _: Instant) {}
}
