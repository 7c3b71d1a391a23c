//! How late this machine wakes a thread just now. Tests add it to their bounds on delays.

use std::collections::VecDeque;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use leasehold::__test::now;

const STEP: Duration = Duration::from_millis(2);
/// Shorter delays are not recorded.
const NOTABLE: u64 = 500_000;
const KEPT: usize = 100_000;

#[derive(Debug, Default)]
struct Seen {
    /// When the watching thread ran last.
    last: u64,
    /// When it was late, and by how much.
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

/// Starts watching.
pub fn start() {
    seen();
}

/// The longest delay of the watching thread, which only sleeps, since `from`: a stamp of
/// `leasehold::__test::now` after the [`start`].
pub fn worst_since(from: u64) -> Duration {
    let seen = seen().lock().unwrap_or_else(PoisonError::into_inner);
    let late = seen.delays.iter().rev().take_while(|(at, _)| *at >= from);
    // The thread may be late just now.
    let present = late_after(seen.last);
    Duration::from_nanos(late.map(|(_, late)| *late).fold(present, u64::max))
}

/// What a busy machine may add to a bound. A test begins it at its start and asks at its end.
#[derive(Debug, Clone, Copy)]
pub struct Excuse {
    from: u64,
}

impl Excuse {
    /// From now on.
    #[must_use]
    pub fn begin() -> Self {
        start();
        Self { from: now() }
    }

    /// The longest delay since.
    pub fn longest(self) -> Duration {
        worst_since(self.from)
    }

    /// Four times the longest delay since. A call is a chain of threads that wake each other, the
    /// server's included, and each of them may be that late. Next to nothing on an idle machine.
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
