//! Stable codes of log events, by which programs and alerts identify them.

/// A lease ended before its call did: not renewed in time, taken away, or at its `max_hold`.
pub(crate) const LEASE_LOST: &str = "lease-lost";

/// `force_release` took a lock away from the call that has it. The call's lease is then lost.
pub(crate) const FORCED_RELEASE: &str = "forced-release";

/// A result of a call with `replay` is not kept: its JSON is longer than the pool keeps.
#[cfg(feature = "replay")]
pub(crate) const RESULT_TOO_LARGE: &str = "result-too-large";

/// A result of a call with `replay` is not kept: it cannot be written as JSON and read back as the
/// same value.
#[cfg(feature = "replay")]
pub(crate) const RESULT_NOT_JSON: &str = "result-not-json";

/// A lease is lost, and a task that its body had spawned waited for the same lock.
pub(crate) const OWN_LOCK: &str = "own-lock";

/// A blocking call parked a thread of a tokio runtime, whose other tasks had to wait.
pub(crate) const WORKER_BLOCKED: &str = "worker-blocked";

/// A `lead` call could not ask for its lock, and tries again.
pub(crate) const LEADER_RETRIES: &str = "leader-retries";

/// The store did not confirm a release before the lock expired.
pub(crate) const RELEASE_UNCONFIRMED: &str = "release-unconfirmed";

/// A pool can no longer reach its store.
pub(crate) const STORE_AWAY: &str = "store-away";

/// A pool can reach its store again.
pub(crate) const STORE_BACK: &str = "store-back";
