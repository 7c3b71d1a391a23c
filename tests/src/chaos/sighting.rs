//! Measures for how long a key remains after it should be gone, and the delay that a busy machine
//! adds to this time.

use std::time::{Duration, Instant};

use leasehold::__test::now;

use crate::lateness;
use crate::probe::Probe;

/// A probe's observation of a key.
pub(super) struct Sighting {
    /// Time from `due`, when the key should be gone, to the start of the last check that found it.
    pub(super) last: Duration,
    /// Tolerance for a busy machine: four times the longest delay, either of a thread's wake-up or
    /// of the store's answer. A release needs several wake-ups and answers, one after the other. On
    /// an idle machine the tolerance is almost zero.
    pub(super) excuse: Duration,
}

impl Sighting {
    /// Checks the key every `pause`, until it is gone and `watch` has passed since `due`. A gone
    /// key is checked further, because a request on its way may lock it again. Stops in any case
    /// after `most`.
    pub(super) fn of(
        probe: &dyn Probe,
        key: &str,
        due: u64,
        [watch, most]: [Duration; 2],
        pause: Duration,
    ) -> Self {
        let (mut last, mut slowest) = (Duration::ZERO, Duration::ZERO);
        loop {
            let passed = Duration::from_nanos(now() - due);
            let asked = Instant::now();
            let there = probe.exists(key);
            slowest = slowest.max(asked.elapsed());
            if there {
                last = passed;
            }
            if (watch < passed && !there) || most < passed {
                break;
            }
            std::thread::sleep(pause);
        }
        let excuse = slowest.max(lateness::worst_since(due)) * 4;
        Self { last, excuse }
    }
}
