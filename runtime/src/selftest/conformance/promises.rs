//! The promises of a store, which the conformance suite checks.

use std::time::Duration;

pub(super) const TTL: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(150);

/// The behaviour that a store promises, and the times that the suite uses with this store.
#[derive(Debug, Clone, Copy)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a promise of its own"
)]
pub(crate) struct Promises {
    /// True if each acquisition has a fence.
    pub(crate) fences: bool,
    /// True if the store takes several keys in one step, provided that they share a slot.
    pub(crate) all_at_once: bool,
    /// A ttl that does not end during a test.
    pub(crate) ttl: Duration,
    /// A ttl that ends during a test.
    pub(crate) short: Duration,
    /// True if locks belong to sessions. Then a token belongs to one client, and a new ttl of a
    /// lock must be in the class (range of ttls) of its session. The store reserves no fences, has
    /// no shared locks, and does not report the remaining time of a lock.
    pub(crate) sessions: bool,
    /// True if a released lock can be kept for a while.
    pub(crate) keeps: bool,
}

impl Promises {
    /// Promises of a store with at most one server.
    pub(crate) const ONE: Self = Self {
        fences: true,
        all_at_once: true,
        ttl: TTL,
        short: SHORT,
        sessions: false,
        keeps: true,
    };
    /// Promises of a server that writes each commit to its disk. A busy disk can delay a commit by
    /// a third of a second, so a shorter lease could end between two requests of a test.
    #[cfg(all(feature = "__test", feature = "postgres"))]
    pub(crate) const COMMITS: Self = Self {
        short: Duration::from_millis(600),
        ..Self::ONE
    };
    /// Promises of a server with sessions. The client itself ends each lease, so a lease can be
    /// shorter than its session. `CLAIM` is the time for which a lock is reserved for a waiting
    /// process. `short` must be below it: a reservation that begins when a short lease ends must
    /// last for another `short`.
    #[cfg(feature = "__session")]
    pub(crate) const SESSIONS: Self = Self {
        fences: true,
        all_at_once: true,
        ttl: Duration::from_secs(5),
        short: Duration::from_millis(600),
        sessions: true,
        keeps: true,
    };
    /// Promises of a server whose locks cannot outlast their session.
    #[cfg(all(feature = "__test", feature = "zookeeper"))]
    pub(crate) const ONLY_SESSIONS: Self = Self {
        keeps: false,
        ..Self::SESSIONS
    };
    /// Promises of a quorum. `short` is long, because the nodes have only a twentieth of the ttl to
    /// answer. `ttl` is below `TTL`, because a node votes only after it has run for longer than the
    /// ttl.
    #[cfg(feature = "__test")]
    pub(crate) const QUORUM: Self = Self {
        fences: false,
        all_at_once: false,
        ttl: Duration::from_secs(10),
        short: Duration::from_secs(2),
        sessions: false,
        keeps: true,
    };

    /// True for a quorum. Its answer is certain only for a majority of its nodes. The other nodes
    /// may receive the requests of two clients in the opposite order.
    pub(super) fn is_quorum(self) -> bool {
        !self.fences
    }

    /// Returns the ttl for the second request for a lock that was first requested with the short
    /// ttl.
    pub(super) fn again(self) -> Duration {
        if self.sessions { self.short } else { self.ttl }
    }

    /// Returns two pauses of a test: before its second request and after it. At the end of the
    /// second pause, the first request's lease is over and the second request's lease is not.
    pub(super) fn waits(self) -> (Duration, Duration) {
        if self.sessions {
            // Each pause ends long before the lease that must outlast it: the difference is more
            // than the delay after which a failed scene is repeated.
            let pause = self.short * 11 / 20;
            (pause, pause)
        } else {
            (Duration::ZERO, self.short * 2)
        }
    }

    /// Returns a ttl that differs from `ttl`, and does not end during a test either.
    pub(super) fn other(self) -> Duration {
        if self.sessions {
            self.ttl * 3 / 4
        } else {
            self.ttl / 2
        }
    }

    /// True if `left` is a correct remaining time for a lease with this ttl.
    pub(super) fn is_left(self, left: Option<Duration>, ttl: Duration) -> bool {
        match left {
            Some(left) => left <= ttl && ttl / 2 < left,
            None => self.sessions,
        }
    }

    /// Returns the longest remaining time that a store may report for a lock whose remaining time
    /// was changed from `before` to `now`. On a quorum, the node that reports it may still have
    /// `before`.
    pub(super) fn longest(self, before: Duration, now: Duration) -> Duration {
        if self.is_quorum() {
            before.max(now)
        } else {
            now
        }
    }
}
