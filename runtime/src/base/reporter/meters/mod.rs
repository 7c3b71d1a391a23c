//! Metrics: counts and durations, stored until the reporter thread passes them on to the program's
//! recorder.
//!
//! A recorder of the crate `metrics` is the program's code, and may block or panic. So callers and
//! engines never call the recorder. They increment atomics, which takes a few nanoseconds and never
//! blocks. The [reporter thread](super) reads the atomics every few milliseconds while calls are
//! made.
//!
//! - [`counts`] has counts of events: acquisitions, losses, releases, renewals.
//! - [`template`] has the meters of each key template.
//! - [`store`] has the meters of each store.
//! - [`times`] has counts of durations, in narrow buckets.

pub(crate) mod counts;
mod describe;
pub(crate) mod store;
pub(crate) mod template;
pub(crate) mod times;

use std::panic::{AssertUnwindSafe, catch_unwind};

pub(super) use self::counts::publish_counts;
use self::template::Meter;
use super::counts_changed;

/// Makes the reporter thread check the counts soon, because something was counted.
pub(crate) fn counted() {
    if counts::is_to_ask() && !counts_changed() {
        counts::not_asked();
    }
}

/// Passes on the counts and durations of all templates and stores since the last call. Runs on the
/// reporter thread. Returns true if there were any.
pub(super) fn publish() -> bool {
    let templates = Meter::all().filter(|meter| meter.publish()).count();
    store::publish() || 0 < templates
}

/// Reports the description of each metric and the current value of each gauge to the recorder. The
/// reporter thread repeats this, because a recorder may be installed late, or forget unchanged
/// values.
pub(super) fn publish_again() {
    guarded(describe::describe);
    counts::announce();
    Meter::all().for_each(Meter::publish_again);
    store::publish_again();
}

/// True if a pool is connected. Otherwise no value needs to be reported again.
pub(super) fn are_in_use() -> bool {
    store::are_in_use()
}

/// Runs `publish`, which calls the program's recorder. If the recorder panics, only this report is
/// lost.
fn guarded(publish: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(publish));
}
