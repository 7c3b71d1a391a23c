//! How late a thread is woken on this machine just now: what delays are judged against.

use std::collections::VecDeque;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use leasehold::__test::now;

const STEP: Duration = Duration::from_millis(2);
/// Delays below this are no news.
const NOTABLE: u64 = 500_000;
const KEPT: usize = 100_000;

static SEEN: OnceLock<Mutex<VecDeque<(u64, u64)>>> = OnceLock::new();

fn seen() -> &'static Mutex<VecDeque<(u64, u64)>> {
    SEEN.get_or_init(|| {
        std::thread::spawn(watch);
        Mutex::default()
    })
}

/// Starts watching.
pub(super) fn start() {
    seen();
}

/// The longest delay that a thread which only sleeps has met since `from`, which is some time ago.
pub(super) fn worst_since(from: u64) -> Duration {
    let seen = seen().lock().unwrap_or_else(PoisonError::into_inner);
    let delays = seen.iter().rev().take_while(|(at, _)| *at >= from);
    Duration::from_nanos(delays.map(|(_, late)| *late).max().unwrap_or(0))
}

fn watch() {
    let mut before = now();
    loop {
        std::thread::sleep(STEP);
        let after = now();
        let late = (after - before).saturating_sub(super::body::nanos(STEP));
        if late > NOTABLE {
            let mut seen = seen().lock().unwrap_or_else(PoisonError::into_inner);
            if seen.len() == KEPT {
                seen.pop_front();
            }
            seen.push_back((after, late));
        }
        before = after;
    }
}
