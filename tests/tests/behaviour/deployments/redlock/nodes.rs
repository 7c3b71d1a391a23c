//! The nodes of these tests.

use std::sync::OnceLock;
use std::time::Duration;

use leasehold::{LockPool, LockPoolBuilder};
use leasehold_tests::quorum::Quorum;
pub(crate) use leasehold_tests::quorum::{count, left};
use leasehold_tests::wait;

/// The ttl of most scenes; the nodes must be older than it before they vote. A busy machine wakes
/// each thread up to three seconds late, which must not cost a lease.
pub(crate) const TTL: Duration = Duration::from_secs(6);

/// How long a call waits for what a busy machine delays.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// For an answer of a majority: each try has a node timeout only.
const IO_TIMEOUT: Duration = Duration::from_secs(5);

/// As many servers that vote on locks of [`TTL`] and below.
pub(crate) fn nodes(count: usize) -> Quorum {
    Quorum::older_than(count, TTL)
}

/// Three or five nodes for all scenes that break nothing and use keys of their own. They vote on
/// locks of `ttl` and below.
pub(crate) fn shared(count: usize, ttl: Duration) -> &'static Quorum {
    static THREE: OnceLock<Quorum> = OnceLock::new();
    static FIVE: OnceLock<Quorum> = OnceLock::new();
    let shared = if count == 3 { &THREE } else { &FIVE };
    let nodes = shared.get_or_init(|| Quorum::young(count));
    nodes.grow_older_than(ttl);
    nodes
}

pub(crate) fn builder(nodes: &Quorum) -> LockPoolBuilder {
    LockPool::builder().url(nodes.url()).io_timeout(IO_TIMEOUT)
}

pub(crate) async fn pool(nodes: &Quorum) -> LockPool {
    wait::connected(builder(nodes)).await
}
