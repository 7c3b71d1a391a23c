//! What has been counted, until the reporter thread hands it on to the program's recorder.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::error::LockError;

/// What can be counted.
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
}

const ALL: [Count; 10] = [
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
];

/// What has been counted and not been handed on.
static COUNTED: [AtomicU64; ALL.len()] = [const { AtomicU64::new(0) }; ALL.len()];

/// Whether the reporter thread looks for counts.
static LOOKED_FOR: AtomicBool = AtomicBool::new(false);

/// How often in a row the reporter thread has found nothing.
static FOUND_NOTHING: AtomicU64 = AtomicU64::new(0);

/// After so many such looks it sleeps until something is counted.
const LAST_LOOK: u64 = 20;

/// Counts once. Whether the reporter thread has to be asked to look: it hands counts on only after
/// it was asked, or is told by [`not_asked`] that it was not.
pub(crate) fn add(count: Count) -> bool {
    // Before the look at the flag: the reporter thread takes the flag back before its last look
    // here.
    COUNTED[count as usize].fetch_add(1, Ordering::SeqCst);
    !LOOKED_FOR.load(Ordering::SeqCst) && !LOOKED_FOR.swap(true, Ordering::SeqCst)
}

/// The reporter thread could not be asked. The next count asks again.
pub(crate) fn not_asked() {
    LOOKED_FOR.store(false, Ordering::SeqCst);
}

/// On the reporter thread: hands on what has been counted. Whether it is to look again soon.
pub(crate) fn tell_counts() -> bool {
    let found = ALL.into_iter().filter(|count| hand_on(*count)).count();
    if 0 < found {
        FOUND_NOTHING.store(0, Ordering::Relaxed);
    } else if LAST_LOOK <= FOUND_NOTHING.fetch_add(1, Ordering::Relaxed) {
        FOUND_NOTHING.store(0, Ordering::Relaxed);
        LOOKED_FOR.store(false, Ordering::SeqCst);
        // What is counted after this asks for a look. What came before it is seen here.
        let late = ALL.into_iter().filter(|count| hand_on(*count)).count();
        return 0 < late && !LOOKED_FOR.swap(true, Ordering::SeqCst);
    }
    true
}

/// Whether there was anything to hand on of it.
fn hand_on(count: Count) -> bool {
    let times = COUNTED[count as usize].swap(0, Ordering::SeqCst);
    if 0 < times {
        // A recorder that panics costs this count, and not the others.
        let _ = catch_unwind(AssertUnwindSafe(|| count.tell(times)));
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

    fn tell(self, times: u64) {
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
