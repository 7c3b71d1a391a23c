//! The public API for locks without the attribute: requests, `lead`, `ready` and handovers.

mod adopt;
pub(crate) mod handover;
mod lead;
mod ready;
pub(crate) mod request;
mod request_blocking;
#[cfg(feature = "replay")]
mod request_replay;
mod request_run;
