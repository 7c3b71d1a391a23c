//! Sessions: they outlast the leases in them, and their end is told to all of their locks.

use std::time::{Duration, Instant};

use leasehold::__test::etcd_seals;
use leasehold::{LockError, LockGuard};
use leasehold_tests::etcd::Etcd;
use leasehold_tests::pipe::Flow;
use leasehold_tests::random::Random;
use leasehold_tests::rerun::fails_with;
use leasehold_tests::wait;

use super::{LONG, TTL, connect, take, works};

/// The ttl of locks whose session lasts 607 s, so that its next heartbeat is due after 200 s.
const LASTING: Duration = Duration::from_secs(600);

/// How soon the holders are told of the end of such a session.
const TOLD: Duration = Duration::from_secs(10);

fn is_lost(guard: &LockGuard) -> bool {
    matches!(guard.check(), Err(LockError::Lost { .. }))
}

/// Fails if the holders are not told that their session is over, or only by its next heartbeat.
#[tokio::test]
async fn a_lost_session_is_told_to_all() {
    let server = Etcd::shared();
    let pool = connect(&server.url("lost-session")).await;
    let probe = server.probe("lost-session", "lock:");
    let mut guards = Vec::new();
    for number in 0..5 {
        let request = pool.lock(format!("k{number}")).ttl(LASTING);
        guards.push(request.acquire().await.expect("it is free"));
    }
    let short = pool.lock("short").ttl(TTL / 4).watchdog();
    let short = short.acquire().await.expect("it is free");
    let lease = probe.nodes("k0")[0].lease;
    assert_eq!(probe.nodes("k4")[0].lease, lease, "one session for all");
    assert_ne!(probe.nodes("short")[0].lease, lease, "another for its ttl");
    server.gateway().revoke(lease);
    wait::until_async("all are told", TOLD, || guards.iter().all(is_lost)).await;
    assert!(short.check().is_ok(), "its session is another");
    works(&pool, "k0").await;
    short.release().await.expect("held");
}

#[test]
fn a_lost_session_that_is_not_told_is_found() {
    let test = "deployments::etcd::sessions::a_lost_session_is_told_to_all";
    fails_with("LostSessionUntold", test);
}

/// Fails if the locks of a session that lives block their keys when its own key was deleted.
#[tokio::test]
async fn a_session_without_its_key_keeps_no_lock() {
    let server = Etcd::shared();
    let pool = connect(&server.url("no-key")).await;
    let probe = server.probe("no-key", "lock:");
    let held = pool.lock("k").ttl(LASTING).acquire().await;
    let held = held.expect("it is free");
    let lease = probe.nodes("k")[0].lease;
    let key = format!("no-key/%/{lease:016x}");
    assert!(server.gateway().delete(&key), "no key {key}");
    wait::until_async("it is told", TOLD, || is_lost(&held)).await;
    wait::until_async("the key is free", TOLD, || probe.nodes("k").is_empty()).await;
    works(&pool, "k").await;
}

/// Fails if a lock is granted or renewed while its session may end before its lease.
#[tokio::test]
async fn a_session_outlasts_its_leases() {
    let server = Etcd::shared();
    let (gateway, probe) = (server.gateway(), server.probe("outlasts", "lock:"));
    let pool = connect(&server.url("outlasts")).await;
    let mut random = Random::seeded("outlasts");
    for number in 0..5 {
        let key = format!("k{number}");
        let guard = take(&pool, &key).await;
        let taken = Instant::now();
        let lease = probe.nodes(&key)[0].lease;
        // In whole seconds, rounded down.
        let left = Duration::from_secs(gateway.left(lease) + 1) + taken.elapsed();
        assert!(TTL <= left, "{left:?} were left of {lease}");
        guard.release().await.expect("held");
        // A heartbeat comes every seven seconds.
        let pause = Duration::from_secs(3) + random.duration(Duration::from_secs(3));
        tokio::time::sleep(pause).await;
    }
}

#[test]
fn a_session_that_does_not_cover_a_lease_is_found() {
    let test = "deployments::etcd::sessions::a_session_outlasts_its_leases";
    fails_with("SessionUnconfirmed", test);
}

/// Fails if a heartbeat counts that a replaced leader has answered: the new leader counts the lease
/// from its own election.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replaced_leader_confirms_nothing() {
    const ROUNDS: u32 = 3;
    // Short of what its session could cover, so that a lock needs no heartbeat of its own.
    let ttl = Duration::from_secs(16);
    for round in 0..ROUNDS {
        let cluster = Etcd::cluster_with_networks(3);
        let old = leader(&cluster).await;
        let pool = connect(&cluster[old].url("replaced")).await;
        let works = pool.lock("before").ttl(ttl).acquire().await;
        works.expect("it is free").release().await.expect("held");
        replace(&cluster, old).await;
        // The new leader has counted the lease for so long when the old one answers.
        tokio::time::sleep(Duration::from_secs(7)).await;
        cluster[old].resume();
        let asked = Instant::now();
        let guard = pool.lock("k").ttl(ttl).wait(LONG).acquire().await;
        let guard = guard.expect("the old leader has learned of the new one, or serves again");
        let new = leader(&cluster).await;
        let lease = cluster[new].probe("replaced", "lock:").nodes("k")[0].lease;
        // In whole seconds, rounded down.
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
fn a_heartbeat_that_is_believed_is_found() {
    let test = "deployments::etcd::sessions::a_replaced_leader_confirms_nothing";
    fails_with("HeartbeatBelieved", test);
}

/// Which server leads the cluster.
async fn leader(cluster: &[Etcd]) -> usize {
    let mut leader = None;
    wait::until_async("there is a leader", LONG, || {
        leader = cluster.iter().position(Etcd::leads);
        leader.is_some()
    })
    .await;
    leader.expect("one leads")
}

/// Stops the leader until another server leads, of which it hears nothing at first when it goes on.
async fn replace(cluster: &[Etcd], old: usize) {
    cluster[old].pause();
    cluster[old].network().set(Flow::BlackHole);
    let others = || {
        let servers = cluster.iter().enumerate();
        servers
            .filter(|(at, _)| *at != old)
            .map(|(_, server)| server)
    };
    // What they have sent to it lies in its sockets, and they are all that it would read.
    for server in others() {
        server.network().cut();
    }
    let another = || others().any(Etcd::leads);
    wait::until_async("another leads", LONG, another).await;
}

/// Fails if a request that was overtaken makes a node after all.
#[tokio::test]
async fn a_sealed_session_makes_nothing() {
    etcd_seals(&Etcd::shared().url("sealed")).await;
}

#[test]
fn a_session_that_is_not_sealed_is_found() {
    let test = "deployments::etcd::sessions::a_sealed_session_makes_nothing";
    fails_with("NeverSealed", test);
}

/// Fails if a release removes the node of another holder.
#[test]
fn a_release_of_any_holder_is_found() {
    let test = "bodies::exits::etcd::the_lock_is_stolen";
    fails_with("DeleteWithoutCompare", test);
}

/// Fails if a lock that was removed by another client is renewed, or if its body goes on.
#[tokio::test]
async fn a_removed_node_is_a_lost_lock() {
    let server = Etcd::shared();
    let pool = connect(&server.url("removed")).await;
    let probe = server.probe("removed", "lock:");
    let guard = pool.lock("k").ttl(TTL / 8).watchdog().acquire().await;
    let guard = guard.expect("it is free");
    assert!(server.gateway().delete(&probe.nodes("k")[0].key));
    wait::until_async("the loss is told", TTL / 8, || is_lost(&guard)).await;
    works(&pool, "k").await;
}

/// Fails if a lease goes on as long as its session.
#[tokio::test]
async fn a_lease_that_is_not_renewed_is_ended() {
    let server = Etcd::shared();
    let pool = connect(&server.url("ended")).await;
    let probe = server.probe("ended", "lock:");
    let guard = pool.lock("k").ttl(Duration::from_secs(1)).acquire().await;
    let guard = guard.expect("it is free");
    let lease = probe.nodes("k")[0].lease;
    let ended = || probe.nodes("k").is_empty();
    wait::until_async("the store ends it", LONG, ended).await;
    assert!(guard.check().is_err(), "it was not renewed");
    assert!(0 < server.gateway().left(lease), "the session goes on");
    works(&pool, "k").await;
}
