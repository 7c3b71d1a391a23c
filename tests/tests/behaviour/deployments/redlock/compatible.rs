//! Tests that the lock on each node has the form of the Redlock convention.

use std::time::Duration;

use leasehold::LockError;
use leasehold_tests::probe::Probe;
use leasehold_tests::wait;

use super::nodes::{TTL, count, pool, shared};

#[tokio::test]
async fn all_nodes_carry_one_token() {
    let nodes = shared(5, TTL);
    let probes = nodes.probes();
    let pool = pool(nodes).await;
    let guard = pool
        .lock("token")
        .ttl(TTL)
        .acquire()
        .await
        .expect("it is free");
    assert_eq!(
        guard.fence(),
        None,
        "independent nodes have no fence in common"
    );
    wait::until("all nodes have it", TTL / 2, || {
        count(&probes, "token") == 5
    });
    let values: Vec<_> = probes.iter().map(|probe| probe.get("token")).collect();
    let first = values[0].as_deref().expect("it is there");
    let (token, record) = first.split_once(':').expect("token:record");
    let process = std::process::id().to_string();
    assert!(token.len() == 32 && record.contains(&process), "{first:?}");
    let carries = |value: &String| value.starts_with(&format!("{token}:"));
    assert!(
        values
            .iter()
            .all(|value| value.as_ref().is_some_and(carries)),
        "{values:?}"
    );
    for probe in &probes {
        let left = probe.ttl("token").expect("it expires");
        assert!(left <= TTL && probe.kind("token") == "string");
    }
    guard.release().await.expect("it is held");
}

/// Another client takes the lock like redsync: with `SET NX PX` on each node. Fails if leasehold
/// then gets the lock.
#[tokio::test]
async fn a_client_with_a_majority_excludes_leasehold() {
    let nodes = shared(3, TTL);
    let probes = nodes.probes();
    let pool = pool(nodes).await;
    assert!(probes[0].take("foreign", TTL * 20) && probes[1].take("foreign", TTL * 20));
    let error = pool.lock("foreign").ttl(TTL).acquire().await;
    let error = error.expect_err("another has it");
    let LockError::Contended { retry_after, .. } = error else {
        panic!("{error}");
    };
    assert!(retry_after.is_some_and(|left| left > TTL * 10 && left <= TTL * 20));
    wait::until("the third node is cleaned", TTL / 2, || {
        count(&probes[2..], "foreign") == 0
    });
    assert!(probes[0].untouched("foreign") && probes[1].untouched("foreign"));
    probes[0].give_back("foreign");
    let guard = pool.lock("foreign").ttl(TTL).acquire().await;
    let guard = guard.expect("a foreign minority is no lock");
    guard.release().await.expect("it is held");
    assert!(probes[1].untouched("foreign"));
}

#[tokio::test]
async fn leasehold_excludes_another_client() {
    let nodes = shared(3, TTL);
    let probes = nodes.probes();
    let pool = pool(nodes).await;
    let guard = pool
        .lock("ours")
        .ttl(TTL)
        .acquire()
        .await
        .expect("it is free");
    let taken = probes
        .iter()
        .filter(|probe| probe.take("ours", TTL))
        .count();
    assert!(taken <= 1, "another client got {taken} of 3");
    guard.release().await.expect("it is held");
}

/// Another client releases a lock without a notification. Fails if a waiting call does not detect
/// the release by repeating its request.
#[tokio::test]
async fn a_waiter_finds_another_clients_release() {
    let nodes = shared(3, TTL);
    let probes = nodes.probes();
    let pool = pool(nodes).await;
    for probe in &probes {
        assert!(probe.take("waiter", TTL * 60));
    }
    let call = pool.lock("waiter").ttl(TTL).wait(TTL * 20);
    let call = tokio::spawn(async move { call.acquire().await.map(drop) });
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!call.is_finished());
    for probe in &probes {
        probe.give_back("waiter");
    }
    call.await.expect("no panic").expect("it is free now");
}
