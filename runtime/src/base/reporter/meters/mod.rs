//! Metrics: counts and durations, kept until the reporter thread passes them on to the program's
//! recorder.
//!
//! A recorder of the crate `metrics` is the program's code: it may block, or panic. So callers and
//! engines never call the recorder. They add to atomics, which takes a few nanoseconds and never
//! waits. The [reporter thread](super) reads the atomics every few milliseconds while there is
//! traffic.
//!
//! - [`counts`] has events: acquisitions, losses, releases, renewals.
//! - [`template`] has the meters of each template of keys.
//! - [`store`] has the meters of each store.
//! - [`times`] counts durations in narrow buckets.

pub(crate) mod counts;
mod describe;
pub(crate) mod store;
pub(crate) mod template;
pub(crate) mod times;

use std::panic::{AssertUnwindSafe, catch_unwind};

pub(super) use self::counts::publish_counts;
use self::template::Meter;
use super::counts_changed;

/// Asks the reporter thread to look soon, because something was counted.
pub(crate) fn counted() {
    if counts::is_to_ask() && !counts_changed() {
        counts::not_asked();
    }
}

/// Passes on all counts and durations since the last call. Runs on the reporter thread. Returns
/// true if there were any.
pub(super) fn publish() -> bool {
    let templates = Meter::all().filter(|meter| meter.publish()).count();
    store::publish() || 0 < templates
}

/// Reports the description of each metric and the current value of each gauge to the recorder. Runs
/// on the reporter thread, now and then: a recorder may be installed late, or forget unchanged
/// values.
pub(super) fn publish_again() {
    guarded(describe::describe);
    counts::announce();
    Meter::all().for_each(Meter::publish_again);
    store::publish_again();
}

/// True if a pool is connected, so that there may be something to report again.
pub(super) fn are_in_use() -> bool {
    store::are_in_use()
}

/// Calls the program's recorder. If it panics, only the report in `publish` is lost.
fn guarded(publish: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(publish));
}
