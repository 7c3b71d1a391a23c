//! Stable codes of log events, by which programs and alerts identify them.

/// A lease ended before its call released the lock: the lease ran out, the lock reached `max_hold`,
/// or the store no longer had the lock.
pub(crate) const LEASE_LOST: &str = "lease-lost";

/// `force_release` took a lock away from its holder, whose lease is then lost.
pub(crate) const FORCED_RELEASE: &str = "forced-release";

/// The result of a `replay` call is not kept, because its JSON is longer than the pool's limit.
#[cfg(feature = "replay")]
pub(crate) const RESULT_TOO_LARGE: &str = "result-too-large";

/// The result of a `replay` call is not kept, because it cannot be written as JSON and read back as
/// the same value.
#[cfg(feature = "replay")]
pub(crate) const RESULT_NOT_JSON: &str = "result-not-json";

/// A call lost its lease while a task spawned by its body waited for the same lock. The body may
/// have waited for this task, and so for its own lock.
pub(crate) const OWN_LOCK: &str = "own-lock";

/// A blocking call parked a thread of a tokio runtime, so other tasks of that runtime had to wait.
pub(crate) const WORKER_BLOCKED: &str = "worker-blocked";

/// The request of a `lead` call for its lock failed, and the call tries again.
pub(crate) const LEADER_RETRIES: &str = "leader-retries";

/// The store did not confirm a release before the lock expired.
pub(crate) const RELEASE_UNCONFIRMED: &str = "release-unconfirmed";

/// A pool can no longer reach its store.
pub(crate) const STORE_AWAY: &str = "store-away";

/// A pool can reach its store again.
pub(crate) const STORE_BACK: &str = "store-back";
