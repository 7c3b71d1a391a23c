//! Requests for locks, and the calls that begin with a request.

mod adopt;
pub(crate) mod handover;
mod lead;
mod ready;
pub(crate) mod request;
mod request_blocking;
#[cfg(feature = "replay")]
mod request_replay;
mod request_run;
