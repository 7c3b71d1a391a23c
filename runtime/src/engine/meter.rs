//! Counts what happens, through the facade `metrics` (feature `metrics`); without the feature this is nothing.
//!
//! | metric | kind | labels |
//! |---|---|---|
//! | `leasehold_acquisitions_total` | counter | `outcome`: `granted`, `contended`, `timed_out`, `queue_full`, `unavailable`, `shutting_down`, `other` |
//! | `leasehold_leases_lost_total` | counter | |
//! | `leasehold_releases_total` | counter | `confirmed`: `true`, `false` |
//!
//! Keys are no labels: there are too many of them, and they can contain what nobody else should see.

use super::core::Signal;
#[cfg(feature = "metrics")]
use super::ticket::Removal;
#[cfg(feature = "metrics")]
use crate::LockError;

#[cfg(feature = "metrics")]
pub(super) fn count(signal: &Signal) {
    match signal {
        Signal::Granted { .. } => acquisition("granted"),
        Signal::Failed(_, error) => acquisition(outcome(error)),
        Signal::Lost(_)
        | Signal::Released {
            removal: Removal::Gone,
            ..
        } => metrics::counter!("leasehold_leases_lost_total").increment(1),
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
    {
        let confirmed = if confirmed { "true" } else { "false" };
        metrics::counter!("leasehold_releases_total", "confirmed" => confirmed).increment(1);
    }
    #[cfg(not(feature = "metrics"))]
    let _ = confirmed;
}

#[cfg(feature = "metrics")]
fn acquisition(outcome: &'static str) {
    metrics::counter!("leasehold_acquisitions_total", "outcome" => outcome).increment(1);
}

#[cfg(feature = "metrics")]
fn outcome(error: &LockError) -> &'static str {
    match error {
        LockError::Contended { .. } => "contended",
        LockError::TimedOut { .. } => "timed_out",
        LockError::QueueFull { .. } => "queue_full",
        LockError::Unavailable { .. } => "unavailable",
        LockError::ShuttingDown => "shutting_down",
        _ => "other",
    }
}
