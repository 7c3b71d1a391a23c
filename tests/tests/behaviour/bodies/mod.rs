//! Tests of the bodies of locked calls. No other body is inside the lock of a body, and the lock
//! becomes free after any end of the body.

mod blocking;
mod concurrency;
mod deploys;
mod detached;
mod exits;
mod kept_locks;
mod min_hold;
mod nested_calls;
mod replay;

use std::time::{Duration, Instant};

use leasehold_tests::probe::Probe;
use leasehold_tests::wait;

/// Time for which a call with a ttl of ten seconds or more waits for the answer to its release.
const RELEASE: Duration = Duration::from_secs(1);

/// A time less than the ttl of each lock whose release these tests await, so that no such lock
/// expires within it.
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
