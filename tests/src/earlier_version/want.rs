//! The parameters of a request.

use std::time::Duration;

/// A request for a lock or a share.
#[derive(Debug, Clone)]
pub struct Want {
    /// The key as on the wire.
    pub key: String,
    /// The ttl.
    pub ttl: Duration,
    /// For a share: the limit on the number of shares, 0 for no limit.
    pub most: Option<u32>,
    /// Number of fences to reserve for further calls of the process.
    pub spare: u32,
}

impl Want {
    /// The lock alone, not a share of it, for one call.
    pub fn alone(key: &str, ttl: Duration) -> Self {
        Self {
            key: key.to_owned(),
            ttl,
            most: None,
            spare: 0,
        }
    }

    /// A share, with at most `most` shares of the lock; 0 for no limit.
    pub fn share(key: &str, ttl: Duration, most: u32) -> Self {
        Self {
            most: Some(most),
            ..Self::alone(key, ttl)
        }
    }
}
