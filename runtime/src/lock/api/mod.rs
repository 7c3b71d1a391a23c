//! Requests for locks, and the ways to begin a call that need a request.

mod adopt;
pub(crate) mod handover;
mod lead;
mod ready;
pub(crate) mod request;
mod request_blocking;
#[cfg(feature = "replay")]
mod request_replay;
mod request_run;
