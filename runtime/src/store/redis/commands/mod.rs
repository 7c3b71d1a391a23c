//! The commands for a server, and the meaning of its answers.
//!
//! - [`batch`] sorts requests into scripts. [`in_flight`] is a request that went out.
//! - [`scripts`] holds the scripts, and [`calls`] has the commands that call the scripts.
//!   [`outgoing`] has the bytes of the commands. [`script_sources`] detects a server that forgets
//!   its scripts, and so must get their source.
//! - [`key_names`] has the names of keys and channels.
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
