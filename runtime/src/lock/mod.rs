//! The life of one call: its settings, the acquire of its locks, and the run of its body inside
//! them.
//!
//! - `nest` keeps the leases of the running code, so that nested calls find and enter them.
//! - `take` takes locks: the settings of a call, the acquire, and the locks that it has taken.
//! - `call` runs a body inside its locks, and has the guard and the handle.
//! - `api` has the requests, and the calls that begin with a request.

pub(crate) mod api;
pub(crate) mod call;
pub(crate) mod nest;
pub(crate) mod take;
