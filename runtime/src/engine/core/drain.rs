//! A shutdown under way, and its report.

use crate::base::clock::Instant;

/// The outcome of a shutdown.
///
/// ```
/// # use std::time::Duration;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::LockError> {
/// # let pool = leasehold::LockPool::connect("memory://").await?;
/// # let ttl = Duration::from_secs(10);
/// let guard = pool.lock("order:42").ttl(ttl).acquire().await?;
/// let report = pool.shutdown(Duration::from_millis(10)).await;
/// assert_eq!((report.released, report.still_held, report.unconfirmed), (0, 1, 0));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// Locks whose release the store confirmed during the shutdown.
    pub released: usize,
    /// Locks still held by their holders when the time was up. Their watchdogs continue to renew
    /// them. When the process ends, they expire after their ttl.
    pub still_held: usize,
    /// Locks that the store no longer had at their release. Also released, lost or abandoned locks
    /// whose removal the store had not confirmed when they expired or the time was up. These expire
    /// after their ttl at the latest.
    pub unconfirmed: usize,
}

/// Shutdowns under way, and the releases since the first shutdown of the pool began.
#[derive(Debug, Default)]
pub(super) struct Drain {
    /// The number and the time limit of each unreported shutdown.
    waiting: Vec<(u64, Instant)>,
    released: usize,
    expired: usize,
}

impl Drain {
    /// Adds a shutdown. It is reported at `limit` at the latest.
    pub(super) fn add(&mut self, number: u64, limit: Instant) {
        self.waiting.push((number, limit));
    }

    /// Counts an ended release, confirmed by the store or not.
    pub(super) fn count_release(&mut self, confirmed: bool) {
        if confirmed {
            self.released += 1;
        } else {
            self.expired += 1;
        }
    }

    /// Returns the earliest limit of an unreported shutdown.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.waiting.iter().map(|(_, deadline)| *deadline).min()
    }

    /// Removes and returns the shutdowns to report now: those whose limit is over, or all if no
    /// lock is left to release.
    pub(super) fn take_over(&mut self, nothing_left: bool, now: Instant) -> Vec<u64> {
        let over = |(_, deadline): &mut (u64, Instant)| nothing_left || *deadline <= now;
        let over = self.waiting.extract_if(.., over);
        over.map(|(number, _)| number).collect()
    }

    /// Returns the report. `still_held` is the number of locks held now. `leaving` is the number of
    /// lost locks and of locks under removal.
    pub(super) fn report(&self, still_held: usize, leaving: usize) -> ShutdownReport {
        ShutdownReport {
            released: self.released,
            still_held,
            unconfirmed: leaving + self.expired,
        }
    }
}
