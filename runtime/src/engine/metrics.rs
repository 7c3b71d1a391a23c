//! Counts outcomes; without the feature `metrics`, counts nothing.
//!
//! The engine only adds to counts of its own, because a recorder is the program's code and may
//! block. The [reporter thread](crate::base::reporter) gives the counts to the recorder, a few
//! milliseconds later. What is counted of each call, and by its template, the call counts itself:
//! see [`observed`](crate::lock::observed).

use super::core::signal::{Releases, Renewed, Signal};
#[cfg(feature = "metrics")]
use super::core::ticket::Removal;
#[cfg(feature = "metrics")]
use crate::base::reporter::meters::counts::{Count, add};

#[cfg(feature = "metrics")]
pub(super) fn count(signal: &Signal) {
    match signal {
        Signal::Granted { .. } => add(Count::Granted, 1),
        Signal::Failed(_, error) => add(Count::of(error), 1),
        Signal::Lost(_)
        | Signal::Released {
            removal: Removal::Gone,
            ..
        } => add(Count::Lost, 1),
        Signal::Extended { .. }
        | Signal::Inherited { .. }
        | Signal::Recalled(..)
        | Signal::Forgotten(..)
        | Signal::Shared(_)
        | Signal::Apart(_)
        | Signal::Released { .. }
        | Signal::ShutDown(..) => {}
    }
}

/// Counts releases that are over.
pub(super) fn released(releases: Releases) {
    let (confirmed, unconfirmed) = (releases.confirmed(), releases.unconfirmed());
    #[cfg(feature = "metrics")]
    {
        add(Count::Confirmed, confirmed);
        add(Count::Unconfirmed, unconfirmed);
    }
    #[cfg(not(feature = "metrics"))]
    let _ = (confirmed, unconfirmed);
}

/// Counts renewals that are over.
#[cfg(feature = "metrics")]
pub(super) fn renewed(renewed: Renewed) {
    add(Count::Renewed, renewed.kept);
    add(Count::RenewalLost, renewed.lost);
    add(Count::RenewalFailed, renewed.unknown);
}

#[cfg(not(feature = "metrics"))]
pub(super) fn count(_: &Signal) {}

#[cfg(not(feature = "metrics"))]
pub(super) fn renewed(_: Renewed) {}
