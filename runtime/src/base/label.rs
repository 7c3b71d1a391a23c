//! Labels. A label is the template of a call's keys, which identifies the call in metrics, spans
//! and the log.

use std::fmt;

use super::reporter::meters::template::{Handle, Meter, OTHER};

/// A label: the template of a call's keys, such as `order:<id>`. It does not contain the values
/// that the call inserts for the placeholders.
#[derive(Clone, Copy)]
pub(crate) struct Label {
    meter: Handle,
}

impl Label {
    /// Returns the label of all calls without a known template.
    pub(crate) fn other() -> Self {
        Self::of(OTHER)
    }

    pub(crate) fn of(template: &'static str) -> Self {
        let meter = Meter::of(template);
        Self { meter }
    }

    pub(crate) fn template(self) -> &'static str {
        self.meter.template()
    }

    /// Returns the counters of the calls with this label.
    pub(crate) fn meter(self) -> Handle {
        self.meter
    }

    /// Counts a lost lease.
    pub(crate) fn lost(self) {
        self.meter.lost();
    }
}

impl fmt::Debug for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.template(), f)
    }
}
