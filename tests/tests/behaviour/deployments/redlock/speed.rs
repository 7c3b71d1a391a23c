//! Measures the cost of a quorum. The results are only printed, because other tests run at the same
//! time.

use std::time::{Duration, Instant};

use leasehold::LockPool;
use leasehold_tests::server::Server;
use leasehold_tests::wait;

use super::nodes::{LONG, TTL, pool, shared};

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

/// Prints the time of an acquire and a release, on a quorum and on a single server. On a quorum,
/// each request needs one parallel round trip, instead of one round trip for each node. Calls on
/// the quorum and on the server alternate, so that they run under the same load.
#[tokio::test]
async fn an_acquire_and_a_release_cost_one_round_trip_each() {
    let server = Server::start();
    let nodes = shared(3, TTL);
    let one = wait::connected(LockPool::builder().url(server.url())).await;
    let three = pool(nodes).await;
    let (mut single, mut quorum) = (Vec::new(), Vec::new());
    for _ in 0..500 {
        single.push(pair(&one).await);
        quorum.push(pair(&three).await);
    }
    let (single, quorum) = (median(single), median(quorum));
    let ratio = quorum.as_secs_f64() / single.as_secs_f64();
    println!("a pair: one server {single:?}, three nodes {quorum:?}, {ratio:.2} x");
}
