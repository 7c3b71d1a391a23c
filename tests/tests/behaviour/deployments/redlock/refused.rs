//! Tests that faults of the nodes are reported when the pool connects.

use std::time::Duration;

use leasehold::{LockError, LockPool};
use leasehold_tests::server::{Server, ServerOptions};
use leasehold_tests::wait;

use leasehold_tests::quorum::Quorum;

use super::nodes::{LONG, TTL, builder};

async fn refusal(url: &str) -> LockError {
    // The timeout is long, because a timeout on a busy machine would hide the expected error.
    let builder = LockPool::builder().url(url).io_timeout(LONG);
    let connected = builder.connect().await;
    connected.map(drop).expect_err("it is refused")
}

async fn misconfigured(url: &str, expected: &str) {
    let error = refusal(url).await;
    assert!(matches!(error, LockError::Config { .. }), "{error}");
    assert!(error.to_string().contains(expected), "{error}");
}

#[tokio::test]
async fn too_few_nodes_are_refused() {
    misconfigured("redlock://127.0.0.1:1,127.0.0.1:2", "at least 3 nodes").await;
}

#[tokio::test]
async fn one_server_with_two_names_is_refused() {
    let nodes = Quorum::young(3);
    let [a, b, _] = [0, 1, 2].map(|node| nodes.servers[node].port());
    misconfigured(
        &format!("redlock://127.0.0.1:{a},127.0.0.1:{b},127.0.0.1:{a}"),
        "twice",
    )
    .await;
    let hidden = format!("redlock://127.0.0.1:{a},127.0.0.1:{b},localhost:{a}");
    misconfigured(&hidden, "the same server as").await;
}

#[tokio::test]
async fn a_replica_is_not_accepted() {
    let nodes = Quorum::young(2);
    let replica = ServerOptions::new().replica_of(&nodes.servers[0]).start();
    let url = nodes
        .url()
        .replace("/?", &format!(",{}/?", replica.address()));
    misconfigured(&url, "it is a replica").await;
}

#[tokio::test]
async fn a_cluster_node_is_refused_in_a_quorum() {
    let nodes = Quorum::young(2);
    let member = ServerOptions::new()
        .option("cluster-enabled", &["yes"])
        .start();
    let url = nodes
        .url()
        .replace("/?", &format!(",{}/?", member.address()));
    misconfigured(&url, "member of a cluster").await;
}

#[tokio::test]
async fn a_missing_majority_is_refused() {
    let mut nodes = Quorum::young(3);
    nodes.servers[0].kill();
    nodes.servers[1].kill();
    let error = refusal(&nodes.url()).await;
    assert!(matches!(error, LockError::Unavailable { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("2 of 3 nodes"), "{text}");
    assert!(
        text.contains(&nodes.servers[1].port().to_string()),
        "{text}"
    );
}

#[tokio::test]
async fn one_wrong_password_is_refused() {
    let nodes = Quorum::young(2);
    let locked = ServerOptions::new().password("hunter2").start();
    let url = nodes
        .url()
        .replace("/?", &format!(",{}/?", locked.address()));
    let error = refusal(&url).await.to_string();
    assert!(error.contains("password"), "{error}");
}

#[tokio::test]
async fn the_password_of_the_first_node_applies_to_all() {
    let server = || ServerOptions::new().password("hunter2").start();
    let servers: [Server; 3] = [server(), server(), server()];
    let [a, b, c] = servers.each_ref().map(Server::address);
    let url = format!("redlock://:hunter2@{a},{b},{c}?max_ttl=100ms");
    let pool = wait::connected(LockPool::builder().url(url)).await;
    let shown = format!("{pool:?}");
    assert!(
        shown.contains(&a.to_string()) && !shown.contains("hunter2"),
        "{shown}"
    );
}

/// Fails if nodes vote on a lock before they have run for its ttl. Also fails if a waiting call
/// does not get the lock after that time.
#[tokio::test]
async fn young_nodes_do_not_vote_until_they_are_older() {
    // The nodes vote only after they have run for this ttl. The first call ends before that time,
    // even on a busy machine.
    let ttl = TTL * 2;
    let nodes = Quorum::young(3);
    let pool = builder(&nodes).io_timeout(Duration::from_secs(2));
    let pool = wait::connected(pool).await;
    let error = pool.lock("k").ttl(ttl).acquire().await;
    let error = error
        .expect_err("they may have forgotten locks")
        .to_string();
    assert!(error.contains("restarted recently"), "{error}");
    let guard = pool.lock("k").ttl(ttl).wait(LONG).acquire().await;
    drop(guard.expect("they are old enough by now"));
    wait::until("it is released", TTL, || {
        nodes.probes().iter().all(|probe| probe.get("k").is_none())
    });
}
