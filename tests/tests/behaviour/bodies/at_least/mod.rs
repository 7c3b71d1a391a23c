//! `at_least`: locks that stay for a while counted from the body's start, whatever the result.

mod kinds;
mod neighbours;
mod results;

use std::time::{Duration, Instant};

use leasehold::{LockError, LockGuard, LockPool, LockRequest};
use leasehold_tests::stores::Store;
use leasehold_tests::wait;

const TTL: Duration = Duration::from_secs(20);
/// Longer than a body that does nothing takes.
const AT_LEAST: Duration = Duration::from_millis(800);
/// `AT_LEAST` as two calls see it, the first of which was told a moment after its time began.
const NEARLY: Duration = Duration::from_millis(600);
/// Longer than any call here may take that does not hang.
const HANG: Duration = Duration::from_secs(10);

fn request(pool: &LockPool, key: &str) -> LockRequest {
    pool.lock(key).ttl(TTL).at_least(AT_LEAST)
}

async fn taken(pool: &LockPool, key: &str) -> LockGuard {
    request(pool, key).acquire().await.expect("it is free")
}

/// Fails if `key` comes free earlier than `at_least` after `start`, or not at all.
async fn comes_free(store: &Store, key: &str, start: Instant, at_least: Duration) {
    wait::until_async(key, HANG, || !store.probe.exists(key)).await;
    let after = start.elapsed();
    assert!(
        at_least <= after,
        "`{key}` is free after {after:?} of {at_least:?}"
    );
}

/// Fails if `key` does not come free long before `later`, the time that it must not stay for.
async fn is_free_early(store: &Store, key: &str, start: Instant, later: Duration) {
    wait::until_async(key, later / 2, || !store.probe.exists(key)).await;
    assert!(start.elapsed() < later, "the machine was too busy");
}

/// The time after which a refused call may come back.
#[track_caller]
fn retry_after<T: std::fmt::Debug>(ended: Result<T, LockError>) -> Duration {
    match ended {
        Err(LockError::Contended { retry_after, .. }) => retry_after.expect("it says when"),
        other => panic!("{other:?}"),
    }
}
