//! Tests that a user with the documented permissions can use every feature, and that missing
//! permissions are named.

use std::time::Duration;

use leasehold::__test::permissions_in_cluster;
use leasehold::LockPool;
use leasehold_tests::cluster::{Cluster, MASTERS, Setup};
use leasehold_tests::wait;
use redis::cmd;

use super::{LONG, TTL, code, connect, take};

/// A ttl so short that an unrenewed lease is lost soon.
const SHORT: Duration = Duration::from_secs(6);

/// Creates the user `few` on every node, and returns its URL.
fn user(cluster: &Cluster, rules: &[&str]) -> String {
    let mut acl = cmd("ACL");
    acl.arg("SETUSER").arg("few").arg("reset");
    cluster.run_everywhere(acl.arg("on").arg(">few").arg(rules));
    cluster.url().replace("://", "://few:few@")
}

/// Fails if the documented set of permissions is too small for locks, queues, shared locks, the
/// check, and a moving slot.
#[tokio::test(flavor = "multi_thread")]
async fn the_documented_permissions_are_sufficient() {
    let cluster = Setup::new().start();
    let rule = permissions_in_cluster();
    let documented = include_str!("../../../../../docs/stores/redis.md");
    let of_clusters = rule.find("+asking").expect("it is asked for");
    assert!(documented.contains(&rule[of_clusters..]), "{rule}");
    let rules: Vec<_> = rule.split(' ').collect();
    let url = user(&cluster, &rules);
    let (one, two) = (connect(&url).await, connect(&url).await);
    let report = one.check().await.expect("it answers");
    for code in ["permission", "turns", "unchecked"] {
        assert!(report.find(code).is_none(), "{report}");
    }
    let held = take(&one, "few").await;
    let waiting = wait::started(two.lock("few").ttl(TTL).wait(LONG).acquire()).await;
    held.release().await.expect("held");
    let mut held = waiting.await.expect("its turn");
    held.downgrade().await.expect("it becomes a share");
    held.release().await.expect("held");
    let short = one.lock("few").ttl(SHORT).wait(LONG).watchdog().acquire();
    let short = short.await.expect("free");
    let slot = cluster.slot("lock:few");
    let to = (cluster.owner(slot) + 1) % MASTERS;
    cluster.begin_move(slot, to);
    while cluster.move_keys(slot, to, 10) > 0 {}
    tokio::time::sleep(SHORT + Duration::from_secs(1)).await;
    short.check().expect("it is renewed where it is now");
    cluster.finish_move(slot, to);
    short.release().await.expect("held");
}

/// Fails if the error or the finding about a missing permission does not name this permission.
#[tokio::test(flavor = "multi_thread")]
async fn a_missing_cluster_permission_is_named() {
    let cluster = Setup::new().start();
    let rule = permissions_in_cluster();
    let without = |missing: &str| {
        let rules: Vec<_> = rule.split(' ').filter(|rule| *rule != missing).collect();
        user(&cluster, &rules)
    };
    let builder = LockPool::builder().url(without("+cluster|slots"));
    let error = builder.io_timeout(LONG).connect().await;
    let error = error.expect_err("the map cannot be read");
    assert_eq!(code(&error), "NOPERM");
    assert!(error.to_string().contains("+cluster|slots"), "{error}");
    let pool = connect(&without("+cluster|info")).await;
    let report = pool.check().await.expect("it answers");
    let found = report.find("unchecked").expect("the state is not known");
    assert!(found.text.contains("+cluster|info"), "{found}");
    assert!(report.is_ready(), "{report}");
    take(&pool, "k").await.release().await.expect("held");
}
