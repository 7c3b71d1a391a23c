//! Tests of restarted nodes, which have forgotten their locks.

use std::sync::Arc;
use std::time::Duration;

use leasehold::LockPool;
use leasehold_tests::clock;
use leasehold_tests::lateness::Excuse;
use leasehold_tests::recorder::{Recorder, Violation};

use leasehold_tests::proxy::{Mode, Proxy};
use leasehold_tests::quorum::{self, Quorum};
use leasehold_tests::wait;
use tokio::task::JoinSet;

use super::nodes::{LONG, pool};

/// The ttl is short, because a restarted node votes only after the longest ttl in use and two more
/// seconds.
const TTL: Duration = Duration::from_secs(1);

/// Takes the lock again and again, and holds it for about half a ttl each time.
async fn work(pool: &LockPool, recorder: &Recorder, until: u64) {
    while clock::now() < until {
        let request = pool.lock("k").ttl(TTL).wait(TTL * 2);
        let Ok(guard) = request.acquire().await else {
            continue;
        };
        // The deadline is in nanoseconds, but the recorder counts in microseconds.
        let deadline = leasehold::__test::confirmed(&guard.handle()) / 1_000;
        let inside = recorder.enter("k", None, deadline);
        tokio::time::sleep(guard.remaining() / 2).await;
        drop(inside);
        let _ = guard.release().await;
    }
}

/// Connects a pool to three nodes, and then cuts it off from the third node.
async fn without_the_third(nodes: &Quorum) -> (LockPool, Vec<Proxy>) {
    let servers = nodes.servers.iter();
    let proxies: Vec<_> = servers.map(|one| Proxy::start(one.address())).collect();
    let url = quorum::url(proxies.iter().map(Proxy::address), "max_ttl=100ms");
    let pool = wait::connected(LockPool::builder().url(url)).await;
    proxies[2].set(Mode::Refuse);
    proxies[2].cut();
    (pool, proxies)
}

/// One node never had the lock, and another node loses it in a restart. Fails if the restarted node
/// votes, because these two of three nodes would then accept a second holder.
#[tokio::test]
async fn a_node_restarted_empty_does_not_vote() {
    let ttl = TTL * 3;
    let mut nodes = Quorum::older_than(3, ttl);
    let (one, _proxies) = without_the_third(&nodes).await;
    let two = pool(&nodes).await;
    for round in 0..3 {
        let key = format!("k{round}");
        // The call waits, because on a busy machine two of three nodes may not answer the first
        // attempt.
        let guard = one.lock(&key).ttl(ttl).wait(LONG).acquire().await;
        let guard = guard.expect("two of three vote");
        nodes.servers[1].restart();
        let second = two.lock(&key).ttl(ttl).wait(guard.remaining());
        let second = second.acquire().await;
        assert!(
            second.is_err() || guard.check().is_err(),
            "two hold one lock (round {round})"
        );
        drop(guard);
        // After this sleep, the restarted node votes again. The pool counts the node's quarantine
        // from the first connection to the restarted server, so the sleep is longer than the
        // quarantine.
        tokio::time::sleep(ttl + TTL * 3).await;
    }
}

/// Like the test above, but the pool's connection to the restarted node breaks again and again. A
/// new connection must not let the node vote earlier.
#[tokio::test]
async fn a_new_connection_does_not_shorten_the_quarantine() {
    let ttl = TTL * 6;
    let mut nodes = Quorum::older_than(3, ttl);
    let (one, _proxies) = without_the_third(&nodes).await;
    let two = pool(&nodes).await;
    let guard = one.lock("k").ttl(ttl).wait(LONG).acquire().await;
    let guard = guard.expect("two of three vote");
    let excuse = Excuse::begin();
    nodes.servers[1].restart();
    let mut kill = redis::cmd("CLIENT");
    kill.arg("KILL")
        .arg("TYPE")
        .arg("normal")
        .arg("SKIPME")
        .arg("yes");
    let probe = nodes.servers[1].probe();
    let mut list = redis::cmd("CLIENT");
    list.arg("LIST");
    // Each of the two pools has one connection to the node, with a name.
    let connected = || {
        let clients: String = probe.run(&list);
        let ours = clients.lines();
        let ours = ours.filter(|client| client.contains("name=leasehold:"));
        ours.count() >= 2
    };
    let (mut tries, mut reconnected) = (0, 0);
    while guard.check().is_ok() {
        probe.run::<u64>(&kill);
        reconnected += u32::from(wait::try_until_async(guard.remaining(), connected).await);
        let second = two.lock("k").ttl(ttl).wait(TTL / 4).acquire().await;
        assert!(
            second.is_err() || guard.check().is_err(),
            "two hold one lock (try {tries})"
        );
        tries += 1;
    }
    let is_late = TTL < excuse.so_far();
    assert!(
        reconnected > 2 || is_late,
        "{tries} tries, only {reconnected} of them on a new connection"
    );
}

/// Restarts the nodes one after the other under load. Fails if an oracle finds two overlapping
/// leases of the lock.
#[tokio::test(flavor = "multi_thread")]
async fn restarts_under_load_cause_no_overlap() {
    let mut nodes = Quorum::older_than(3, TTL);
    let recorder = Arc::new(Recorder::new());
    let until = clock::in_future(TTL * 15);
    let mut working = JoinSet::new();
    for _ in 0..3 {
        let (pool, recorder) = (pool(&nodes).await, Arc::clone(&recorder));
        working.spawn(async move { work(&pool, &recorder, until).await });
    }
    for round in 0.. {
        if clock::now() >= until {
            break;
        }
        tokio::task::block_in_place(|| nodes.servers[round % 3].restart());
        // The next node restarts only after this node votes again and has some new locks.
        tokio::time::sleep(TTL * 4).await;
    }
    working.join_all().await;
    assert!(recorder.len() > 5, "{} sections", recorder.len());
    // On a busy machine a body may leave after the end of its lease. Only overlaps of two leases
    // count here.
    let mut violations = recorder.violations();
    violations.retain(
        |found| matches!(found, Violation::Overlap(one, two) if two.entered < one.deadline),
    );
    assert!(violations.is_empty(), "{violations:?}");
}
