//! The leases of the running code, which nested calls and spawned tasks find.

pub(crate) mod call_site;
pub(crate) mod is_held;
pub(crate) mod leases;
pub(crate) mod nesting;
pub(crate) mod spawn;
