//! A node that was restarted has forgotten its votes.

use leasehold::LockPool;
use leasehold_tests::clock;
use leasehold_tests::recorder::Recorder;
use leasehold_tests::wait;

use leasehold_tests::quorum::Quorum;

use super::nodes::{TTL, count, nodes, pool};

/// Holds for about half a ttl, many times over.
async fn work(pool: &LockPool, recorder: &Recorder, until: u64) {
    while clock::now() < until {
        let request = pool.lock("k").ttl(TTL).wait(TTL * 2);
        let Ok(guard) = request.acquire().await else {
            continue;
        };
        let deadline = clock::in_future(guard.remaining());
        let inside = recorder.enter("k", None, deadline);
        tokio::time::sleep(guard.remaining() / 2).await;
        drop(inside);
        let _ = guard.release().await;
    }
}

/// One node loses its lock by a restart, and another never had it: two of three would say yes to a second holder.
#[tokio::test]
async fn a_node_that_was_restarted_empty_does_not_vote() {
    let mut nodes = Quorum::older_than(3, TTL * 3);
    let (one, two) = (pool(&nodes).await, pool(&nodes).await);
    for round in 0..3 {
        let key = format!("k{round}");
        nodes.servers[2].pause();
        let guard = one.lock(&key).ttl(TTL * 3).acquire().await;
        let guard = guard.expect("two of three vote");
        nodes.servers[1].restart();
        nodes.servers[2].resume();
        let second = two.lock(&key).ttl(TTL * 3).wait(guard.remaining());
        let second = second.acquire().await.map(|second| second.remaining());
        assert!(
            second.is_err() || guard.check().is_err(),
            "two hold one lock (round {round})"
        );
        drop(guard);
        wait::until("the lock is over", TTL * 9, || {
            count(&nodes.probes(), &key) == 0
        });
        nodes.grow_older_than(TTL * 3);
    }
}

/// The same beside a connection that breaks again: it must not give the vote back.
#[tokio::test]
async fn a_second_connection_is_no_second_chance() {
    let ttl = TTL * 6;
    let mut nodes = Quorum::older_than(3, ttl);
    let (one, two) = (pool(&nodes).await, pool(&nodes).await);
    nodes.servers[2].pause();
    let guard = one.lock("k").ttl(ttl).acquire().await.expect("it is free");
    nodes.servers[1].restart();
    nodes.servers[2].resume();
    let mut kill = redis::cmd("CLIENT");
    kill.arg("KILL")
        .arg("TYPE")
        .arg("normal")
        .arg("SKIPME")
        .arg("yes");
    let mut tries = 0;
    while guard.check().is_ok() {
        nodes.servers[1].probe().run::<u64>(&kill);
        let second = two.lock("k").ttl(ttl).wait(TTL / 4).acquire().await;
        assert!(
            second.is_err() || guard.check().is_err(),
            "two hold one lock (try {tries})"
        );
        tries += 1;
    }
    assert!(tries > 2, "only {tries} tries");
}

/// Restarts one after the other under load, with the oracle watching.
#[tokio::test(flavor = "multi_thread")]
async fn restarts_under_load_let_nobody_overlap() {
    let mut nodes = nodes(3);
    let recorder = Recorder::new();
    let pools = [pool(&nodes).await, pool(&nodes).await, pool(&nodes).await];
    let until = clock::in_future(TTL * 15);
    let restarting = async {
        for round in 0.. {
            if clock::now() >= until {
                break;
            }
            let server = &mut nodes.servers[round % 3];
            tokio::task::block_in_place(|| server.restart());
            // The next is restarted when this one votes again, and some locks later.
            tokio::time::sleep(TTL * 4).await;
        }
    };
    let [a, b, c] = &pools;
    tokio::join!(
        restarting,
        work(a, &recorder, until),
        work(b, &recorder, until),
        work(c, &recorder, until),
    );
    assert!(recorder.len() > 5, "{} sections", recorder.len());
    recorder.verify();
}
