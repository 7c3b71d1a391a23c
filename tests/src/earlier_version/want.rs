//! A request for a lock.

use std::time::Duration;

/// A request for an exclusive or a shared lock.
#[derive(Debug, Clone)]
pub struct Want {
    /// The key, as it is on the server.
    pub key: String,
    /// The ttl.
    pub ttl: Duration,
    /// For a shared lock: the limit on the number of holders, 0 for no limit. `None` for an
    /// exclusive lock.
    pub most: Option<u32>,
    /// Number of further fences to reserve for other calls of the process.
    pub spare: u32,
}

impl Want {
    /// Creates a request for an exclusive lock, for one call.
    pub fn alone(key: &str, ttl: Duration) -> Self {
        Self {
            key: key.to_owned(),
            ttl,
            most: None,
            spare: 0,
        }
    }

    /// Creates a request for a shared lock with at most `most` holders; 0 for no limit.
    pub fn share(key: &str, ttl: Duration, most: u32) -> Self {
        Self {
            most: Some(most),
            ..Self::alone(key, ttl)
        }
    }
}
