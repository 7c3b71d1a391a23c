//! The nodes of these tests.

use std::sync::OnceLock;
use std::time::Duration;

use leasehold::{LockPool, LockPoolBuilder};
use leasehold_tests::quorum::Quorum;
pub(crate) use leasehold_tests::quorum::{count, left};

/// The ttl of most scenes; the nodes must be older than it before they vote.
pub(crate) const TTL: Duration = Duration::from_secs(1);

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
    LockPool::builder().url(nodes.url())
}

pub(crate) async fn pool(nodes: &Quorum) -> LockPool {
    builder(nodes).connect().await.expect("the nodes answer")
}
