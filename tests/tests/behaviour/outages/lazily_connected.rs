//! Tests of lazy pools (`connect_lazy`) after they have connected in the background.

use leasehold::{LockPool, LockState};
use leasehold_tests::stores::{NO_OUTAGE, Store};
use leasehold_tests::{on_stores, wait};

use super::{LONG, TTL, waits};

/// Fails if a connected lazy pool differs from other pools in locks, waiting calls, fences,
/// inspection or shutdown.
async fn a_connected_lazy_pool_is_like_any_other(store: &Store) {
    let builder = LockPool::builder()
        .url(&store.url)
        .namespace(&store.namespace);
    let builder = builder.io_timeout(NO_OUTAGE);
    let (pool, other) = (
        builder.clone().connect_lazy().expect("a valid URL"),
        wait::connected(builder).await,
    );
    waits(&pool, "first").await;
    let held = pool.lock("same").ttl(TTL).acquire().await.expect("free");
    let refused = other.lock("same").ttl(TTL).acquire().await.map(drop);
    assert!(refused.expect_err("held").is_contention());
    let waiting = other.lock("same").ttl(TTL).wait(LONG).acquire();
    let waiting = wait::started(waiting).await;
    let info = pool.inspect("same").await.expect("it answers");
    assert_eq!(info.state, LockState::Exclusive);
    let fence = held.fence();
    held.release().await.expect("held");
    let next = waiting.await.expect("handed over");
    assert!(fence < next.fence(), "fences grow");
    next.release().await.expect("held");
    assert_eq!(pool.shutdown(LONG).await.still_held, 0);
}

on_stores!(redis sentinel cluster postgres etcd zookeeper: (
    a_connected_lazy_pool_is_like_any_other,
));
