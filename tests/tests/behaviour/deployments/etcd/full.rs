//! A full database: the server refuses transactions although it has already executed them.

use std::time::Duration;

use leasehold_tests::etcd::Etcd;
use leasehold_tests::rerun::fails_with;
use leasehold_tests::session_server::{SessionProbe as _, SessionServer as _, leader};
use leasehold_tests::wait;

use super::TTL;
use crate::deployments::session_servers::{LONG, connect_patiently, works};

/// The database's size limit in bytes: more than one value of the size `PART`, and less than two of
/// them.
const QUOTA: &str = "--quota-backend-bytes=1500000";
const PART: usize = 800_000;

/// Options with which a leader without its follower stays the leader for 10 s. When the follower is
/// back, the leader commits the requests that it could not commit alone.
const ELECTION: [&str; 2] = ["--election-timeout=10000", "--heartbeat-interval=500"];

/// A full etcd database answers an acquire with an error, although it has created the acquire's
/// nodes. Fails if these nodes stay after the call was dropped. etcd checks the size limit when a
/// request arrives, not when it executes the request. While the follower is stopped, nothing is
/// executed, so two large writes and then the acquire pass the check. When they are executed in
/// this order, the writes fill the database before the acquire.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_acquire_leaves_no_node() {
    let cluster = Etcd::cluster_with(
        2,
        &[QUOTA, "--backend-batch-limit=1", ELECTION[0], ELECTION[1]],
    );
    let leading = leader(&cluster, None);
    let (server, follower) = (&cluster[leading], &cluster[1 - leading]);
    let (gateway, probe) = (server.gateway(), server.probe("full", "lock:"));
    let pool = connect_patiently(&server.url("full")).await;
    works::<Etcd>(&pool, "before").await;
    // This lock keeps the session alive. Without it, the nodes would be deleted together with the
    // session.
    let held = pool.lock("held").ttl(TTL).watchdog().acquire().await;
    let held = held.expect("it is free");

    let wait_for = async |proposed: i64| {
        let is_proposed = || gateway.proposals() == proposed;
        wait::until_async("it is proposed", Duration::from_secs(5), is_proposed).await;
    };
    wait_for(0).await;
    follower.pause();
    let parts = ["part1", "part2"].map(|key| std::thread::spawn(move || gateway.fill(key, PART)));
    wait_for(2).await;
    let acquire = wait::started(pool.lock_all(["a", "b"]).ttl(TTL).acquire()).await;
    wait_for(3).await;
    drop(acquire);
    follower.resume();
    for part in parts {
        part.join().expect("it is answered");
    }
    let is_full = || gateway.fill("more", 1).is_none();
    wait::until_async("the database is full", LONG, is_full).await;
    let left = || probe.nodes("a").len() + probe.nodes("b").len();
    wait::until_async("nothing is left", LONG, || left() == 0).await;
    held.check().expect("its lease goes on");
}

#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn a_leftover_node_is_detected() {
    let test = "deployments::etcd::full::a_refused_acquire_leaves_no_node";
    fails_with("FullIsRefused", test);
}
