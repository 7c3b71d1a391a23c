//! The locks that the running code is inside of. A nested call looks them up, to enter a lock or to
//! refuse a deadlock. Tasks of `leasehold::spawn` inherit them for `is_held`.

pub(crate) mod call_site;
pub(crate) mod is_held;
pub(crate) mod leases;
pub(crate) mod nesting;
pub(crate) mod spawn;
