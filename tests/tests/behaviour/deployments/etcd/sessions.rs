//! Tests of sessions. A session must outlast its leases, and all holders must be notified of its
//! end.

use std::time::{Duration, Instant};

use leasehold::__test::{etcd_gives_up, etcd_seals, etcd_sees_the_gone};
use leasehold::LockPool;
use leasehold_tests::etcd::Etcd;
use leasehold_tests::pipe::Flow;
use leasehold_tests::random::Random;
use leasehold_tests::rerun::fails_with;
use leasehold_tests::session_server::{SessionProbe as _, SessionServer as _, leader};
use leasehold_tests::wait;

use super::TTL;
use crate::deployments::session_servers::sessions::{
    NOTICE, a_lease_ends, five_in_one_session, is_lost, keeps_no_lock_without_its_node,
};
use crate::deployments::session_servers::{
    LONG, connect, connect_patiently, on_one_thread, take, works,
};

/// The ttl of locks whose shared session lasts for 607 s, about 1 % longer than the ttl. A
/// heartbeat extends that session every 200 s.
const LASTING: Duration = Duration::from_secs(600);

on_one_thread! { Etcd, sessions: a_removed_node_is_a_lost_lock }

/// Fails if the holders are not notified of the end of their session, or are notified only at its
/// next heartbeat.
#[tokio::test]
async fn a_lost_session_is_reported_to_all_holders() {
    let server = Etcd::shared();
    let pool = connect_patiently(&server.url("lost-session")).await;
    let probe = server.probe("lost-session", "lock:");
    let lasting = |key: String| pool.lock(key).ttl(LASTING);
    let (guards, lease) = five_in_one_session::<Etcd>(&probe, lasting).await;
    let short = pool.lock("short").ttl(TTL).watchdog().wait(LONG);
    let short = short.acquire().await.expect("it is free");
    assert_ne!(
        probe.nodes("short")[0].session,
        lease,
        "another for its ttl"
    );
    server.gateway().revoke(lease);
    wait::until_async("all are notified", NOTICE, || guards.iter().all(is_lost)).await;
    assert!(short.check().is_ok(), "its session is another");
    works::<Etcd>(&pool, "k0").await;
    short.release().await.expect("held");
}

#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn an_unreported_lost_session_is_detected() {
    let test = "deployments::etcd::sessions::a_lost_session_is_reported_to_all_holders";
    fails_with("LostSessionUnreported", test);
}

/// Fails if a lock stays held after its session's own key was deleted. The deletion does not end
/// the session itself, which is a lease of etcd.
#[tokio::test]
async fn a_session_without_its_key_keeps_no_lock() {
    let ask = |pool: &LockPool| pool.lock("k").ttl(LASTING);
    keeps_no_lock_without_its_node::<Etcd>("no-key", ask, NOTICE).await;
}

/// Fails if a lock is granted or renewed although its session may end before its lease.
#[tokio::test]
async fn a_session_outlasts_its_leases() {
    let server = Etcd::shared();
    let (gateway, probe) = (server.gateway(), server.probe("outlasts", "lock:"));
    // The server reports whole seconds, rounded down.
    let left = |lease, asked: Instant| {
        let left = Duration::from_secs(gateway.left(lease) + 1);
        left + asked.elapsed()
    };
    let pool = connect(&server.url("outlasts")).await;
    // Heartbeats are seven seconds apart. With this interval, renewals come at various times
    // between two heartbeats.
    let renewed = pool.lock("renewed").ttl(TTL).wait(LONG);
    let renewed = renewed.watchdog_every(Duration::from_secs(3)).acquire();
    let renewed = renewed.await.expect("it is free");
    let session = probe.nodes("renewed")[0].session;
    let mut random = Random::seeded("outlasts");
    for number in 0..5 {
        let key = format!("k{number}");
        let asked = Instant::now();
        let guard = take::<Etcd>(&pool, &key).await;
        let left_of_it = left(probe.nodes(&key)[0].session, asked);
        assert!(TTL <= left_of_it, "{left_of_it:?} were left");
        guard.release().await.expect("held");
        // After the random pause, the next lock begins at another time between two heartbeats.
        let pause = Duration::from_secs(3) + random.duration(Duration::from_secs(3));
        let end = Instant::now() + pause;
        // Compares the rest of the lease with the rest of its session. The lease must be the
        // shorter one at any time, so the loop waits for no event.
        while Instant::now() < end {
            tokio::time::sleep(Duration::from_millis(250)).await;
            let asked = Instant::now();
            let (lease, session) = (renewed.remaining(), left(session, asked));
            assert!(lease <= session, "{lease:?} of {session:?}");
        }
    }
    renewed.release().await.expect("held");
}

#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn a_session_shorter_than_its_lease_is_detected() {
    let test = "deployments::etcd::sessions::a_session_outlasts_its_leases";
    fails_with("SessionUnconfirmed", test);
}

/// Fails if a heartbeat answered by a replaced leader confirms the session. The new leader counts
/// the session's time from its election, so it may end the session earlier.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replaced_leader_confirms_nothing() {
    const ROUNDS: u32 = 3;
    // The session of a lock with this ttl ends 21 s after its last heartbeat. A lock is granted
    // only if heartbeats have confirmed its session for at least the next 16 s. So more than 5 s
    // after a heartbeat, the acquire of `k` needs a new heartbeat. If the old leader answers it,
    // the answer must not count.
    let ttl = Duration::from_secs(16);
    for round in 0..ROUNDS {
        let cluster = Etcd::cluster_with_networks(3);
        let old = leader(&cluster, None);
        let pool = connect(&cluster[old].url("replaced")).await;
        let works = pool.lock("before").ttl(ttl).wait(LONG).acquire().await;
        works.expect("it is free").release().await.expect("held");
        replace(&cluster, old);
        // The new leader counts the 21 s of the session from its election. So after this sleep,
        // about 14 s are left, which is less than the ttl. The old leader does not know this.
        tokio::time::sleep(Duration::from_secs(7)).await;
        cluster[old].resume();
        let asked = Instant::now();
        let guard = pool.lock("k").ttl(ttl).wait(LONG).acquire().await;
        let guard = guard.expect("the old leader has learned of the new one, or serves again");
        let new = leader(&cluster, None);
        let lease = cluster[new].probe("replaced", "lock:").nodes("k")[0].session;
        // The server reports whole seconds, rounded down.
        let left = Duration::from_secs(cluster[new].gateway().left(lease) + 1) + asked.elapsed();
        println!(
            "round {round}: {left:?} are left after {:?}",
            asked.elapsed()
        );
        assert!(ttl <= left, "{left:?} were left of a session for {ttl:?}");
        guard.release().await.expect("held");
    }
}

#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn a_wrongly_accepted_heartbeat_is_detected() {
    let test = "deployments::etcd::sessions::a_replaced_leader_confirms_nothing";
    fails_with("HeartbeatBelieved", test);
}

/// Pauses the leader until another server leads. After the caller has resumed the old leader, that
/// server does not know of the new leader yet.
fn replace(cluster: &[Etcd], old: usize) {
    cluster[old].pause();
    cluster[old].network().set(Flow::BlackHole);
    // After these cuts, nothing new from the other members reaches the old leader. It can only read
    // the messages that are already in its sockets.
    for (at, server) in cluster.iter().enumerate() {
        if at != old {
            server.network().cut();
        }
    }
    leader(cluster, Some(old));
}

/// Fails if a request creates a node after a later request has sealed its session, by writing the
/// session's own key again.
#[tokio::test]
async fn a_sealed_session_creates_no_node() {
    etcd_seals(&Etcd::shared().url("sealed")).await;
}

/// Fails if a request is sent again after its caller was dropped. By then, another call may use the
/// name of the request's node.
#[tokio::test]
async fn an_abandoned_request_is_not_sent_again() {
    etcd_gives_up(&Etcd::shared().url("given-up")).await;
}

#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn a_repeated_abandoned_request_is_detected() {
    let test = "deployments::etcd::sessions::an_abandoned_request_is_not_sent_again";
    fails_with("GivenUpSentAgain", test);
}

#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn an_unsealed_session_is_detected() {
    let test = "deployments::etcd::sessions::a_sealed_session_creates_no_node";
    fails_with("NeverSealed", test);
}

/// Fails if the named test does not detect a release that removes the node of another holder.
#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn a_release_of_another_holder_is_detected() {
    let test = "bodies::exits::etcd::the_lock_is_stolen";
    fails_with("DeleteWithoutCompare", test);
}

/// Fails if an unrenewed lease lasts as long as its session.
#[tokio::test]
async fn an_unrenewed_lease_ends() {
    let server = Etcd::shared();
    let pool = connect_patiently(&server.url("ended")).await;
    let probe = server.probe("ended", "lock:");
    let session = a_lease_ends::<Etcd>(&pool, &probe, Duration::from_secs(6)).await;
    assert!(0 < server.gateway().left(session), "the session goes on");
    works::<Etcd>(&pool, "k").await;
}

/// Fails if a call waits for the removal of a key that was already removed before the call's watch
/// began. The watch may never report another change, so the call would wait forever.
#[tokio::test]
async fn a_call_detects_a_removed_key() {
    etcd_sees_the_gone(&Etcd::shared().url("gone")).await;
}

#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn a_watch_that_misses_a_removed_key_is_detected() {
    let test = "deployments::etcd::sessions::a_call_detects_a_removed_key";
    fails_with("GoneUnseen", test);
}
