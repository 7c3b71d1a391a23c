//! What a store promises to the suite.

use std::time::Duration;

pub(super) const TTL: Duration = Duration::from_secs(30);
pub(super) const SHORT: Duration = Duration::from_millis(150);

/// What a store promises, and how fast the suite can expect it to keep its promises.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Promises {
    /// Whether each acquisition has a fence.
    pub(crate) fences: bool,
    /// Whether the store takes several keys in one step, where the keys share a slot.
    pub(crate) all_at_once: bool,
    /// A ttl that does not run out during a scene.
    pub(crate) ttl: Duration,
    /// A ttl that runs out during a scene.
    pub(crate) short: Duration,
}

impl Promises {
    /// The promises of a store with one server at most.
    pub(crate) const ONE: Self = Self {
        fences: true,
        all_at_once: true,
        ttl: TTL,
        short: SHORT,
    };
    /// The promises of a quorum. Its nodes have a twentieth of the ttl to answer, and do not vote
    /// before they have run for longer than the ttl.
    #[cfg(feature = "__test")]
    pub(crate) const QUORUM: Self = Self {
        fences: false,
        all_at_once: false,
        ttl: Duration::from_secs(10),
        short: Duration::from_secs(2),
    };

    /// Whether an answer holds on a majority of nodes only. On the other nodes, requests of two
    /// clients may arrive in another order.
    pub(super) fn is_quorum(self) -> bool {
        !self.fences
    }

    /// The longest rest of a lease that a store may report, where the lock had `before` to last and
    /// has `now`. A node beyond the quorum may not have heard of `now` yet.
    pub(super) fn longest(self, before: Duration, now: Duration) -> Duration {
        if self.is_quorum() {
            before.max(now)
        } else {
            now
        }
    }
}
