//! Tests that a pool takes the new node of a slot from a redirect if it cannot read the slot map.

use std::time::Duration;

use leasehold::__test::sent_on;
use leasehold_tests::cluster::{Cluster, MASTERS, Setup};
use redis::cmd;

use super::{connect, take};

/// A ttl so short that an unrenewed lease is lost soon. A renewal waits for its answer for a tenth
/// of the ttl, here a second. With a shorter ttl, a renewal on a busy machine would be repeated,
/// and its two redirects would both be counted.
const TTL: Duration = Duration::from_secs(10);

/// Forbids clients to read the slot map of any node. Otherwise the pool would find the new node of
/// a slot in the map, instead of in a redirect.
pub(super) fn hide_the_map(cluster: &Cluster) {
    let mut acl = cmd("ACL");
    acl.arg("SETUSER").arg("default").arg("-cluster|slots");
    cluster.run_everywhere(&acl);
}

/// Slots move while the pool cannot read the slot map, so the pool must learn the new nodes from
/// `MOVED`. Fails if a lease is lost, or if a slot causes more than one redirect.
#[tokio::test(flavor = "multi_thread")]
async fn a_moved_redirect_teaches_the_pool_the_new_node() {
    let cluster = Setup::new().start();
    let pool = connect(&cluster.url()).await;
    let keys: Vec<_> = (0..6).map(|key| format!("moved:{key}")).collect();
    let mut held = Vec::new();
    for key in &keys {
        let lock = pool.lock(key).ttl(TTL).watchdog().acquire().await;
        held.push(lock.expect("free"));
    }
    hide_the_map(&cluster);
    for key in &keys {
        let slot = cluster.slot(&format!("lock:{key}"));
        cluster.reshard(slot, (cluster.owner(slot) + 1) % MASTERS);
    }
    let redirected = redirects(&cluster);
    tokio::time::sleep(TTL + Duration::from_secs(1)).await;
    for (lock, key) in held.into_iter().zip(&keys) {
        lock.check().expect("it is renewed where it is");
        lock.release().await.expect("still held");
        for _ in 0..10 {
            take(&pool, key).await.release().await.expect("held");
        }
    }
    let redirected = redirects(&cluster) - redirected;
    let slots = u64::try_from(keys.len()).expect("they are few");
    assert!(redirected <= slots, "{redirected} redirects");
}

/// Fails if a redirected request is written only after the pool has read all answers that arrived
/// together with the redirect.
#[tokio::test(flavor = "multi_thread")]
async fn a_redirected_request_is_not_delayed_by_answers() {
    let cluster = Setup::new().start();
    let names = (0..).map(|key| format!("lock:sent-on:{key}"));
    let node_of = |key: &String| cluster.owner(cluster.slot(key));
    let mut keys = names.filter(|key| node_of(key) == 0);
    let [stays, moved] = [(); 2].map(|()| keys.next().expect("they do not end"));
    sent_on(&cluster.url(), [&stays, &moved], || {
        hide_the_map(&cluster);
        cluster.reshard(cluster.slot(&moved), 1);
    })
    .await;
}

/// Returns the number of requests that the nodes have redirected with `MOVED`.
fn redirects(cluster: &Cluster) -> u64 {
    let of = |node: usize| {
        let errors: String = cluster.probe(node).run(cmd("INFO").arg("errorstats"));
        let mut lines = errors.lines();
        let moved = lines.find_map(|line| line.strip_prefix("errorstat_MOVED:count="));
        moved.map_or(0, |count| count.trim().parse().expect("a number"))
    };
    (0..MASTERS).map(of).sum()
}
