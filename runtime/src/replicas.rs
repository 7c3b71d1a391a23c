//! The number of replicas that must have a lock before it counts.

use std::fmt;
use std::str::FromStr;

use crate::error::LockError;

/// The number of the server's replicas that must confirm an acquisition or a renewal before it
/// counts. See [`LockPoolBuilder::replicas`](crate::LockPoolBuilder::replicas).
///
/// ```
/// use leasehold::Replicas;
///
/// assert_eq!("all".parse(), Ok(Replicas::All));
/// assert_eq!(Replicas::from(2), Replicas::AtLeast(2));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Replicas {
    /// Every replica, and at least one. The number of replicas is the largest number that a
    /// Sentinel has reported, or that the pool has seen connected to its server simultaneously. A
    /// permanently removed replica counts until the Sentinels forget it (`SENTINEL RESET`) and the
    /// pool is connected again.
    ///
    /// In a cluster, and with the URL of one server, no Sentinel reports the number. So a pool
    /// that connects while a replica is away counts that replica only after its return. A replica
    /// that is added later may not count before the pool's next connection. Use `AtLeast(2)` if
    /// two replicas must always confirm.
    All,
    /// At least this many replicas. With zero the server's own answer is enough.
    AtLeast(u32),
}

impl From<u32> for Replicas {
    fn from(count: u32) -> Self {
        Self::AtLeast(count)
    }
}

impl FromStr for Replicas {
    type Err = LockError;

    fn from_str(text: &str) -> Result<Self, LockError> {
        if text == "all" {
            return Ok(Self::All);
        }
        text.parse().map(Self::AtLeast).map_err(|_| {
            LockError::config(
                "the option `replicas` of the lock store's URL must be `all` or a number, as in \
                 `?replicas=1`",
            )
        })
    }
}

impl fmt::Display for Replicas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::AtLeast(count) => count.fmt(f),
        }
    }
}
