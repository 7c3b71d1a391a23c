//! Tests that a failed acquire leaves nothing behind.

use std::time::Duration;

use leasehold::__test::given_back;
use leasehold::LockError;
use leasehold_tests::wait;
use tokio::task::JoinSet;

use leasehold_tests::quorum::Quorum;

use super::nodes::{LONG, TTL, count, left, nodes, pool, shared};

const SECOND: Duration = Duration::from_secs(1);

/// Lets 20 calls compete for a lock on `of` nodes. Fails if two of them get the lock, or if no call
/// gets it and single nodes keep it locked.
async fn contend(of: usize) {
    let nodes = shared(of, SECOND * 10);
    let probes = nodes.probes();
    for round in 0..5 {
        // Each contender has a separate pool. With one pool, the queue inside the process would
        // decide which contender gets the lock.
        let mut contenders = Vec::new();
        for _ in 0..20 {
            contenders.push(pool(nodes).await);
        }
        let mut calls = JoinSet::new();
        for pool in contenders {
            calls.spawn(async move {
                let request = pool.lock(format!("hot-{round}"));
                let won = request.ttl(SECOND * 10).acquire().await;
                let won = won.map(std::mem::forget);
                (won, pool)
            });
        }
        let (mut won, mut pools) = (0, Vec::new());
        while let Some(call) = calls.join_next().await {
            let (outcome, pool) = call.expect("no panic");
            won += usize::from(outcome.is_ok());
            if let Err(error) = outcome {
                assert!(matches!(error, LockError::Contended { .. }), "{error}");
            }
            pools.push(pool);
        }
        assert!(won <= 1, "{won} hold one lock");
        if won == 0 {
            wait::until("nothing is left", SECOND * 5, || {
                left(&probes, "hot").is_empty()
            });
        }
        for probe in &probes {
            probe.delete(&format!("hot-{round}"));
        }
    }
}

#[tokio::test]
async fn at_most_one_of_twenty_contenders_wins_on_three_nodes() {
    contend(3).await;
}

#[tokio::test]
async fn at_most_one_of_twenty_contenders_wins_on_five_nodes() {
    contend(5).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_queued_contenders_get_the_lock() {
    let nodes = shared(3, TTL);
    let probes = nodes.probes();
    let mut calls = JoinSet::new();
    for _ in 0..20 {
        let pool = pool(nodes).await;
        calls.spawn(async move {
            let request = pool.lock("queued").ttl(TTL).wait(LONG * 2);
            let guard = request.acquire().await.expect("its turn comes");
            guard.release().await.expect("it is held");
        });
    }
    calls.join_all().await;
    wait::until("nothing is left", SECOND * 5, || {
        left(&probes, "queued").is_empty()
    });
}

/// An acquire fails because two of three nodes hang. Fails if the lock is not removed from these
/// two nodes after they answer again.
#[tokio::test]
async fn a_node_hanging_in_a_failed_acquisition_is_cleaned() {
    let nodes = Quorum::older_than(3, SECOND * 10);
    let probes = nodes.probes();
    let pool = pool(&nodes).await;
    nodes.servers[0].pause();
    nodes.servers[1].pause();
    let call = pool.lock("k").ttl(SECOND * 10).acquire();
    call.await.expect_err("one of three is no majority");
    wait::until("the node that answers is cleaned", SECOND * 5, || {
        count(&probes[2..], "k") == 0
    });
    nodes.servers[0].resume();
    nodes.servers[1].resume();
    // This limit ends before the keys expire, so only the pool can have removed them.
    wait::until("the nodes that hung are cleaned", SECOND * 8, || {
        count(&probes, "k") == 0
    });
}

/// One node grants the lock, and the two others refuse it one after the other. Fails if the pool
/// reads a further answer before it releases the lock on the first node.
#[tokio::test]
async fn partial_grants_are_released_before_the_next_answer() {
    let nodes = Quorum::older_than(3, SECOND * 10);
    let probes = nodes.probes();
    for probe in &probes[1..] {
        probe.overwrite("k", "another's", SECOND * 60);
    }
    let url = nodes.url_with("max_ttl=10s&node_timeout=4s");
    let third = &nodes.servers[2];
    let given = || count(&probes[..1], "k") == 1;
    given_back(&url, "lock:k", || third.pause(), given, || third.resume()).await;
}

#[tokio::test]
async fn a_dropped_future_leaves_nothing_on_any_node() {
    let nodes = shared(3, TTL);
    let probes = nodes.probes();
    let pool = pool(nodes).await;
    for number in 0..50_u64 {
        let call = pool.lock(format!("dropped-{number}")).ttl(TTL).acquire();
        let patience = Duration::from_micros(number * 40);
        let _ = tokio::time::timeout(patience, call).await;
    }
    wait::until("nothing is left", SECOND * 5, || {
        left(&probes, "dropped").is_empty()
    });
}

#[tokio::test]
async fn a_release_reaches_every_node() {
    let nodes = nodes(5);
    let probes = nodes.probes();
    let pool = pool(&nodes).await;
    let guard = pool.lock("k").ttl(TTL).acquire().await.expect("it is free");
    wait::until("all nodes have it", TTL / 2, || count(&probes, "k") == 5);
    nodes.servers[4].pause();
    guard.release().await.expect("it is held");
    wait::until("four nodes have it no more", TTL / 2, || {
        count(&probes[..4], "k") == 0
    });
    nodes.servers[4].resume();
    wait::until("the fifth neither", TTL / 2, || count(&probes, "k") == 0);
}
