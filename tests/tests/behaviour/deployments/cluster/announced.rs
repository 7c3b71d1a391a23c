//! Tests of nodes that the cluster announces without a host.

use leasehold_tests::cluster::{MASTERS, Setup};
use redis::cmd;

use super::{connect, take};

/// Fails if the pool does not reach nodes that the cluster announces as `?` or null. Also fails if
/// a redirect to such a node ends a call. Also fails if `check` does not warn of such nodes, or
/// warns when there are none.
#[tokio::test(flavor = "multi_thread")]
async fn nodes_without_a_host_are_reached_and_reported() {
    let cluster = Setup::new().start();
    // With `hostname` each node is announced as `?`, because it has no host name.
    for (kind, is_found) in [
        ("hostname", true),
        ("unknown-endpoint", true),
        ("ip", false),
    ] {
        let mut announce = cmd("CONFIG");
        announce.arg("SET").arg("cluster-preferred-endpoint-type");
        cluster.run_everywhere(announce.arg(kind));
        let pool = connect(&cluster.url()).await;
        let keys: Vec<_> = (0..12).map(|key| format!("announced:{key}")).collect();
        for key in &keys {
            take(&pool, key).await.release().await.expect("held");
        }
        let moved = cluster.slot(&format!("lock:{}", keys[0]));
        cluster.reshard(moved, (cluster.owner(moved) + 1) % MASTERS);
        take(&pool, &keys[0]).await.release().await.expect("held");
        let report = pool.check().await.expect("the nodes answer");
        assert!(report.is_ready(), "{kind}: {report}");
        assert_eq!(
            report.find("unnamed-node").is_some(),
            is_found,
            "{kind}: {report}"
        );
    }
}
