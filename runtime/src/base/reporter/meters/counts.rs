//! Counts of events, stored until the reporter thread passes them on to the program's recorder.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::{counted, publish};
use crate::error::LockError;

#[derive(Clone, Copy)]
pub(crate) enum Count {
    Granted,
    Contended,
    TimedOut,
    QueueFull,
    Unavailable,
    ShuttingDown,
    OtherError,
    Lost,
    Confirmed,
    Unconfirmed,
    Renewed,
    RenewalLost,
    RenewalFailed,
}

const ALL: [Count; 13] = [
    Count::Granted,
    Count::Contended,
    Count::TimedOut,
    Count::QueueFull,
    Count::Unavailable,
    Count::ShuttingDown,
    Count::OtherError,
    Count::Lost,
    Count::Confirmed,
    Count::Unconfirmed,
    Count::Renewed,
    Count::RenewalLost,
    Count::RenewalFailed,
];

/// Counts that the reporter thread has not passed on yet.
static COUNTED: [AtomicU64; ALL.len()] = [const { AtomicU64::new(0) }; ALL.len()];

/// True if the reporter thread checks the counts at intervals.
static LOOKED_FOR: AtomicBool = AtomicBool::new(false);

/// Number of consecutive checks that found no counts.
static FOUND_NOTHING: AtomicU64 = AtomicU64::new(0);

/// Number of consecutive checks without counts after which the reporter thread sleeps until the
/// next count.
const LAST_LOOK: u64 = 20;

/// Counts `times` events.
pub(crate) fn add(count: Count, times: usize) {
    if 0 < times {
        COUNTED[count as usize].fetch_add(times as u64, Ordering::SeqCst);
        counted();
    }
}

/// True if the caller, which has counted something, must now notify the reporter thread. If the
/// notification fails, the caller must call [`not_asked`]. Otherwise all other callers would rely
/// on the failed notification, and counts would no longer be passed on.
pub(crate) fn is_to_ask() -> bool {
    // The caller counts before it reads `LOOKED_FOR`. The reporter thread clears this flag before
    // its last check, after which it sleeps. So either that check finds the count, or the caller
    // notifies the thread.
    !LOOKED_FOR.load(Ordering::SeqCst) && !LOOKED_FOR.swap(true, Ordering::SeqCst)
}

/// Records that the caller could not notify the reporter thread. The next caller that counts
/// something tries again.
pub(crate) fn not_asked() {
    LOOKED_FOR.store(false, Ordering::SeqCst);
}

/// Passes all counts on. Runs on the reporter thread. Returns true if the thread must check again
/// soon.
pub(crate) fn publish_counts() -> bool {
    if hand_all_on() {
        FOUND_NOTHING.store(0, Ordering::Relaxed);
    } else if LAST_LOOK <= FOUND_NOTHING.fetch_add(1, Ordering::Relaxed) {
        FOUND_NOTHING.store(0, Ordering::Relaxed);
        LOOKED_FOR.store(false, Ordering::SeqCst);
        // From now on, a caller that counts something finds `LOOKED_FOR` cleared, and notifies this
        // thread. This last check finds all earlier counts.
        return hand_all_on() && !LOOKED_FOR.swap(true, Ordering::SeqCst);
    }
    true
}

/// Registers all counters with the value zero. Otherwise the first event would create the counter
/// with the value one, and an alert would not see an increase. Runs on the reporter thread.
pub(super) fn announce() {
    for count in ALL {
        let _ = catch_unwind(AssertUnwindSafe(|| count.publish(0)));
    }
}

/// Passes on all counts, also those of templates and stores. Returns true if there were any.
fn hand_all_on() -> bool {
    let counts = ALL.into_iter().filter(|count| hand_on(*count)).count();
    publish() || 0 < counts
}

/// Passes on the count of one event. Returns true if the count is not zero.
fn hand_on(count: Count) -> bool {
    let times = COUNTED[count as usize].swap(0, Ordering::SeqCst);
    if 0 < times {
        // If the recorder panics, only this count is lost.
        let _ = catch_unwind(AssertUnwindSafe(|| count.publish(times)));
    }
    0 < times
}

impl Count {
    pub(crate) fn of(error: &LockError) -> Self {
        match error {
            LockError::Contended { .. } => Self::Contended,
            LockError::TimedOut { .. } => Self::TimedOut,
            LockError::QueueFull { .. } => Self::QueueFull,
            LockError::Unavailable { .. } => Self::Unavailable,
            LockError::ShuttingDown => Self::ShuttingDown,
            _ => Self::OtherError,
        }
    }

    fn publish(self, times: u64) {
        let counter = match self {
            Self::Granted => acquisitions("granted"),
            Self::Contended => acquisitions("contended"),
            Self::TimedOut => acquisitions("timed_out"),
            Self::QueueFull => acquisitions("queue_full"),
            Self::Unavailable => acquisitions("unavailable"),
            Self::ShuttingDown => acquisitions("shutting_down"),
            Self::OtherError => acquisitions("other"),
            Self::Lost => metrics::counter!("leasehold_leases_lost_total"),
            Self::Confirmed => releases("true"),
            Self::Unconfirmed => releases("false"),
            Self::Renewed => renewals("renewed"),
            Self::RenewalLost => renewals("lost"),
            Self::RenewalFailed => renewals("failed"),
        };
        counter.increment(times);
    }
}

fn acquisitions(outcome: &'static str) -> metrics::Counter {
    metrics::counter!("leasehold_acquisitions_total", "outcome" => outcome)
}

fn releases(confirmed: &'static str) -> metrics::Counter {
    metrics::counter!("leasehold_releases_total", "confirmed" => confirmed)
}

fn renewals(outcome: &'static str) -> metrics::Counter {
    metrics::counter!("leasehold_renewals_total", "outcome" => outcome)
}
