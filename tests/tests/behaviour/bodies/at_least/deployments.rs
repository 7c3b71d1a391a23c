//! The same on a cluster, on a quorum, and behind Sentinels.

use std::time::{Duration, Instant};

use leasehold::LockPool;
use leasehold_tests::cluster;
use leasehold_tests::quorum::Quorum;
use leasehold_tests::sentinel;
use leasehold_tests::wait;

use super::HANG;

const TTL: Duration = Duration::from_secs(5);
const AT_LEAST: Duration = Duration::from_secs(2);

/// Fails if a lock is free before its time: after a release, after a drop, and with several keys.
async fn it_stays(url: &str) {
    let (pool, other) = (connect(url).await, connect(url).await);
    for drops in [false, true] {
        let start = Instant::now();
        // In two slots of a cluster.
        let both = pool.lock_all(["a", "b"]).ttl(TTL).at_least(AT_LEAST);
        let guard = both.wait(HANG).acquire().await.expect("both are free");
        if drops {
            drop(guard);
        } else {
            guard.release().await.expect("they are held");
        }
        for key in ["a", "b"] {
            let refused = other.lock(key).ttl(TTL).acquire().await;
            let in_time = start.elapsed() < AT_LEAST;
            assert!(refused.is_err() || !in_time, "`{key}` is free");
            drop(refused);
            let next = other.lock(key).ttl(TTL).wait(HANG).acquire().await;
            let after = start.elapsed();
            assert!(AT_LEAST <= after, "`{key}` is free after {after:?}");
            next.expect("it comes free").release().await.expect("held");
        }
    }
}

/// Fails if a permit is to be had before its time.
async fn a_permit_stays(url: &str) {
    let (pool, other) = (connect(url).await, connect(url).await);
    let permit = |pool: &LockPool| pool.lock("p").ttl(TTL).permits(1);
    let start = Instant::now();
    let taken = permit(&pool).at_least(AT_LEAST).wait(HANG).acquire().await;
    taken.expect("it is free").release().await.expect("held");
    let next = permit(&other).wait(HANG).acquire().await;
    let after = start.elapsed();
    assert!(AT_LEAST <= after, "it is free after {after:?}");
    next.expect("it comes free").release().await.expect("held");
}

async fn connect(url: &str) -> LockPool {
    wait::connected(LockPool::builder().url(url)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_cluster() {
    let cluster = cluster::Setup::new().start();
    it_stays(&cluster.url()).await;
    a_permit_stays(&cluster.url()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_quorum() {
    let quorum = Quorum::older_than(3, TTL);
    it_stays(&quorum.url_with("max_ttl=5s&node_timeout=1s")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_sentinels() {
    let deployment = sentinel::Setup::new().start();
    it_stays(&deployment.url()).await;
    a_permit_stays(&deployment.url()).await;
}
