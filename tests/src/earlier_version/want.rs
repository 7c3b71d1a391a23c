//! What a process asks for.

use std::time::Duration;

/// A request for a lock or a share.
#[derive(Debug, Clone)]
pub struct Want {
    /// The key, as it is on the wire.
    pub key: String,
    /// The ttl.
    pub ttl: Duration,
    /// For a share: how many there may be at most, 0 for no bound.
    pub most: Option<u32>,
    /// How many fences to reserve for further calls of the process.
    pub spare: u32,
}

impl Want {
    /// The lock alone, for one call.
    pub fn alone(key: &str, ttl: Duration) -> Self {
        Self {
            key: key.to_owned(),
            ttl,
            most: None,
            spare: 0,
        }
    }

    /// A share, of `most` at most; 0 for no bound.
    pub fn share(key: &str, ttl: Duration, most: u32) -> Self {
        Self {
            most: Some(most),
            ..Self::alone(key, ttl)
        }
    }
}
