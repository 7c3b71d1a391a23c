//! Tests of `min_hold`. A lock stays held for at least this time, counted from the start of the
//! body, for any result of the body.

mod kinds;
mod neighbours;
mod results;

use std::time::{Duration, Instant};

use leasehold::{LockError, LockGuard, LockPool, LockRequest};
use leasehold_tests::stores::Store;
use leasehold_tests::wait;

const TTL: Duration = Duration::from_secs(20);
/// The `min_hold` of these tests. It is longer than an empty body takes.
const MIN_HOLD: Duration = Duration::from_millis(800);
/// Minimum time from a grant until a later call can get the lock. It is shorter than `MIN_HOLD`,
/// because the store begins to count `min_hold` before its answer reaches the call.
const NEARLY: Duration = Duration::from_millis(600);
/// Time limit for one call. A call takes longer only if it hangs.
const HANG: Duration = Duration::from_secs(10);

fn request(pool: &LockPool, key: &str) -> LockRequest {
    pool.lock(key).ttl(TTL).min_hold(MIN_HOLD)
}

async fn taken(pool: &LockPool, key: &str) -> LockGuard {
    request(pool, key).acquire().await.expect("it is free")
}

/// Fails if `key` becomes free earlier than `min_hold` after `start`, or not at all.
async fn comes_free(store: &Store, key: &str, start: Instant, min_hold: Duration) {
    wait::until_async(key, HANG, || !store.probe.exists(key)).await;
    let after = start.elapsed();
    assert!(
        min_hold <= after,
        "`{key}` is free after {after:?} of {min_hold:?}"
    );
}

/// Fails unless `key` becomes free long before `later` has passed since `start`. With the bug that
/// the test looks for, the key would stay held for this time.
async fn is_free_early(store: &Store, key: &str, start: Instant, later: Duration) {
    wait::until_async(key, later / 2, || !store.probe.exists(key)).await;
    assert!(start.elapsed() < later, "the machine was too busy");
}

/// Returns the `retry_after` of a refused call.
#[track_caller]
fn retry_after<T: std::fmt::Debug>(ended: Result<T, LockError>) -> Duration {
    match ended {
        Err(LockError::Contended { retry_after, .. }) => retry_after.expect("it has a retry_after"),
        other => panic!("{other:?}"),
    }
}
