//! Tests of `force_release` whose answer is lost after the server has taken the lock away. Another
//! process then has the lock, and must keep it. On etcd and ZooKeeper, each request names the
//! holder's node, so repeated requests cannot affect the next holder.

use std::time::Duration;

use leasehold::{LockPool, LockState};
use leasehold_tests::postgres::Postgres;
use leasehold_tests::proxy::{After, Mode, Proxy};
use leasehold_tests::quorum::{self, Quorum};
use leasehold_tests::rerun::fails_with;
use leasehold_tests::server::Server;
use leasehold_tests::stores::NO_OUTAGE;
use leasehold_tests::{cluster, sentinel, wait};

use super::{LONG, TTL, seen};

/// Delay of each message. A connection takes several times as long to open, so the next process has
/// the lock before a repeated request arrives.
const DELAY: Duration = Duration::from_millis(200);

/// The beginning of the Redis command that takes a lock away, or inspects it: an array of seven
/// texts. The commands that take a lock have more.
const EVALSHA: &str = "*7\r\n$7\r\nEVALSHA";

/// Takes a kept lock away while another process waits for it, and loses the answers to `command`.
/// The other process connects to the first URL, and the operator to the second, through `networks`.
/// Fails if the pool repeats the request, which takes the lock away from the other process.
async fn the_next_holder_keeps_its_lock(urls: [&str; 2], networks: &[Proxy], command: &str) {
    let connect = |url| wait::connected(LockPool::builder().url(url).io_timeout(NO_OUTAGE));
    let (next, operator) = (connect(urls[0]).await, connect(urls[1]).await);
    let guard = next.lock("k").ttl(LONG).acquire().await.expect("free");
    guard.release_after(LONG).await.expect("held");
    // The pool keeps the connection of this question, and uses it for the next one, too.
    seen(&operator, "k", |lock| lock.state == LockState::Kept).await;
    let waiting = tokio::spawn(next.lock("k").ttl(TTL).wait(LONG).acquire());
    if !urls[0].starts_with("redlock") {
        seen(&operator, "k", |lock| lock.waiting.len() == 1).await;
    }
    for network in networks {
        network.set(Mode::Delay {
            least: DELAY,
            jitter: Duration::ZERO,
        });
        network.lose_replies(command, 1, After::Cut);
    }
    let taken = operator.force_release("k").await;
    assert!(taken.expect_err("no answer").is_unavailable());
    let lost: u64 = networks.iter().map(|network| network.counts().lost).sum();
    assert!(0 < lost, "an answer was lost");
    let guard = waiting.await.expect("no panic").expect("the lock is free");
    networks.iter().for_each(Proxy::pass);
    let lock = operator.inspect("k").await.expect("it answers");
    assert!(
        lock.holders.iter().all(|holder| !holder.revoked),
        "{lock:?}"
    );
    guard.release().await.expect("held");
}

#[tokio::test]
async fn on_redis() {
    let server = Server::start();
    let network = Proxy::start(server.address());
    let urls = [&*server.url(), &network.url()];
    the_next_holder_keeps_its_lock(urls, &[network], EVALSHA).await;
}

#[tokio::test]
async fn behind_a_sentinel() {
    let server = Server::start();
    let network = Proxy::start(server.address());
    let deployment = sentinel::Setup::new().start_naming_port(network.address().port());
    let url = deployment.url();
    the_next_holder_keeps_its_lock([&url, &url], &[network], EVALSHA).await;
}

#[tokio::test]
async fn in_a_cluster() {
    let cluster = cluster::Setup::new().start();
    let networks = cluster.proxies();
    let addresses = networks.iter().map(|network| network.address().to_string());
    let addresses = addresses.collect::<Vec<_>>().join(",");
    let url = format!("redis-cluster://{addresses}");
    // The nodes redirect all clients to the networks.
    the_next_holder_keeps_its_lock([&url, &url], &networks, EVALSHA).await;
}

#[tokio::test]
async fn on_a_quorum() {
    let nodes = Quorum::old(3);
    let networks = nodes.proxies();
    let url = quorum::url(networks.iter().map(Proxy::address), "node_timeout=10s");
    the_next_holder_keeps_its_lock([&nodes.url(), &url], &networks, EVALSHA).await;
}

#[tokio::test]
async fn on_postgres() {
    let database = Postgres::shared().migrated();
    let network = Proxy::start_postgres(database.address());
    let url = database.url_over(network.address());
    let urls = [&*database.url(), &url];
    the_next_holder_keeps_its_lock(urls, &[network], "leasehold.take_away").await;
}

/// Fails if one of the tests above passes although the pool repeats the request.
#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn a_repeated_request_is_detected() {
    for test in [
        "seeing::lost_answers::on_redis",
        "seeing::lost_answers::behind_a_sentinel",
        "seeing::lost_answers::in_a_cluster",
        "seeing::lost_answers::on_a_quorum",
        "seeing::lost_answers::on_postgres",
    ] {
        fails_with("ForcedReleaseRepeated", test);
    }
}
