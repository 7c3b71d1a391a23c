//! The run of a body inside its locks.

pub(crate) mod body;
mod detach;
mod gate;
pub(crate) mod guard;
#[cfg(feature = "replay")]
pub(crate) mod json;
#[cfg(feature = "replay")]
pub(crate) mod observe;
#[cfg(feature = "replay")]
pub(crate) mod replay;
pub(crate) mod run;
pub(crate) mod section;
