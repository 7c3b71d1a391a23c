//! Metrics: what is counted and timed, until the reporter thread hands it to the program's
//! recorder.
//!
//! A recorder of the crate `metrics` is the program's code: it may block, or panic. So no caller
//! and no engine calls it. They add to atomics, which takes a few nanoseconds and never waits. The
//! [reporter thread](super) looks at these every few milliseconds while there is traffic.
//!
//! - [`counts`] has events: acquisitions, losses, releases, renewals.
//! - [`template`] has what is told of each template of keys.
//! - [`store`] has what is told of each store.
//! - [`times`] counts durations in narrow buckets.

pub(crate) mod counts;
mod describe;
pub(crate) mod store;
pub(crate) mod template;
pub(crate) mod times;

use std::panic::{AssertUnwindSafe, catch_unwind};

use self::template::Meter;
use super::counts_changed;

/// Something was counted: asks the reporter thread to look soon.
pub(crate) fn counted() {
    if counts::is_to_ask() && !counts_changed() {
        counts::not_asked();
    }
}

/// Hands on what has been counted and timed since the last call. Runs on the reporter thread.
/// Returns whether there was anything.
pub(super) fn tell() -> bool {
    let templates = Meter::all().filter(|meter| meter.tell()).count();
    store::tell() || 0 < templates
}

/// Tells the recorder what each metric means, and the present value of each gauge. Runs on the
/// reporter thread, now and then: a recorder may be installed late, or forget values that stay.
pub(super) fn tell_again() {
    guarded(describe::describe);
    counts::announce();
    Meter::all().for_each(Meter::tell_again);
    store::tell_again();
}

/// Whether a pool is connected, so that there may be something to tell again.
pub(super) fn are_in_use() -> bool {
    store::are_in_use()
}

/// Calls the program's recorder. If it panics, only what `tell` tells is lost.
fn guarded(tell: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(tell));
}
