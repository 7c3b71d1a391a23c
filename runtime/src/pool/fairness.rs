//! Fairness: the rules for locks that several calls request.

use std::time::Duration;

use crate::error::LockError;

/// Minimum for `make_way_after`: the Redis store records the use of a key in units of 10 ms.
const SHORTEST_MAKE_WAY_AFTER: Duration = Duration::from_millis(10);
/// Maximum for `make_way_after`, equal to the longest ttl.
const LONGEST_MAKE_WAY_AFTER: Duration = Duration::from_secs(24 * 60 * 60);
const SHORTEST_RETRY_HINT: Duration = Duration::from_millis(1);
/// Maximum for `retry_hint`, equal to the longest ttl.
const LONGEST_RETRY_HINT: Duration = Duration::from_secs(24 * 60 * 60);

/// The rules by which the calls of a pool share a lock with each other, with other processes and
/// with other clients. Set them with
/// [`LockPoolBuilder::fairness`](crate::LockPoolBuilder::fairness). They apply to all locks of the
/// pool.
///
/// | rule | default |
/// |---|---|
/// | [`max_waiters`](Self::max_waiters) | 1,000 calls |
/// | [`max_passes`](Self::max_passes) | 16 hand-overs |
/// | [`longest_turn`](Self::longest_turn) | a quarter of the lock's ttl |
/// | [`make_way_after`](Self::make_way_after) | 1 s |
/// | [`retry_hint`](Self::retry_hint) | an estimate |
///
/// ```
/// use std::time::Duration;
///
/// use leasehold::{Fairness, LockPool};
///
/// let fairness = Fairness::default()
///     .max_waiters(64)
///     .retry_hint(Duration::from_secs(3));
/// let builder = LockPool::builder().fairness(fairness);
/// ```
#[derive(Debug, Clone)]
#[must_use = "the rules have no effect before `LockPoolBuilder::fairness`"]
pub struct Fairness {
    pub(super) max_waiters: usize,
    pub(super) max_passes: u32,
    pub(super) longest_turn: Option<Duration>,
    pub(super) make_way_after: Duration,
    pub(super) retry_hint: Option<Duration>,
}

impl Default for Fairness {
    fn default() -> Self {
        Self {
            max_waiters: 1000,
            max_passes: 16,
            longest_turn: None,
            make_way_after: Duration::from_secs(1),
            retry_hint: None,
        }
    }
}

impl Fairness {
    /// Sets the maximum number of calls of this process that may queue for one key. A further call
    /// is refused with [`LockError::QueueFull`]. Default: 1,000.
    ///
    /// ```
    /// // The 51st call that would queue for a key is refused.
    /// let fairness = leasehold::Fairness::default().max_waiters(50);
    /// ```
    pub fn max_waiters(mut self, max_waiters: usize) -> Self {
        self.max_waiters = max_waiters;
        self
    }

    /// Sets how many times calls of this process may hand a lock over to each other while other
    /// processes queue for it. After that, another process gets the lock. With zero, each release
    /// gives the lock to a waiting process. Default: 16. While no other process waits, this rule
    /// does not limit hand-overs.
    ///
    /// A hand-over costs no round trip. A larger number gives more throughput on a busy key, and
    /// longer waits in other processes.
    ///
    /// ```
    /// let fairness = leasehold::Fairness::default().max_passes(64);
    /// ```
    pub fn max_passes(mut self, max_passes: u32) -> Self {
        self.max_passes = max_passes;
        self
    }

    /// Sets the longest time for which calls of this process may hand a lock over to each other
    /// while other processes queue for it. Default: a quarter of the lock's ttl.
    ///
    /// ```
    /// # use std::time::Duration;
    /// let fairness = leasehold::Fairness::default().longest_turn(Duration::from_millis(100));
    /// ```
    pub fn longest_turn(mut self, longest_turn: Duration) -> Self {
        self.longest_turn = Some(longest_turn);
        self
    }

    /// Sets the time of unbroken use after which a key is left free for clients that do not use
    /// leasehold. The range is 10 ms to 24 h, or [`Duration::ZERO`] for never. Default: 1 s. With
    /// any other time, [`connect`](crate::LockPoolBuilder::connect) returns [`LockError::Config`].
    ///
    /// Queued calls hand a lock over to each other, within a process and between processes, so that
    /// the lock is never free. Some clients do not queue but try from time to time: redis-py,
    /// redsync, node-redlock, rslock, a shell script. Such a client would never get the lock. So
    /// after this time, and after at least four holders in a row, the lock is left free for a pause
    /// of 300 ms. The pause begins when the current holder releases the lock. A client that tries
    /// at least every 250 ms gets the lock. If no call holds the lock for longer than 1 s, there is
    /// a pause at least every 5 s.
    ///
    /// By default, a key in constant use is left free for up to 300 ms of every 1.3 s. A waiting
    /// call then waits up to 300 ms longer (`docs/performance/results.md`). In a pause, a call that
    /// does not queue is refused with [`LockError::Contended`]. If all clients use leasehold, set
    /// this to zero in all pools: the setting of the pool that releases the lock applies.
    ///
    /// `memory://` has no other clients, so there are no pauses. `redlock://` has its own short
    /// pauses, regardless of this setting. A lock that several calls hold at the same time
    /// (`shared`, `permits`) is not free while one of them holds it.
    ///
    /// ```
    /// # use std::time::Duration;
    /// // Every client is leasehold's.
    /// let fairness = leasehold::Fairness::default().make_way_after(Duration::ZERO);
    /// ```
    pub fn make_way_after(mut self, make_way_after: Duration) -> Self {
        self.make_way_after = make_way_after;
        self
    }

    /// Sets a fixed [`LockError::retry_after`] for calls of this pool that are refused because of
    /// other calls. The range is 1 ms to 24 h. Default: an estimate, see
    /// [`LockError::retry_after`]. With a time out of range,
    /// [`connect`](crate::LockPoolBuilder::connect) returns [`LockError::Config`].
    ///
    /// Use this if clients must not retry before a fixed time. The hint applies to all locks of the
    /// pool, and does not change the locks themselves.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use leasehold::{Fairness, LockError, LockPool};
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), LockError> {
    /// let pool = LockPool::builder()
    ///     .url("memory://")
    ///     .fairness(Fairness::default().retry_hint(Duration::from_secs(3)))
    ///     .connect()
    ///     .await?;
    /// let ttl = Duration::from_secs(10);
    /// let held = pool.lock("order:42").ttl(ttl).acquire().await?;
    /// let refused = pool.lock("order:42").ttl(ttl).acquire().await.unwrap_err();
    /// assert_eq!(refused.retry_after_secs(), Some(3)); // the `Retry-After` header
    /// # held.release().await
    /// # }
    /// ```
    pub fn retry_hint(mut self, retry_hint: Duration) -> Self {
        self.retry_hint = Some(retry_hint);
        self
    }

    /// Refuses `retry_hint` and `make_way_after` outside of their ranges.
    pub(super) fn check(&self) -> Result<(), LockError> {
        let hints = SHORTEST_RETRY_HINT..=LONGEST_RETRY_HINT;
        if self.retry_hint.is_some_and(|hint| !hints.contains(&hint)) {
            return Err(LockError::config(
                "`retry_hint` must be between 1 ms and 24 h; leave it out for an estimate",
            ));
        }
        let after = self.make_way_after;
        if !after.is_zero() && !(SHORTEST_MAKE_WAY_AFTER..=LONGEST_MAKE_WAY_AFTER).contains(&after)
        {
            return Err(LockError::config(
                "`make_way_after` must be between 10 ms and 24 h, or zero for never; the default \
                 is 1 s",
            ));
        }
        Ok(())
    }
}
