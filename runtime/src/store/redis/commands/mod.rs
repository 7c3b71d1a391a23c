//! The commands for a server, and the meaning of its answers.
//!
//! - [`batch`] sorts requests into scripts. [`in_flight`] is a request that went out.
//! - [`scripts`] holds the scripts, [`calls`] the commands that call them, and [`outgoing`] the
//!   bytes of these. [`script_sources`] notes which servers forget scripts, and need their source.
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
