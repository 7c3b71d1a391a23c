//! Descriptions of invalid replies of a server. Each is the cause inside an error of the crate
//! `redis`, because an invalid reply ends the connection like any other error.

use std::error::Error;
use std::sync::Arc;
use std::{fmt, io};

use redis::RedisError;

/// Description of an invalid reply. It completes "the server answered with …".
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Garbage(pub(super) String);

impl fmt::Display for Garbage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Garbage {}

impl Garbage {
    /// Returns an error that ends the connection.
    pub(super) fn refused(self) -> RedisError {
        io::Error::new(io::ErrorKind::ConnectionAborted, self).into()
    }
}

/// Returns the description of the invalid reply, if one ended the connection.
pub(crate) fn garbage_in(error: &RedisError) -> Option<&Garbage> {
    let error: &Arc<dyn Error + Send + Sync> = error.source()?.downcast_ref()?;
    let error: &io::Error = error.downcast_ref()?;
    error.get_ref()?.downcast_ref()
}
