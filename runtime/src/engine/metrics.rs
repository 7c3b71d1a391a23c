//! Counts outcomes through the facade `metrics`; without the feature `metrics`, counts nothing.
//!
//! | metric | kind | labels |
//! |---|---|---|
//! | `leasehold_acquisitions_total` | counter | `outcome`, see below |
//! | `leasehold_leases_lost_total` | counter | |
//! | `leasehold_releases_total` | counter | `confirmed`: `true`, `false` |
//!
//! `outcome` is `granted`, `contended`, `timed_out`, `queue_full`, `unavailable`, `shutting_down`
//! or `other`.
//!
//! Keys are no labels: there are too many of them, and a key can contain private data.
//!
//! The engine only adds to counts of its own, because a recorder is the program's code and may
//! block. The [reporter thread](crate::base::reporter) gives the counts to the recorder, a few
//! milliseconds later.

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

/// Counts a release that is over. It is unconfirmed if the lock was gone, or expired before the
/// store answered.
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
