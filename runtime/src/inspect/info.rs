//! Information about a lock: its state, its holders, and the processes that wait for it.

use std::time::{Duration, SystemTime};

use crate::fence::Fence;
use crate::owner::Owner;

/// Information about one lock, as of the moment when the store answered.
///
/// The holder's token, with which a client could release or renew the lock, is not included.
///
/// With the feature `serde` it can be serialized. Times are texts of RFC 3339 in UTC. Durations are
/// numbers of milliseconds, in fields that end in `_ms`.
///
/// ```
/// use std::time::Duration;
///
/// use leasehold::LockState;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::LockError> {
/// # let pool = leasehold::LockPool::connect("memory://").await?;
/// let guard = pool.lock("order:42").ttl(Duration::from_secs(10)).acquire().await?;
/// let lock = pool.inspect("order:42").await?;
/// assert_eq!(lock.state, LockState::Exclusive);
/// assert_eq!(lock.fence, guard.fence());
/// for holder in &lock.holders {
///     if let Some(owner) = &holder.owner {
///         println!("{owner} has it for {:?} more at most", holder.expires_in);
///     }
/// }
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LockInfo {
    /// The key without the pool's namespace.
    pub key: String,
    /// State of the lock: free, or the reason why it is not.
    pub state: LockState,
    /// Holders, in the order in which their leases end. At most one, unless the lock is shared or
    /// has permits. On a quorum (`redlock://`), holders on only some nodes are included, and the
    /// holder on the most nodes comes first.
    pub holders: Vec<Holder>,
    /// Processes that queue for the lock in the store, in the order in which they will get it. The
    /// calls of one process queue inside that process, which is listed once.
    pub waiting: Vec<Waiter>,
    /// Fence of the latest acquisition, if a call holds the lock or the state is
    /// [`Kept`](LockState::Kept). None on a store without fences, and for a lock of a client
    /// without leasehold.
    pub fence: Option<Fence>,
    /// Time until which `cooldown` or `min_hold` keeps the lock after its release. None unless the
    /// state is [`Kept`](LockState::Kept).
    #[cfg_attr(feature = "serde", serde(serialize_with = "super::written::time"))]
    pub kept_until: Option<SystemTime>,
    /// Number of nodes that answered, on a quorum (`redlock://`). None on other stores.
    pub nodes: Option<u32>,
    /// Number of nodes that did not answer, on a quorum.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub(crate) silent: u32,
}

/// State of a lock: free, or the reason why it is not.
///
/// ```
/// use leasehold::LockState;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::LockError> {
/// # let pool = leasehold::LockPool::connect("memory://").await?;
/// assert_eq!(pool.inspect("order:42").await?.state, LockState::Free);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum LockState {
    /// No call has the lock.
    Free,
    /// One call has the lock alone, or a client without leasehold has it.
    Exclusive,
    /// Readers share the lock.
    Shared,
    /// The lock has permits, so that at most `limit` calls have it at the same time.
    Permits {
        /// Maximum number of calls that may have the lock.
        limit: u32,
    },
    /// No call has the lock, but `cooldown` or `min_hold` keeps it taken for a while.
    Kept,
    /// The lock is reserved for the first waiting process, which has one second to take it.
    Handed,
    /// On PostgreSQL: no call has the lock, but transactions that verified the last holder's fence
    /// have not ended. No call can take the lock before they end. `holders` has one of these
    /// transactions, with its session as the owner.
    Pinned,
}

/// A holder of a lock: a call, or a client without leasehold.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::LockError> {
/// # let pool = leasehold::LockPool::connect("memory://").await?;
/// # let ttl = std::time::Duration::from_secs(10);
/// let _guard = pool.lock("order:42").ttl(ttl).acquire().await?;
/// let holder = &pool.inspect("order:42").await?.holders[0];
/// let owner = holder.owner.as_ref().expect("it is a lock of this library");
/// assert_eq!(owner.pid, std::process::id());
/// assert!(holder.expires_in <= Some(ttl));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Holder {
    /// Process of the holder, and the function that took the lock. None if a client without
    /// leasehold set the lock, or if the server refused to store the owner.
    ///
    /// For a [pin](LockState::Pinned), the owner is the session of the transaction. The host is
    /// `PostgreSQL`, and the process id is the `pid` of `pg_stat_activity`. For a prepared
    /// transaction the process id is 0.
    ///
    /// Calls of one process can hand a lock over to each other without the store. So this is the
    /// function of the first of these calls, and not always that of the current holder.
    pub owner: Option<Owner>,
    /// True if a client without leasehold set the lock: a shell script, redis-py, another library.
    /// Also true if leasehold cannot read the lock's value, and for a transaction that
    /// [pins](LockState::Pinned) the lock.
    pub foreign: bool,
    /// Time since which the holder's process has had the lock without a break, on the store's
    /// clock. None if unknown, as on etcd and ZooKeeper.
    #[cfg_attr(feature = "serde", serde(serialize_with = "super::written::time"))]
    pub since: Option<SystemTime>,
    /// Remaining time of the holder's lease if it is not renewed. On etcd, this is the remaining
    /// time of the holder's session without a heartbeat. None on ZooKeeper, which does not report
    /// this time. Also none if a client without leasehold set the lock without an expiry.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "expires_in_ms", serialize_with = "super::written::millis")
    )]
    pub expires_in: Option<Duration>,
    /// Fence of the holder. If the calls of its process hand the lock over to each other, this is
    /// the fence of the first call. The later calls have the next fences.
    pub fence: Option<Fence>,
    /// True if [`LockPool::force_release`](crate::LockPool::force_release) has taken the lock away
    /// from this holder. The lock becomes free when the holder's body has ended, after 3 s at the
    /// latest. Always false on etcd and ZooKeeper, which do not report this.
    pub revoked: bool,
    /// Number of nodes on which this holder has the lock, on a quorum (`redlock://`). None on other
    /// stores.
    pub nodes: Option<u32>,
}

/// A process that queues for a lock in the store.
///
/// ```
/// use leasehold::LockInfo;
///
/// fn line(lock: &LockInfo) -> String {
///     let names = lock.waiting.iter().filter_map(|waiter| waiter.owner.as_ref());
///     names.map(ToString::to_string).collect::<Vec<_>>().join(", ")
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Waiter {
    /// The process, and the function of its first queued call. None if the process uses an earlier
    /// version of this library, or if the server refused to store the owner.
    pub owner: Option<Owner>,
    /// Time since which the process has waited without a break, on the store's clock. None on etcd,
    /// which does not report this time.
    #[cfg_attr(feature = "serde", serde(serialize_with = "super::written::time"))]
    pub since: Option<SystemTime>,
}

impl LockInfo {
    /// Returns the information about a free lock.
    pub(crate) fn free(key: &str) -> Self {
        Self {
            key: key.to_owned(),
            state: LockState::Free,
            holders: Vec::new(),
            waiting: Vec::new(),
            fence: None,
            kept_until: None,
            nodes: None,
            silent: 0,
        }
    }

    /// True if this holder may hold the lock. On a quorum, each node that did not answer counts as
    /// if this holder had it.
    pub(crate) fn may_be_held_by(&self, holder: &Holder) -> bool {
        match (holder.nodes, self.nodes) {
            (Some(with), Some(answered)) => answered + self.silent < 2 * (with + self.silent),
            _ => true,
        }
    }

    /// True if no call can take an exclusive lock now.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// # let pool = leasehold::LockPool::connect("memory://").await?;
    /// assert!(!pool.inspect("order:42").await?.is_taken());
    /// # Ok(()) }
    /// ```
    pub fn is_taken(&self) -> bool {
        self.state != LockState::Free
    }
}

impl Holder {
    /// Returns a holder that uses leasehold, and of which only the remaining lease is known.
    pub(crate) fn unknown(expires_in: Option<Duration>) -> Self {
        Self {
            owner: None,
            foreign: false,
            since: None,
            expires_in,
            fence: None,
            revoked: false,
            nodes: None,
        }
    }

    /// Returns a client without leasehold as a holder.
    #[cfg(any(feature = "postgres", feature = "redis"))]
    pub(crate) fn foreign(expires_in: Option<Duration>) -> Self {
        Self {
            foreign: true,
            ..Self::unknown(expires_in)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails if a holder on a minority counts, or one that silent nodes could complete does not.
    #[test]
    fn silent_nodes_count_as_having_the_lock() {
        for (nodes, answered, with, held) in [
            (3, 3, 1, false),
            (3, 3, 2, true),
            (3, 2, 1, true),
            (5, 5, 2, false),
            (5, 4, 1, false),
            (5, 4, 2, true),
            (5, 3, 1, true),
        ] {
            let lock = LockInfo {
                nodes: Some(answered),
                silent: nodes - answered,
                ..LockInfo::free("k")
            };
            let holder = Holder {
                nodes: Some(with),
                ..Holder::unknown(None)
            };
            let row = format!("{with} of {answered} of {nodes}");
            assert_eq!(lock.may_be_held_by(&holder), held, "{row}");
        }
    }
}
