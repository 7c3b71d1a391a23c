//! The delay with which this machine currently wakes threads. Tests add it to their time bounds.

use std::collections::VecDeque;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use leasehold::__test::now;

const STEP: Duration = Duration::from_millis(2);
/// Shortest recorded delay, in nanoseconds. Shorter delays are left out, to keep `delays` short.
const NOTABLE: u64 = 500_000;
const KEPT: usize = 100_000;

#[derive(Debug, Default)]
struct Seen {
    /// Time at which the watching thread last ran, in nanoseconds.
    last: u64,
    /// For each recorded delay, the time of its end and its length, in nanoseconds.
    delays: VecDeque<(u64, u64)>,
}

static SEEN: OnceLock<Mutex<Seen>> = OnceLock::new();

fn seen() -> &'static Mutex<Seen> {
    SEEN.get_or_init(|| {
        std::thread::spawn(watch);
        Mutex::new(Seen {
            last: now(),
            delays: VecDeque::new(),
        })
    })
}

/// Starts the thread that measures delays.
pub fn start() {
    seen();
}

/// Returns the longest delay of the watching thread since `from`. The thread only sleeps, so each
/// delay shows how late the machine wakes threads. `from` must be a timestamp of
/// `leasehold::__test::now` after [`start`].
pub fn worst_since(from: u64) -> Duration {
    let seen = seen().lock().unwrap_or_else(PoisonError::into_inner);
    let late = seen.delays.iter().rev().take_while(|(at, _)| *at >= from);
    // The thread may be late at this moment. Such a delay is not recorded yet, but counts, too.
    let present = late_after(seen.last);
    Duration::from_nanos(late.map(|(_, late)| *late).fold(present, u64::max))
}

/// The delay of a busy machine, which a test adds to a time limit. The test creates this value
/// before the measured time, and reads the delay after the measured time.
#[derive(Debug, Clone, Copy)]
pub struct Excuse {
    from: u64,
}

impl Excuse {
    /// Starts to observe delays.
    #[must_use]
    pub fn begin() -> Self {
        start();
        Self { from: now() }
    }

    /// The longest delay since the start.
    pub fn longest(self) -> Duration {
        worst_since(self.from)
    }

    /// Four times the longest delay since the start. In a call, threads of the client and the
    /// server wake each other in turn, and each may wake as late as the longest delay. On an idle
    /// machine the result is almost zero.
    pub fn so_far(self) -> Duration {
        self.longest() * 4
    }
}

fn late_after(last: u64) -> u64 {
    let step = u64::try_from(STEP.as_nanos()).unwrap_or(u64::MAX);
    (now() - last).saturating_sub(step)
}

fn watch() {
    loop {
        std::thread::sleep(STEP);
        let mut seen = seen().lock().unwrap_or_else(PoisonError::into_inner);
        let late = late_after(seen.last);
        seen.last = now();
        if late > NOTABLE {
            if seen.delays.len() == KEPT {
                seen.delays.pop_front();
            }
            let at = seen.last;
            seen.delays.push_back((at, late));
        }
    }
}
