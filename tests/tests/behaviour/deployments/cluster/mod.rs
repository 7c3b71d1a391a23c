//! Tests of `redis-cluster://`: locks on real clusters, with moving slots and killed masters.

use std::sync::LazyLock;
use std::time::Duration;

use leasehold::{LockError, LockGuard, LockPool};
use leasehold_tests::cluster::{Cluster, Setup};
use leasehold_tests::wait;

mod announced;
mod conforms;
mod down;
mod dropped_calls;
mod fail_over;
mod hand_over;
mod keys;
mod late_renewals;
mod missing_locks;
mod mistakes;
mod moving;
mod permissions;
mod redirects;
mod renewals_together;
mod resharding;

/// The ttl of most locks. It is longer than any step of a test takes, even on a busy machine.
const TTL: Duration = Duration::from_secs(20);
const LONG: Duration = Duration::from_secs(60);

/// Time limit for an answer. It is long, because on a busy machine each thread that handles a call
/// may wake up to two seconds late.
const IO_TIMEOUT: Duration = Duration::from_secs(4);

/// One cluster of masters for all tests that do not change it. It ends with the test program.
static SHARED: LazyLock<Cluster> = LazyLock::new(|| Setup::new().start());

async fn connect(url: &str) -> LockPool {
    wait::connected(LockPool::builder().url(url).io_timeout(IO_TIMEOUT)).await
}

async fn take(pool: &LockPool, key: &str) -> LockGuard {
    let guard = pool.lock(key).ttl(TTL).wait(LONG).acquire().await;
    guard.unwrap_or_else(|error| panic!("{key}: {error}"))
}

fn code(error: &LockError) -> &str {
    match error {
        LockError::Unavailable { source } => source.code(),
        other => panic!("{other:?}"),
    }
}
