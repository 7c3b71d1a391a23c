//! Tests of sessions. A session must outlast its leases, and all its holders must be notified of
//! its end.

use std::time::{Duration, Instant};

use leasehold::LockPool;
use leasehold_tests::lateness::Excuse;
use leasehold_tests::pipe::{Flow, Pipe};
use leasehold_tests::rerun::fails_with;
use leasehold_tests::session_server::{SessionProbe as _, SessionServer as _, leader};
use leasehold_tests::wait;
use leasehold_tests::zookeeper::{Settings, Zookeeper};

use super::TTL;
use crate::deployments::session_servers::sessions::{
    a_lease_ends, five_in_one_session, is_lost, keeps_no_lock_without_its_node,
};
use crate::deployments::session_servers::{
    HELD, LONG, connect, connect_patiently, on_one_thread, take, works,
};

on_one_thread! { Zookeeper, sessions: a_removed_node_is_a_lost_lock }

/// Returns the timeout of a session, as granted by the server. `None` while the server is silent,
/// or while the client reconnects.
fn lasts(server: &Zookeeper, session: i64) -> Option<Duration> {
    let printed = server.word("cons")?;
    let name = format!("sid=0x{session:x},");
    let line = printed.lines().find(|line| line.contains(&name))?;
    let fields = line.split(',');
    let mut timeouts = fields.filter_map(|field| field.strip_prefix("to="));
    let timeout = timeouts.next().expect("it has a timeout");
    Some(Duration::from_millis(timeout.parse().expect("a number")))
}

/// Fails if some locks of an ended session still count as held, or if the lock of another session
/// ends too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_session_is_reported_to_all_holders() {
    let server = Settings::new().longest_session(LONG * 2).start();
    let (through, direct) = (
        Pipe::start(server.address()),
        connect_patiently(&server.url("lost")).await,
    );
    let pool = connect(&Zookeeper::url_of_all([through.address()], "lost")).await;
    let probe = server.probe("lost", "lock:");
    let kept = |key: String| pool.lock(key).ttl(TTL).watchdog();
    let (guards, session) = five_in_one_session::<Zookeeper>(&probe, kept).await;
    let other = direct.lock("other").ttl(HELD).watchdog().acquire().await;
    let other = other.expect("it is free");
    assert_ne!(probe.nodes("other")[0].session, session, "another pool");
    through.set(Flow::BlackHole);
    wait::until_async("all are notified", LONG, || guards.iter().all(is_lost)).await;
    assert!(other.check().is_ok(), "its session is another");
    let gone = || (0..5).all(|number| probe.nodes(&format!("k{number}")).is_empty());
    wait::until_async("their nodes end", LONG, gone).await;
    through.set(Flow::Pass);
    works::<Zookeeper>(&pool, "k0").await;
    other.release().await.expect("held");
}

/// Fails if a lock stays held after its session's own node was deleted.
#[tokio::test]
async fn a_session_without_its_node_keeps_no_lock() {
    let ask = |pool: &LockPool| pool.lock("k").ttl(TTL).watchdog();
    keeps_no_lock_without_its_node::<Zookeeper>("no-node", ask, LONG).await;
}

/// Fails if a lock's session is shorter than its lease.
#[tokio::test]
async fn a_session_is_longer_than_its_leases() {
    let server = Zookeeper::start();
    let pool = connect(&server.url("longer")).await;
    let probe = server.probe("longer", "lock:");
    for ttl in [100, 1_000, 3_000, 5_000, 6_000] {
        let ttl = Duration::from_millis(ttl);
        let guard = pool
            .lock("k")
            .ttl(ttl)
            .wait(LONG)
            .watchdog()
            .acquire()
            .await;
        let guard = guard.unwrap_or_else(|error| panic!("{ttl:?}: {error}"));
        wait::until_async("its session is seen", LONG, || {
            // On a busy machine a short lease may already be over. The node of a longer lease must
            // exist.
            let nodes = probe.nodes("k");
            let Some(node) = nodes.first() else {
                return ttl < Duration::from_secs(3);
            };
            let Some(lasts) = lasts(&server, node.session) else {
                return false;
            };
            assert!(ttl < lasts, "{lasts:?} for {ttl:?}");
            assert!(lasts <= Duration::from_secs(10), "{lasts:?} for {ttl:?}");
            true
        })
        .await;
        drop(guard);
    }
}

/// The leader stops until another server leads, and then answers the pool again although it was
/// replaced. Fails if the lock still counts as held after the new leader has ended the session and
/// deleted the lock's node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replaced_leader_confirms_nothing() {
    const ROUNDS: u32 = 1;
    for round in 0..ROUNDS {
        let (servers, network) = Settings::new().ensemble_with_network(3);
        let old = leader(&servers, None);
        let pool = connect(&servers[old].url("replaced")).await;
        let asked = pool.lock("k").ttl(TTL).watchdog().wait(LONG);
        let held = asked.acquire().await;
        let held = held.expect("it is free");
        servers[old].pause();
        network.set(old, Flow::BlackHole);
        let new = leader(&servers, Some(old));
        servers[old].resume();
        let resumed = Instant::now();
        let probe = servers[new].probe("replaced", "lock:");
        wait::until_async("its node is there", LONG, || !probe.nodes("k").is_empty()).await;
        wait::until_async("its node ends", LONG, || probe.nodes("k").is_empty()).await;
        assert!(held.check().is_err(), "round {round}: held without a node");
        println!("round {round}: gone {:?} after", resumed.elapsed());
        network.set(old, Flow::Pass);
        network.cut(old);
        works::<Zookeeper>(&pool, "k").await;
    }
}

/// Fails if a heartbeat confirms the session before the leader has received it. The client's server
/// informs the leader up to half a tick later. So a heartbeat consists of three writes, with a
/// pause after the first, and counts only after the third.
#[tokio::test]
async fn a_heartbeat_counts_after_the_leader_has_received_it() {
    let server = Zookeeper::start();
    let pool = connect(&server.url("heard")).await;
    let probe = server.probe("heard", "lock:");
    let held = pool.lock("k").ttl(TTL).watchdog().wait(LONG);
    let held = held.acquire().await.expect("it is free");
    let session = probe.nodes("k")[0].session;
    let own = probe.own_node(session);
    let writes = || {
        let own = probe.client().node(&own).expect("the session lives");
        own.writes
    };
    let before = writes();
    wait::until_async("a heartbeat begins", LONG, || before < writes()).await;
    let (begun, excuse) = (Instant::now(), Excuse::begin());
    wait::until_async("it is over", LONG, || before + 3 <= writes()).await;
    // The next heartbeat is sent after three seconds, a third of the session. This limit is
    // shorter.
    let most = Duration::from_millis(1_500) + excuse.so_far();
    assert!(begun.elapsed() < most, "{:?}", begun.elapsed());
    held.release().await.expect("held");
}

/// Fails if the named test does not detect a release that removes the node of another holder.
#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn a_release_of_another_holder_is_detected() {
    let test = "bodies::exits::zookeeper::the_lock_is_stolen";
    fails_with("DeleteWithoutCompare", test);
}

#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn a_wrongly_accepted_heartbeat_is_detected() {
    let test =
        "deployments::zookeeper::sessions::a_heartbeat_counts_after_the_leader_has_received_it";
    fails_with("HeartbeatBelieved", test);
}

/// Fails if an unrenewed lease lasts as long as its session.
#[tokio::test]
async fn an_unrenewed_lease_ends() {
    let server = Zookeeper::shared();
    let pool = connect_patiently(&server.url("ended")).await;
    let probe = server.probe("ended", "lock:");
    let ttl = Duration::from_secs(6);
    let stays = pool.lock("stays").ttl(ttl).watchdog().acquire().await;
    let stays = stays.expect("it is free");
    let session = a_lease_ends::<Zookeeper>(&pool, &probe, ttl).await;
    let goes_on = probe.nodes("stays");
    assert_eq!(goes_on[0].session, session, "the session goes on");
    stays.release().await.expect("held");
    works::<Zookeeper>(&pool, "k").await;
}

/// Fails if a lock counts as free or held although its directory contains a node of an unknown
/// kind. Also fails if such a node makes the pool unusable.
#[tokio::test]
async fn a_foreign_node_is_reported() {
    let server = Zookeeper::shared();
    let pool = connect(&server.url("foreign")).await;
    let probe = server.probe("foreign", "lock:");
    let path = format!("{}/notes", probe.directory("k"));
    probe.client().make_path(&path);
    let refused = pool.lock("k").ttl(TTL).acquire().await;
    let error = refused
        .map(drop)
        .expect_err("it is no lock of Curator's kind");
    assert!(!error.is_contention(), "{error}");
    assert!(probe.delete(&path));
    drop(take::<Zookeeper>(&pool, "k").await);
    works::<Zookeeper>(&pool, "other").await;
}
