//! Tests of the bodies of calls. While a body runs, no other body may run inside the same lock.
//! After any end of the body, the lock must become free.

mod blocking;
mod concurrency;
mod deploys;
mod detached;
mod exits;
mod kept_locks;
mod min_hold;
mod nested_calls;
mod nested_without_store;
mod replay;

use std::time::{Duration, Instant};

use leasehold_tests::probe::Probe;
use leasehold_tests::wait;

/// Time for which a call with a ttl of ten seconds or more waits for the answer to its release.
const RELEASE: Duration = Duration::from_secs(1);

/// Time limit for a release. It is shorter than the ttl of each lock that `is_released` checks, so
/// a lock that becomes free in this time was released.
const SOON: Duration = Duration::from_secs(10);

/// Fails if `key` is still locked after a call that began at `asked` has released it. On a busy
/// machine, the answer to the release may be late. The engine then repeats the release in the
/// background, and this function waits for it.
pub(crate) async fn is_released(probe: &dyn Probe, key: &str, asked: Instant) {
    let answered = asked.elapsed() < RELEASE;
    let locked = probe.exists(key);
    assert!(!locked || !answered, "`{key}` is not released");
    wait::until_async(key, SOON, || !probe.exists(key)).await;
}
