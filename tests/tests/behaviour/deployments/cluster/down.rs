//! Tests of a cluster that is down. It must be reported as down, and used again once it serves.

use std::time::Duration;

use leasehold::LockPool;
use leasehold_tests::cluster::Setup;
use leasehold_tests::proxy::{Mode, Proxy};
use leasehold_tests::wait;

use super::{LONG, TTL, code, connect, take};

/// A master without a replica is killed, so the whole cluster is down. Fails if the error of a call
/// does not report this, or if `check` reports the cluster as ready. Also fails if the pool does
/// not recover.
#[tokio::test(flavor = "multi_thread")]
async fn an_unavailable_cluster_is_reported_as_down() {
    let mut cluster = Setup::new().start();
    let pool = connect(&cluster.url()).await;
    take(&pool, "down").await.release().await.expect("held");
    let report = pool.check().await.expect("it can be asked");
    assert!(report.is_ready(), "{report}");
    let dead = (cluster.owner(cluster.slot("lock:down")) + 1) % 3;
    cluster.kill(dead);
    cluster.wait_until_it_is_down();
    let error = pool.lock("down").ttl(TTL).acquire().await;
    let error = error.expect_err("the cluster is down");
    assert_eq!(code(&error), "CLUSTERDOWN", "{error}");
    assert!(error.to_string().contains("CLUSTER INFO"), "{error}");
    assert!(error.is_unavailable());
    let report = pool.check().await.expect("some nodes can be asked");
    assert!(!report.is_ready(), "{report}");
    for code in ["cluster-state", "node"] {
        assert!(report.find(code).is_some(), "no {code} in {report}");
    }
    let late = connect(&cluster.url()).await;
    let waiting = late.lock("down").ttl(TTL).wait(LONG).acquire();
    let waiting = tokio::spawn(waiting);
    cluster.restart(dead);
    let guard = waiting.await.expect("no panic").expect("it serves again");
    guard.release().await.expect("held");
    take(&pool, "down").await.release().await.expect("held");
}

/// One master becomes silent, and more calls wait for its keys than requests may be unanswered.
/// Fails if calls for the keys of another master cannot continue.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_master_stops_no_calls_of_another() {
    const CALLS: usize = 4_200;
    let cluster = Setup::new().start();
    let networks = cluster.proxies();
    let addresses = networks.iter().map(Proxy::address);
    let addresses = addresses.map(|address| address.to_string());
    let url = format!(
        "redis-cluster://{}",
        addresses.collect::<Vec<_>>().join(",")
    );
    let pool = wait::connected(LockPool::builder().url(url)).await;
    let owner = |key: &str| cluster.owner(cluster.slot(&format!("lock:{key}")));
    let silent = owner("{silent}");
    let mut others = (0..).map(|number| format!("key {number}"));
    let other = others.find(|key| owner(key) != silent).expect("endless");
    networks[silent].set(Mode::Stall);
    let calls = (0..CALLS).map(|number| {
        let wait = Duration::from_secs(1);
        let key = format!("{{silent}} {number}");
        tokio::spawn(pool.lock(key).ttl(TTL).wait(wait).acquire())
    });
    for call in calls.collect::<Vec<_>>() {
        call.await
            .expect("no panic")
            .map(drop)
            .expect_err("no answer");
    }
    let other = pool.lock(other).ttl(TTL).wait(LONG).acquire();
    let guard = wait::within("another master serves", LONG / 2, other).await;
    guard.expect("it is free").release().await.expect("held");
}
