//! What a server is asked, and what its answers mean.
//!
//! - [`batch`] sorts requests into scripts, [`in_flight`] is a request that went out.
//! - [`scripts`] are the scripts, and [`calls`] the commands that call them. [`outgoing`] has their
//!   bytes. [`script_sources`] notes which servers forget scripts, and need their source.
//! - [`key_names`] are the names of keys and channels.
//! - [`reply`] reads answers, and [`failure`] what errors mean.
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
