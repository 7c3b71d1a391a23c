//! Counts what happens, through the facade `metrics` (feature `metrics`); without the feature this is nothing.
//!
//! | metric | kind | labels |
//! |---|---|---|
//! | `leasehold_acquisitions_total` | counter | `outcome`: `granted`, `contended`, `timed_out`, `queue_full`, `unavailable`, `shutting_down`, `other` |
//! | `leasehold_leases_lost_total` | counter | |
//! | `leasehold_releases_total` | counter | `confirmed`: `true`, `false` |
//!
//! Keys are no labels: there are too many of them, and they can contain what must not be public.
//!
//! A recorder is the program's code and may block, so the engine only adds to numbers of its own. The
//! [reporter thread](crate::base::reporter) hands them on, a few milliseconds later.

use super::core::signal::Signal;
#[cfg(feature = "metrics")]
use super::core::ticket::Removal;
#[cfg(feature = "metrics")]
use crate::base::counts::{self, Count};
#[cfg(feature = "metrics")]
use crate::base::reporter;

#[cfg(feature = "metrics")]
fn add(count: Count) {
    if counts::add(count) && !reporter::counts_changed() {
        counts::not_asked();
    }
}

#[cfg(feature = "metrics")]
pub(super) fn count(signal: &Signal) {
    match signal {
        Signal::Granted { .. } => add(Count::Granted),
        Signal::Failed(_, error) => add(Count::of(error)),
        Signal::Lost(_)
        | Signal::Released {
            removal: Removal::Gone,
            ..
        } => add(Count::Lost),
        Signal::Extended { .. }
        | Signal::Shared(_)
        | Signal::Apart(_)
        | Signal::Released { .. }
        | Signal::ShutDown(..) => {}
    }
}

#[cfg(not(feature = "metrics"))]
pub(super) fn count(_: &Signal) {}

/// A release came to its end: confirmed by the store, or not, as the lock was gone or has expired
/// before an answer came.
pub(super) fn released(confirmed: bool) {
    #[cfg(feature = "metrics")]
    add(if confirmed {
        Count::Confirmed
    } else {
        Count::Unconfirmed
    });
    #[cfg(not(feature = "metrics"))]
    let _ = confirmed;
}
