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

use super::core::signal::{Releases, Signal};
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

/// Counts releases that are over.
pub(super) fn released(releases: Releases) {
    let (confirmed, unconfirmed) = (releases.confirmed(), releases.unconfirmed());
    #[cfg(feature = "metrics")]
    {
        (0..confirmed).for_each(|_| add(Count::Confirmed));
        (0..unconfirmed).for_each(|_| add(Count::Unconfirmed));
    }
    #[cfg(not(feature = "metrics"))]
    let _ = (confirmed, unconfirmed);
}
