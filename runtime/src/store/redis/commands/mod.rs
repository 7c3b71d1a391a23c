//! Commands for a server, and their answers.
//!
//! - [`batch`] collects requests into scripts. [`in_flight`] is a sent request.
//! - [`scripts`] contains the scripts, and [`calls`] the commands that call them. [`outgoing`]
//!   encodes commands. [`script_sources`] detects a server that keeps losing its scripts, and must
//!   therefore get their source.
//! - [`key_names`] contains the names of keys and channels.
//! - [`reply`] reads answers, and [`failure`] reads errors.
//! - [`hash_slot`] and [`redirect`] are for nodes of a cluster.

pub(crate) mod batch;
pub(crate) mod calls;
pub(crate) mod failure;
pub(crate) mod hash_slot;
pub(crate) mod in_flight;
pub(crate) mod key_names;
pub(crate) mod outgoing;
pub(crate) mod redirect;
pub(crate) mod reply;
pub(crate) mod script_sources;
pub(crate) mod scripts;
