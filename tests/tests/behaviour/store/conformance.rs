//! Tests that the stores behave as the engine expects. `deployments` has the same tests for a
//! cluster and a quorum.

use std::time::Duration;

use leasehold::__test::{conformance, conformance_of_queues, interleave};
use leasehold_tests::etcd::Etcd;
use leasehold_tests::postgres::Postgres;
use leasehold_tests::probe::Probe;
use leasehold_tests::random::Random;
use leasehold_tests::rerun::fails_with;
use leasehold_tests::server::Server;
use leasehold_tests::session_server::{SessionProbe as _, SessionServer};
use leasehold_tests::stores::Store;
use leasehold_tests::zookeeper::Zookeeper;

/// Key of the fence counter of the namespace.
const FENCES: &str = "lock:%leasehold:fence";

#[tokio::test]
async fn memory() {
    conformance("memory://conformance").await;
    conformance_of_queues("memory://conformance").await;
}

/// An acquire of several keys that is sent again with the same tokens must begin a new ttl. Fails
/// if the suite does not detect a store that keeps the rest of the old ttl.
#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn a_repeat_that_keeps_the_old_ttl_is_detected() {
    fails_with("RepeatShortened", "store::conformance::redis");
}

/// Fails if the suite does not detect a late renewal that lengthens a cooldown.
#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn a_renewed_kept_key_is_detected() {
    fails_with("KeptTokenStays", "store::conformance::redis");
}

/// Fails if the suite does not detect a late renewal that lengthens a kept shared lock.
#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn a_renewed_kept_share_is_detected() {
    fails_with("KeptShareStays", "store::conformance::redis");
}

/// Fails if the suite does not detect a store that frees a released permit at once, although the
/// permit should be kept for a while.
#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn a_freed_kept_share_is_detected() {
    fails_with("ShareNotKept", "store::conformance::redis");
}

/// Fails if the suite does not detect a pool that treats a connection as silent although a received
/// answer was not read yet.
#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn an_unread_answer_is_detected() {
    fails_with("SilenceUnread", "store::conformance::postgres");
    fails_with("SilenceUnread", "store::conformance::redis");
}

#[tokio::test]
async fn redis() {
    let server = Server::start();
    conformance(&server.url()).await;
    let probe = server.probe();
    // Fences usually follow the server's clock. Here, the counter is ahead of the clock, as after
    // the clock was set back. So fences grow only because of the counter.
    probe.overwrite(FENCES, "4000000000000000", Duration::from_secs(60));
    conformance(&server.url()).await;
    conformance_of_queues(&server.url()).await;
    assert_eq!(probe.keys("*"), [FENCES], "nothing is left");
}

#[tokio::test]
async fn sentinel() {
    let store = Store::sentinel("conformance");
    conformance(&store.url).await;
    conformance_of_queues(&store.url).await;
}

/// SQL that counts all rows of locks, shares and waiting processes.
const ROWS: &str = "SELECT (SELECT count(*) FROM leasehold.locks) + (SELECT count(*) FROM leasehold.shares) + (SELECT count(*) FROM leasehold.waiters)";

#[tokio::test]
async fn postgres() {
    let database = Postgres::shared().migrated();
    let url = database.url();
    let probe = database.probe("lock:");
    conformance(&url).await;
    // Fences of new rows are greater than the floor in `leasehold.meta`. This floor is ahead of the
    // server's clock, as after the clock was set back. So fences grow only because of the tables.
    probe.value("UPDATE leasehold.meta SET floor = 4000000000000000");
    conformance_of_queues(&url).await;
    let seed = Random::seeded("interleaved in PostgreSQL").next_u64();
    let compared = interleave(&url, seed, 5_000).await;
    compared.unwrap_or_else(|difference| panic!("seed {seed}: {difference}"));
    probe.value("UPDATE leasehold.locks SET fence = 5000000000000000, expires_at = clock_timestamp() - interval '1 s'");
    probe.value("SELECT leasehold.sweep('0 s', 10000)");
    assert_eq!(probe.value(ROWS), "0", "nothing is left");
    // `leasehold.sweep` has removed the rows of idle keys with their counters. The fence of such a
    // key must still grow.
    assert!(probe.take("swept", Duration::from_secs(60)));
    let fence = "SELECT fence > 5000000000000000 FROM leasehold.locks WHERE key = 'lock:swept'";
    assert_eq!(probe.value(fence), "t", "its fence went back");
}

async fn of_sessions<S: SessionServer>() {
    let server = S::shared();
    let url = server.url("conformance");
    conformance(&url).await;
    conformance_of_queues(&url).await;
    let left = server.probe("conformance", "lock:").left();
    assert!(left.is_empty(), "nothing is left: {left:?}");
}

#[tokio::test]
async fn etcd() {
    of_sessions::<Etcd>().await;
}

#[tokio::test]
async fn zookeeper() {
    of_sessions::<Zookeeper>().await;
}

/// Fails if the suite does not detect a store that treats another session's znode as its own.
#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn a_znode_of_another_session_is_detected() {
    fails_with("NodesOfAnySession", "store::conformance::zookeeper");
}

/// Fails if the suite does not detect a store that treats another session's node as its own.
#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn a_node_of_another_session_is_detected() {
    fails_with("NodesOfAnySession", "store::conformance::etcd");
}

/// Fails if the suite does not detect a lease that lasts as long as its process.
#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn an_endless_lease_is_detected() {
    fails_with("LeaseNeverEnds", "store::conformance::etcd");
    fails_with("LeaseNeverEnds", "store::conformance::zookeeper");
}
