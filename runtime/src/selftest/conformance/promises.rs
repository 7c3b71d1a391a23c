//! What a store promises to the suite.

use std::time::Duration;

pub(super) const TTL: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(150);

/// What a store promises, and how fast the suite can expect it to keep its promises.
#[derive(Debug, Clone, Copy)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a promise of its own"
)]
pub(crate) struct Promises {
    /// Whether each acquisition has a fence.
    pub(crate) fences: bool,
    /// Whether the store takes several keys in one step, where the keys share a slot.
    pub(crate) all_at_once: bool,
    /// A ttl that does not run out during a scene.
    pub(crate) ttl: Duration,
    /// A ttl that runs out during a scene.
    pub(crate) short: Duration,
    /// Whether locks belong to sessions. Then a token is that of one client, a lock keeps its ttl,
    /// no fences are reserved, no lock is shared, and nothing is known of a lock's end.
    pub(crate) sessions: bool,
    /// Whether a released lock can be kept for a while.
    pub(crate) keeps: bool,
}

impl Promises {
    /// The promises of a store with one server at most.
    pub(crate) const ONE: Self = Self {
        fences: true,
        all_at_once: true,
        ttl: TTL,
        short: SHORT,
        sessions: false,
        keeps: true,
    };
    /// The promises of a server that commits. A busy disk can delay a commit by a third of a
    /// second, so that a shorter lease could end between two requests of a scene.
    #[cfg(all(feature = "__test", feature = "postgres"))]
    pub(crate) const COMMITS: Self = Self {
        short: Duration::from_millis(600),
        ..Self::ONE
    };
    /// The promises of a server with sessions. It ends a lease when the client does, and that is
    /// shorter here than a claim.
    #[cfg(feature = "__session")]
    pub(crate) const SESSIONS: Self = Self {
        fences: true,
        all_at_once: true,
        ttl: Duration::from_secs(5),
        short: Duration::from_millis(600),
        sessions: true,
        keeps: true,
    };
    /// The promises of a server whose sessions are all that keeps a lock.
    #[cfg(all(feature = "__test", feature = "zookeeper"))]
    pub(crate) const ONLY_SESSIONS: Self = Self {
        keeps: false,
        ..Self::SESSIONS
    };
    /// The promises of a quorum. Its nodes have a twentieth of the ttl to answer, and do not vote
    /// before they have run for longer than the ttl.
    #[cfg(feature = "__test")]
    pub(crate) const QUORUM: Self = Self {
        fences: false,
        all_at_once: false,
        ttl: Duration::from_secs(10),
        short: Duration::from_secs(2),
        sessions: false,
        keeps: true,
    };

    /// Whether an answer holds on a majority of nodes only. On the other nodes, requests of two
    /// clients may arrive in another order.
    pub(super) fn is_quorum(self) -> bool {
        !self.fences
    }

    /// What a lock of the short ttl is asked for again with.
    pub(super) fn again(self) -> Duration {
        if self.sessions { self.short } else { self.ttl }
    }

    /// How long a scene waits before it asks again, and afterwards. By then the first lease is over
    /// and the second is not.
    pub(super) fn waits(self) -> (Duration, Duration) {
        if self.sessions {
            (self.short * 3 / 4, self.short / 2)
        } else {
            (Duration::ZERO, self.short * 2)
        }
    }

    /// Another ttl than the long one, which runs out during no scene either.
    pub(super) fn other(self) -> Duration {
        if self.sessions {
            self.ttl * 3 / 4
        } else {
            self.ttl / 2
        }
    }

    /// Whether what is told of the rest of a lease with this ttl is right.
    pub(super) fn is_left(self, left: Option<Duration>, ttl: Duration) -> bool {
        match left {
            Some(left) => left <= ttl && ttl / 2 < left,
            None => self.sessions,
        }
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
