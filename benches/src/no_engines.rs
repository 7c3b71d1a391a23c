//! Replacement for the module `engines`, for builds with early versions of the library, which had
//! no engines besides Redis.

use crate::contestants::Fault;
use crate::row::Engine;

/// A type without values, because there are no engines besides Redis.
pub(crate) enum Other {}

impl Other {
    pub(crate) fn id(&self) -> u32 {
        match *self {}
    }

    /// Returns `None` for Redis, and an error for another engine. The error ends the run.
    pub(crate) fn start(engine: Engine) -> Result<Option<(Self, String)>, Fault> {
        match engine {
            Engine::Redis => Ok(None),
            other => Err(format!("this build has no {other:?}").into()),
        }
    }
}
