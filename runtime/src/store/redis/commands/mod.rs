//! What a server is asked, and what its answers mean.

pub(crate) mod batch;
pub(crate) mod hash_slot;
pub(crate) mod in_flight;
pub(crate) mod key_names;
pub(crate) mod redirect;
pub(crate) mod reply;
pub(crate) mod script_sources;
pub(crate) mod scripts;
