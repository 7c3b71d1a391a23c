//! Sessions: they outlast the leases in them, and their end is told to all of their locks.

use std::time::{Duration, Instant};

use leasehold::__test::etcd_seals;
use leasehold::{LockError, LockGuard};
use leasehold_tests::etcd::Etcd;
use leasehold_tests::random::Random;
use leasehold_tests::rerun::fails_with;
use leasehold_tests::wait;

use super::{LONG, TTL, connect, take, works};

/// A test of this file.
fn of(test: &str) -> String {
    format!("deployments::etcd::sessions::{test}")
}

/// How long a guard may take to notice that its session is over: a heartbeat is due after a third.
const HEARTBEAT: Duration = Duration::from_secs(8);

fn is_lost(guard: &LockGuard) -> bool {
    matches!(guard.check(), Err(LockError::Lost { .. }))
}

/// Fails if the holders are not told that their session is over, or only when their leases are.
#[tokio::test]
async fn a_lost_session_is_told_to_all() {
    let server = Etcd::shared();
    let pool = connect(&server.url("lost-session")).await;
    let probe = server.probe("lost-session", "lock:");
    let mut guards = Vec::new();
    for number in 0..5 {
        guards.push(take(&pool, &format!("k{number}")).await);
    }
    let short = pool.lock("short").ttl(TTL / 4).watchdog();
    let short = short.acquire().await.expect("it is free");
    let lease = probe.nodes("k0")[0].lease;
    assert_eq!(probe.nodes("k4")[0].lease, lease, "one session for all");
    assert_ne!(probe.nodes("short")[0].lease, lease, "another for its ttl");
    server.gateway().revoke(lease);
    wait::until_async("all are told", HEARTBEAT, || guards.iter().all(is_lost)).await;
    assert!(short.check().is_ok(), "its session is another");
    works(&pool, "k0").await;
    short.release().await.expect("held");
}

#[test]
fn a_lost_session_that_is_not_told_is_found() {
    fails_with("LostSessionUntold", &of("a_lost_session_is_told_to_all"));
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
    fails_with("SessionUnconfirmed", &of("a_session_outlasts_its_leases"));
}

/// Fails if a request that was overtaken makes a node after all.
#[tokio::test]
async fn a_sealed_session_makes_nothing() {
    etcd_seals(&Etcd::shared().url("sealed")).await;
}

#[test]
fn a_session_that_is_not_sealed_is_found() {
    fails_with("NeverSealed", &of("a_sealed_session_makes_nothing"));
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

/// Fails if sessions of which nothing is left are kept for longer than their pool.
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
