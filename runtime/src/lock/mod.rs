//! The life of one call: its settings, the acquire of its locks, and the run of its body inside
//! them.
//!
//! - `nest` records the locks around the running code, so that nested calls can enter them.
//! - `take` takes locks: the settings of a call, the acquire, and the locks that it has taken.
//! - `call` runs a body inside its locks, and contains the guard and the handle.
//! - `api` is the public API for locks without the attribute.

pub(crate) mod api;
pub(crate) mod call;
pub(crate) mod nest;
pub(crate) mod take;
