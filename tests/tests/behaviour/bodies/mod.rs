//! Tests of the bodies of locked calls: a body is alone inside its lock, and however it ends, its
//! lock becomes free.

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

/// Time for which a call waits for the answer to its release, with a ttl of ten seconds or more.
const RELEASE: Duration = Duration::from_secs(1);

/// Less than the ttl of each lock whose release is awaited.
const SOON: Duration = Duration::from_secs(10);

/// Fails if `key` is still locked after a call that released it and began at `asked`. On a busy
/// machine, the release may have no answer in time. The engine then repeats it in the background.
pub(crate) async fn is_released(probe: &dyn Probe, key: &str, asked: Instant) {
    let answered = asked.elapsed() < RELEASE;
    let locked = probe.exists(key);
    assert!(!locked || !answered, "`{key}` is not released");
    wait::until_async(key, SOON, || !probe.exists(key)).await;
}
