//! Measures the cost of a quorum. The times are only printed, because other tests run at the same
//! time.

use std::time::{Duration, Instant};

use leasehold::LockPool;
use leasehold_tests::lateness::Excuse;
use leasehold_tests::redis_probe::RedisProbe;
use leasehold_tests::server::Server;
use leasehold_tests::wait;

use super::nodes::{LONG, TTL, nodes, pool};

/// Number of times that the lock is taken and released.
const PAIRS: u32 = 500;
/// Default time limit for a node's answer. After this time, a removal is sent again.
const NODE_TIMEOUT: Duration = Duration::from_millis(50);

async fn pair(pool: &LockPool) -> Duration {
    let started = Instant::now();
    let guard = pool
        .lock("pair")
        .ttl(TTL)
        .wait(LONG)
        .acquire()
        .await
        .expect("it is free");
    guard.release().await.expect("it is held");
    started.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// Returns the number of scripts that each node has run.
fn scripts(probes: &[RedisProbe]) -> Vec<u64> {
    let probes = probes.iter();
    probes.map(|probe| probe.calls("evalsha")).collect()
}

/// Prints the time of an acquire and a release, on a quorum and on a single server. On a quorum,
/// each request needs one parallel round trip, instead of one round trip for each node. Calls on
/// the quorum and on the server alternate, so that they run under the same load. Fails if a node
/// gets more than one script for each acquire and each release.
#[tokio::test]
async fn an_acquire_and_a_release_cost_one_round_trip_each() {
    let server = Server::start();
    let nodes = nodes(3);
    let one = wait::connected(LockPool::builder().url(server.url())).await;
    let three = pool(&nodes).await;
    let (mut single, mut quorum) = (Vec::new(), Vec::new());
    let probes = nodes.probes();
    let (before, excuse) = (scripts(&probes), Excuse::begin());
    for _ in 0..PAIRS {
        single.push(pair(&one).await);
        quorum.push(pair(&three).await);
    }
    let is_late = NODE_TIMEOUT < excuse.longest();
    for (after, before) in scripts(&probes).into_iter().zip(before) {
        // A pair is two scripts, or one if a release reaches the node together with the next
        // acquire. An eighth more is accepted, because late requests are sent again.
        let (ran, pairs) = (after - before, u64::from(PAIRS));
        let is_one_each = pairs / 2 < ran && ran < 2 * pairs + pairs / 4;
        assert!(is_one_each || is_late, "{ran} scripts for {pairs} pairs");
    }
    let (single, quorum) = (median(single), median(quorum));
    let ratio = quorum.as_secs_f64() / single.as_secs_f64();
    println!("a pair: one server {single:?}, three nodes {quorum:?}, {ratio:.2} x");
}
