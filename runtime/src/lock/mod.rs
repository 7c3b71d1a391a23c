//! The life of one call: its settings, the acquire of its locks, and the run of its body inside
//! them.
//!
//! - `nest` has the leases of the running code, which nested calls enter.
//! - `take` takes locks: the settings of a call, the acquire, and the locks that it has taken.
//! - `call` runs a body inside its locks, and has the guard and the handle.
//! - `api` has the requests, and the ways to begin a call that need them.

pub(crate) mod api;
pub(crate) mod call;
pub(crate) mod nest;
pub(crate) mod take;
