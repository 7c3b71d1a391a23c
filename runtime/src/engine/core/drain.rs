//! A shutdown under way, and its report.

use crate::base::clock::Instant;

/// What a shutdown found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// Locks whose release the store confirmed during the shutdown.
    pub released: usize,
    /// Locks that their holders still held when the time was up. They are kept and renewed for as long as
    /// the process runs; when it ends they expire after their ttl.
    pub still_held: usize,
    /// Locks that were released or lost, which the store had not confirmed when the time was up; they expire after their
    /// ttl at the latest.
    pub unconfirmed: usize,
}

/// Shutdowns under way.
#[derive(Debug, Default)]
pub(super) struct Drain {
    /// The number of each shutdown that is not reported yet, and when it is at the latest.
    waiting: Vec<(u64, Instant)>,
    released: usize,
    expired: usize,
}

impl Drain {
    /// A further shutdown, which is reported at `limit` at the latest.
    pub(super) fn add(&mut self, number: u64, limit: Instant) {
        self.waiting.push((number, limit));
    }

    /// A release has come to its end: confirmed by the store, or not.
    pub(super) fn count_release(&mut self, confirmed: bool) {
        if confirmed {
            self.released += 1;
        } else {
            self.expired += 1;
        }
    }

    /// When the next shutdown is reported at the latest.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.waiting.iter().map(|(_, deadline)| *deadline).min()
    }

    /// The shutdowns that are over, to be reported now: all of them if nothing is left to release.
    pub(super) fn take_over(&mut self, nothing_left: bool, now: Instant) -> Vec<u64> {
        let over = |(_, deadline): &mut (u64, Instant)| nothing_left || *deadline <= now;
        let over = self.waiting.extract_if(.., over);
        over.map(|(number, _)| number).collect()
    }

    /// What there is to report while so many locks are held, and so many are on their way out.
    pub(super) fn report(&self, still_held: usize, leaving: usize) -> ShutdownReport {
        ShutdownReport {
            released: self.released,
            still_held,
            unconfirmed: leaving + self.expired,
        }
    }
}
