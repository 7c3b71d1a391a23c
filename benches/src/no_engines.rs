//! Stands in for the other engines in a build with an earlier commit that has none.

use crate::contestants::Fault;
use crate::row::Engine;

/// There is none.
pub(crate) enum Other {}

impl Other {
    /// There is none.
    pub(crate) fn id(&self) -> u32 {
        match *self {}
    }

    /// None for Redis; otherwise an error that says why the row does not run.
    pub(crate) fn start(engine: Engine) -> Result<Option<(Self, String)>, Fault> {
        match engine {
            Engine::Redis => Ok(None),
            other => Err(format!("this build has no {other:?}").into()),
        }
    }
}
