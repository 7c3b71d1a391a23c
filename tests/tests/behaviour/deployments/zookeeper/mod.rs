//! Locks in a ZooKeeper ensemble.

use std::time::Duration;

use leasehold::{LockGuard, LockPool};
use leasehold_tests::wait;

mod connecting;
mod curator;
mod faults;
mod orphans;
mod processes;
mod sessions;

/// Of the sessions that a server allows whose tick is half a second, the longest serve this.
const TTL: Duration = Duration::from_secs(5);
const LONG: Duration = Duration::from_secs(60);

async fn connect(url: &str) -> LockPool {
    wait::connected(LockPool::builder().url(url)).await
}

async fn take(pool: &LockPool, key: &str) -> LockGuard {
    let acquired = pool.lock(key).ttl(TTL).wait(LONG).acquire().await;
    acquired.unwrap_or_else(|error| panic!("{key}: {error}"))
}

/// Takes and releases a lock; the pool may need a moment to come back.
async fn works(pool: &LockPool, key: &str) {
    let released = take(pool, key).await.release().await;
    released.unwrap_or_else(|error| panic!("{key}: {error}"));
}
