//! Tests of a cluster that is down. It must be reported as down, and used again once it serves.

use leasehold_tests::cluster::Setup;

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
