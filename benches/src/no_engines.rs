//! Replaces the module `engines` in a build of an earlier commit, which had no engines besides
//! Redis.

use crate::contestants::Fault;
use crate::row::Engine;

/// An empty type, because there are no engines besides Redis.
pub(crate) enum Other {}

impl Other {
    pub(crate) fn id(&self) -> u32 {
        match *self {}
    }

    /// Returns `None` for Redis. For another engine, returns an error, which is the reason why the
    /// row does not run.
    pub(crate) fn start(engine: Engine) -> Result<Option<(Self, String)>, Fault> {
        match engine {
            Engine::Redis => Ok(None),
            other => Err(format!("this build has no {other:?}").into()),
        }
    }
}
