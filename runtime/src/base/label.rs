//! Labels: the template of a call's keys, which names the call in metrics, spans and the log.

use std::fmt;

#[cfg(feature = "metrics")]
use super::reporter::meters::template::{Meter, OTHER};

/// The label of a call whose template is not known.
#[cfg(not(feature = "metrics"))]
const OTHER: &str = "other";

/// The template of a call's keys, such as `order:<id>`. It contains no value of a key.
#[derive(Clone, Copy)]
pub(crate) struct Label {
    #[cfg(feature = "metrics")]
    meter: &'static Meter,
    #[cfg(not(feature = "metrics"))]
    template: &'static str,
}

impl Label {
    /// The label of all calls whose template is not known.
    pub(crate) fn other() -> Self {
        Self::of(OTHER)
    }

    #[cfg(feature = "metrics")]
    pub(crate) fn of(template: &'static str) -> Self {
        let meter = Meter::of(template);
        Self { meter }
    }

    #[cfg(not(feature = "metrics"))]
    pub(crate) fn of(template: &'static str) -> Self {
        Self { template }
    }

    #[cfg(feature = "metrics")]
    pub(crate) fn template(self) -> &'static str {
        self.meter.template()
    }

    #[cfg(not(feature = "metrics"))]
    pub(crate) fn template(self) -> &'static str {
        self.template
    }

    /// What is counted of the calls with this label.
    #[cfg(feature = "metrics")]
    pub(crate) fn meter(self) -> &'static Meter {
        self.meter
    }

    /// Counts a lost lease.
    #[cfg_attr(
        not(feature = "metrics"),
        expect(clippy::unused_self, reason = "nothing is counted")
    )]
    pub(crate) fn lost(self) {
        #[cfg(feature = "metrics")]
        self.meter.lost();
    }
}

impl fmt::Debug for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.template(), f)
    }
}
