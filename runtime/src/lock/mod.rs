//! The life of one call: its settings, the acquire of its locks, and the run of its body inside
//! them.

pub(crate) mod acquire;
pub(crate) mod adopt;
pub(crate) mod blocking;
pub(crate) mod body;
pub(crate) mod call;
pub(crate) mod call_site;
pub(crate) mod detach;
pub(crate) mod gate;
pub(crate) mod guard;
pub(crate) mod handover;
pub(crate) mod held;
pub(crate) mod is_held;
#[cfg(feature = "replay")]
pub(crate) mod json;
mod lead;
pub(crate) mod leases;
pub(crate) mod nesting;
#[cfg(feature = "replay")]
pub(crate) mod observe;
pub(crate) mod observed;
pub(crate) mod pending;
#[cfg(feature = "replay")]
pub(crate) mod replay;
pub(crate) mod request;
mod request_blocking;
#[cfg(feature = "replay")]
mod request_replay;
mod request_run;
pub(crate) mod section;
pub(crate) mod settings;
pub(crate) mod spawn;
