//! The stable codes of log events, by which programs and alerts know them.

/// A lease is over while its call holds it: not renewed in time, taken away, or at its `max_hold`.
pub(crate) const LEASE_LOST: &str = "lease-lost";

/// The store has not confirmed a release until the lock expired.
pub(crate) const RELEASE_UNCONFIRMED: &str = "release-unconfirmed";

/// A pool cannot reach its store any more.
pub(crate) const STORE_AWAY: &str = "store-away";

/// A pool can reach its store again.
pub(crate) const STORE_BACK: &str = "store-back";
