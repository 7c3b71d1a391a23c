//! How long a key is seen that should be gone, and what a busy machine adds to that.

use std::time::{Duration, Instant};

use leasehold::__test::now;

use crate::lateness;
use crate::probe::Probe;

/// What a probe saw of a key.
pub(super) struct Sighting {
    /// How long after it was due the key was seen last: when the probe asked that found it.
    pub(super) last: Duration,
    /// Four times the longest of a thread's wake-up and an answer of the store meanwhile: a release
    /// is a chain of both. Next to nothing on an idle machine.
    pub(super) excuse: Duration,
}

impl Sighting {
    /// Watches the key every `pause` until `watch` has passed since `due` and the key is gone, or
    /// `most` has passed.
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
