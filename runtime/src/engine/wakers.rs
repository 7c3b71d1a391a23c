//! Running the wakers of callers, which are code of the program.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::base::reporter;

/// Runs `notify`, which wakes tasks. Logs a panic of a waker instead of propagating it, so that
/// this thread continues.
pub(crate) fn guarded(notify: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(notify)).is_err() {
        reporter::log(|| tracing::error!("the waker of a task that uses a lock has panicked"));
    }
}
