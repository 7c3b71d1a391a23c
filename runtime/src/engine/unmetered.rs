//! Replaces [`metrics`](super::metrics) if the feature `metrics` is off: nothing is counted or
//! timed.
#![expect(clippy::unused_self, reason = "nothing is counted")]

use super::core::signal::{Releases, Renewed, Signal};
use crate::base::clock::Instant;
use crate::store::{OpId, Request};

pub(super) fn count(_: &Signal) {}

pub(super) fn released(releases: Releases) {
    let _ = (releases.confirmed(), releases.unconfirmed());
}

pub(super) fn renewed(_: Renewed) {}

/// Measures nothing.
pub(super) struct Times;

impl Times {
    pub(super) fn of(_store: &str) -> Self {
        Self
    }

    pub(super) fn is_away(&mut self, _away: bool) {}

    pub(super) fn sends(&mut self, _: &[Request], _: Instant) {}

    pub(super) fn answered(&mut self, _: OpId, _: Instant, _: bool) {}
}
