//! The locks around the running code. A nested call looks its key up here, to enter the lock, or to
//! return an error instead of a deadlock. Tasks of `leasehold::spawn` inherit these locks for
//! `is_held`.

pub(crate) mod call_site;
pub(crate) mod is_held;
pub(crate) mod leases;
pub(crate) mod nesting;
pub(crate) mod spawn;
