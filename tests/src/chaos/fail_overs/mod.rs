//! Faults of a deployment with replicas, one after the other, chosen from a seed.

use std::time::Duration;

use super::crew::Crew;
use crate::random::Random;

mod cluster;
mod sentinel;

/// The longest random part of the pause between two faults. During a pause, calls take locks, and
/// the leases of lost locks end.
const PAUSE: Duration = Duration::from_secs(4);

/// The kinds of keys: for short and for long bodies. Each kind has a name and a number of keys.
pub(super) const KEYS: [(&str, u32); 2] = [("short", 20), ("long", 40)];

/// A deployment whose masters can be made to fail.
pub(super) trait Failing {
    /// Number of kinds of faults. Kind 0 is injected first, because this fault loses the most
    /// locks.
    const KINDS: u64;

    /// Starts the servers.
    fn start() -> Self;

    /// Returns the URL of the deployment, without options.
    fn url(&self) -> String;

    /// Injects a fault of this kind, and returns when the fault is over. Returns the number of
    /// times that another server became master.
    fn strike(&mut self, kind: u64, hazard: &mut Hazard<'_>) -> u64;
}

/// A source of random choices for faults, with the history that records the faults.
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

    fn wait_up_to(&mut self, most: Duration) {
        std::thread::sleep(self.random.duration(most));
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        let count = u64::try_from(all.len()).unwrap_or(u64::MAX);
        all[usize::try_from(self.random.below(count)).unwrap_or(0)]
    }

    /// Injects one fault after another while `goes_on` returns true. The argument of `goes_on` is
    /// the number of fail-overs so far. Returns the number of fail-overs after the last fault.
    pub(super) fn run<D: Failing>(
        &mut self,
        deployment: &mut D,
        mut goes_on: impl FnMut(u64) -> bool,
    ) -> u64 {
        let (mut next, mut count) = (0, 0);
        while goes_on(count) {
            std::thread::sleep(Duration::from_secs(1));
            self.wait_up_to(PAUSE);
            count += deployment.strike(next, self);
            next = self.random.below(D::KINDS);
        }
        count
    }
}
