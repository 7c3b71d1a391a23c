//! The Redis nodes of the tests in this folder.

use std::sync::OnceLock;
use std::time::Duration;

use leasehold::{LockPool, LockPoolBuilder};
use leasehold_tests::quorum::Quorum;
pub(crate) use leasehold_tests::quorum::{count, left};
use leasehold_tests::wait;

/// The ttl of most tests. Nodes vote only after they have run for longer than this. A busy machine
/// wakes each thread up to three seconds late, and a lease of this ttl survives such a delay.
pub(crate) const TTL: Duration = Duration::from_secs(6);

/// Time limit for each wait. It is long, because a busy machine may delay everything.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// Time limit for the answer of a majority. It allows several attempts, each of which ends after
/// one node timeout.
const IO_TIMEOUT: Duration = Duration::from_secs(5);

/// Starts `count` servers that vote on locks with a ttl of up to [`TTL`].
pub(crate) fn nodes(count: usize) -> Quorum {
    Quorum::older_than(count, TTL)
}

/// Returns three or five nodes, which vote on locks with a ttl of up to `ttl`. Several tests share
/// these nodes, so a test must not disturb them, and must use separate keys.
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
