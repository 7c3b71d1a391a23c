//! Comparison of a thread's nice value with that of the keeper.
//!
//! A high nice value means a low priority: the thread may wait seconds for a processor while other
//! threads are busy. If it had the engine's mutex during this time, no thread could renew a lease.
//! So a thread with a higher nice value than the keeper never takes that mutex: see [`deferred`].
//!
//! [`deferred`]: super::deferred

use std::sync::atomic::{AtomicI32, Ordering};

/// The nice value of the keeper's thread.
pub(super) struct KeptPriority(AtomicI32);

/// Value of [`KeptPriority`] if the keeper has no dedicated thread, or if the nice value of its
/// thread is unknown.
const NONE: i32 = i32::MAX;

thread_local! {
    /// The nice value of the current thread when it first used a pool.
    static NICE: Option<i32> = nice();
}

impl Default for KeptPriority {
    fn default() -> Self {
        Self(AtomicI32::new(NONE))
    }
}

impl KeptPriority {
    /// Records the nice value of the current thread as that of the keeper.
    pub(super) fn is_of_this_thread(&self) {
        self.0.store(nice().unwrap_or(NONE), Ordering::Relaxed);
    }

    /// True if the current thread has a higher nice value than the keeper. Always false on systems
    /// other than Linux.
    pub(super) fn outranks_this_thread(&self) -> bool {
        let kept = self.0.load(Ordering::Relaxed);
        let nice = NICE.try_with(|nice| *nice).ok().flatten();
        kept != NONE && nice.is_some_and(|nice| kept < nice)
    }
}

/// Returns the nice value of the current thread. Returns none on systems other than Linux: there, a
/// nice value applies to the whole process.
fn nice() -> Option<i32> {
    #[cfg(target_os = "linux")]
    return rustix::process::getpriority_process(None).ok();
    #[cfg(not(target_os = "linux"))]
    None
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_keeper_has_priority_over_later_threads() {
        let here = nice().expect("Linux knows it");
        for (kept, outranks) in [(here - 1, true), (here, false), (NONE, false)] {
            let kept = KeptPriority(AtomicI32::new(kept));
            assert_eq!(kept.outranks_this_thread(), outranks);
        }
        let kept = KeptPriority::default();
        kept.is_of_this_thread();
        assert_eq!(kept.0.into_inner(), here);
    }
}
