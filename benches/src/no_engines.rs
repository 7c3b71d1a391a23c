//! Stands in for the other engines in a build with an earlier commit without them.

use crate::contestants::Fault;
use crate::row::Engine;

/// An empty type, because there are no other engines.
pub(crate) enum Other {}

impl Other {
    pub(crate) fn id(&self) -> u32 {
        match *self {}
    }

    /// Returns `None` for Redis. Otherwise returns an error with the reason why the row does not
    /// run.
    pub(crate) fn start(engine: Engine) -> Result<Option<(Self, String)>, Fault> {
        match engine {
            Engine::Redis => Ok(None),
            other => Err(format!("this build has no {other:?}").into()),
        }
    }
}
