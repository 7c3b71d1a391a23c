//! The work of a client other than leasehold. All these clients do the same work.

use std::path::PathBuf;
use std::time::Duration;

/// The ttl of every lock in these runs, including leasehold's locks.
pub(super) const TTL: Duration = Duration::from_secs(10);
/// The duration of a section.
pub(super) const STAY: Duration = Duration::from_millis(3);

/// One section of a client other than leasehold: the times of the request, the start and the end of
/// the section. The times are from `leasehold::__test::now`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Section {
    pub(super) asked: u64,
    pub(super) entered: u64,
    pub(super) left: u64,
}

/// The server, the key and the working time of a client.
#[derive(Debug)]
pub(super) struct Visit {
    pub(super) url: String,
    pub(super) key: String,
    /// The pause between two sections.
    pub(super) pause: Duration,
    pub(super) time: Duration,
    pub(super) folder: PathBuf,
}
