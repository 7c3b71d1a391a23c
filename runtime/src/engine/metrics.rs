//! Counts the outcomes of acquires, renewals and releases.
//!
//! The engine only increments counters, because a metrics recorder is the program's code and may
//! block. The [reporter thread](crate::base::reporter) passes the counts to the recorder a few
//! milliseconds later. Calls also count themselves by key template: see
//! [`observed`](crate::lock::take::observed).

mod times;

pub(super) use self::times::Times;
use super::core::signal::{Releases, Renewed, Signal};
use super::core::ticket::Removal;
use crate::base::reporter::meters::counts::{Count, add};

pub(super) fn count(signal: &Signal) {
    match signal {
        Signal::Granted { .. } => add(Count::Granted, 1),
        Signal::Failed(_, error) => add(Count::of(error), 1),
        Signal::Lost(_)
        | Signal::Released {
            removal: Removal::Gone,
            ..
        } => add(Count::Lost, 1),
        Signal::Settled(..)
        | Signal::Extended { .. }
        | Signal::Inherited { .. }
        | Signal::Recalled(..)
        | Signal::Forgotten(..)
        | Signal::Shared(_)
        | Signal::TakenAway(_)
        | Signal::Apart(_)
        | Signal::Released { .. }
        | Signal::ShutDown(..) => {}
    }
}

/// Counts the releases that have ended.
pub(super) fn released(releases: Releases) {
    let (confirmed, unconfirmed) = (releases.confirmed(), releases.unconfirmed());
    add(Count::Confirmed, confirmed);
    add(Count::Unconfirmed, unconfirmed);
}

/// Counts the renewals that have ended.
pub(super) fn renewed(renewed: Renewed) {
    add(Count::Renewed, renewed.kept);
    add(Count::RenewalLost, renewed.lost);
    add(Count::RenewalFailed, renewed.unknown);
}
