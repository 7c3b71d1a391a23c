//! The life of one call: its settings, the acquire of its locks, and the run of its body inside
//! them.

pub(crate) mod acquire;
pub(crate) mod adopt;
pub(crate) mod baggage;
pub(crate) mod body;
pub(crate) mod call;
pub(crate) mod call_site;
pub(crate) mod detach;
pub(crate) mod gate;
pub(crate) mod guard;
pub(crate) mod held;
pub(crate) mod is_held;
#[cfg(feature = "replay")]
pub(crate) mod json;
pub(crate) mod leases;
pub(crate) mod nesting;
#[cfg(feature = "replay")]
pub(crate) mod observe;
pub(crate) mod observed;
pub(crate) mod pending;
mod ready;
#[cfg(feature = "replay")]
pub(crate) mod replay;
pub(crate) mod request;
#[cfg(feature = "replay")]
mod request_replay;
mod request_run;
pub(crate) mod section;
pub(crate) mod settings;
pub(crate) mod spawn;
