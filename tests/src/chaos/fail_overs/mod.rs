//! Faults of a deployment whose masters have replicas: one after the other, from a seed.

use std::time::{Duration, Instant};

use super::crew::Crew;
use crate::random::Random;

mod cluster;
mod sentinel;

/// At most so long between two faults: locks are taken and lost leases end.
const PAUSE: Duration = Duration::from_secs(4);

/// Masters that can be made to fail.
pub(super) trait Failing {
    /// How many kinds of faults there are. Kind 0 is the one that loses most.
    const KINDS: u64;

    /// Starts the servers.
    fn start() -> Self;

    /// What a pool connects to, without options.
    fn url(&self) -> String;

    /// One fault, which is over when this returns; how many times it gave another master.
    fn strike(&mut self, kind: u64, hazard: &mut Hazard<'_>) -> u64;
}

/// Where faults are noted, and how long they last.
pub(super) struct Hazard<'a> {
    crew: &'a Crew,
    random: Random,
}

impl<'a> Hazard<'a> {
    pub(super) fn new(crew: &'a Crew, random: Random) -> Self {
        Self { crew, random }
    }

    fn fault(&self, kind: &str) {
        self.crew.fault(kind);
    }

    /// Lets things be for a while.
    fn wait_up_to(&mut self, most: Duration) {
        std::thread::sleep(self.random.duration(most));
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        let count = u64::try_from(all.len()).unwrap_or(u64::MAX);
        all[usize::try_from(self.random.below(count)).unwrap_or(0)]
    }

    /// One fault after the other for `time`; the last is over when this returns. How many times there was another master.
    pub(super) fn run<D: Failing>(&mut self, deployment: &mut D, time: Duration) -> u64 {
        let started = Instant::now();
        let (mut next, mut count) = (0, 0);
        while started.elapsed() < time {
            std::thread::sleep(Duration::from_secs(1));
            self.wait_up_to(PAUSE);
            count += deployment.strike(next, self);
            next = self.random.below(D::KINDS);
        }
        count
    }
}
