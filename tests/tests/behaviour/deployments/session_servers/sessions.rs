//! Tests of locks whose session or node no longer exists.

use std::time::Duration;

use leasehold::{LockError, LockGuard, LockPool, LockRequest};
use leasehold_tests::session_server::{SessionProbe as _, SessionServer};
use leasehold_tests::wait;

use super::{LONG, Times, connect_patiently, works};

/// Longest time from the server's report that a session has ended until its holders are notified.
pub(crate) const NOTICE: Duration = Duration::from_secs(30);

pub(crate) fn is_lost(guard: &LockGuard) -> bool {
    matches!(guard.check(), Err(LockError::Lost { .. }))
}

/// Takes five locks in one session. Returns the locks and the id of the session.
pub(crate) async fn five_in_one_session<S: SessionServer>(
    probe: &S::Probe,
    ask: impl Fn(String) -> LockRequest,
) -> (Vec<LockGuard>, i64) {
    let mut guards = Vec::new();
    for number in 0..5 {
        let request = ask(format!("k{number}"));
        guards.push(request.wait(LONG).acquire().await.expect("it is free"));
    }
    let session = probe.nodes("k0")[0].session;
    assert_eq!(probe.nodes("k4")[0].session, session, "one session for all");
    (guards, session)
}

/// Each session has its own node, besides the nodes of its locks. Fails if a lock stays held for
/// longer than `free` after its session's own node was deleted.
pub(crate) async fn keeps_no_lock_without_its_node<S: Times>(
    prefix: &str,
    ask: impl Fn(&LockPool) -> LockRequest,
    free: Duration,
) {
    let server = S::shared();
    let pool = connect_patiently(&server.url(prefix)).await;
    let probe = server.probe(prefix, "lock:");
    let held = ask(&pool).acquire().await.expect("it is free");
    let own = probe.own_node(probe.nodes("k")[0].session);
    assert!(probe.delete(&own), "no node {own}");
    wait::until_async("it is notified", NOTICE, || is_lost(&held)).await;
    wait::until_async("the key is free", free, || probe.nodes("k").is_empty()).await;
    works::<S>(&pool, "k").await;
}

/// Fails if a lock is still renewed after another client has removed its node, or if it cannot be
/// taken again.
pub(crate) async fn a_removed_node_is_a_lost_lock<S: Times>() {
    const TTL: Duration = Duration::from_secs(6);
    let server = S::shared();
    let pool = connect_patiently(&server.url("removed")).await;
    let probe = server.probe("removed", "lock:");
    let guard = pool.lock("k").ttl(TTL).watchdog().acquire().await;
    let guard = guard.expect("it is free");
    assert!(probe.delete(&probe.nodes("k")[0].path));
    wait::until_async("the loss is reported", TTL, || is_lost(&guard)).await;
    works::<S>(&pool, "k").await;
}

/// Fails if an unrenewed lease of `ttl` lasts as long as its session. Returns the session.
pub(crate) async fn a_lease_ends<S: SessionServer>(
    pool: &LockPool,
    probe: &S::Probe,
    ttl: Duration,
) -> i64 {
    let guard = pool.lock("k").ttl(ttl).wait(LONG).acquire().await;
    let guard = guard.expect("it is free");
    let session = probe.nodes("k")[0].session;
    let ended = || probe.nodes("k").is_empty();
    wait::until_async("the store ends it", LONG, ended).await;
    assert!(guard.check().is_err(), "it was not renewed");
    session
}
