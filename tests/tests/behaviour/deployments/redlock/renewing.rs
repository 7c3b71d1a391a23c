//! Tests that a renewal needs a majority, like an acquire.

use std::time::{Duration, Instant};

use leasehold::LockError;
use leasehold_tests::lateness::Excuse;
use leasehold_tests::probe::Probe;

use leasehold_tests::quorum::Quorum;

use super::nodes::{TTL, count, nodes, pool};

#[tokio::test]
async fn a_majority_keeps_a_lock() {
    let mut nodes = nodes(3);
    let probes = nodes.probes();
    let pool = pool(&nodes).await;
    let request = pool.lock("k").ttl(TTL).watchdog();
    let guard = request.acquire().await.expect("it is free");
    nodes.servers[2].kill();
    tokio::time::sleep(TTL + Duration::from_secs(2)).await;
    guard.check().expect("two of three keep it");
    assert_eq!(count(&probes[..2], "k"), 2);
    guard.release().await.expect("it is held");
}

#[tokio::test]
async fn a_lock_lost_by_a_minority_is_still_held() {
    let nodes = nodes(3);
    let probes = nodes.probes();
    let pool = pool(&nodes).await;
    let request = pool.lock("k").ttl(TTL).watchdog();
    let guard = request.acquire().await.expect("it is free");
    probes[0].steal("k", TTL * 60);
    tokio::time::sleep(TTL + Duration::from_secs(2)).await;
    guard.check().expect("two of three keep it");
    guard.release().await.expect("it is held");
    assert!(probes[0].untouched("k"));
}

/// A majority answers that it no longer has the lock. Fails if the loss is not reported after the
/// next renewal, long before the end of the lease.
#[tokio::test]
async fn a_lock_lost_by_a_majority_is_lost_at_once() {
    let ttl = TTL * 2;
    let nodes = Quorum::older_than(3, ttl);
    let probes = nodes.probes();
    let pool = pool(&nodes).await;
    let request = pool
        .lock("k")
        .ttl(ttl)
        .watchdog_every(Duration::from_millis(200));
    let guard = request.acquire().await.expect("it is free");
    let (started, excuse) = (Instant::now(), Excuse::begin());
    probes[0].delete("k");
    probes[1].delete("k");
    guard.lost().await;
    let took = started.elapsed();
    assert!(took < ttl / 2 + excuse.so_far(), "reported after {took:?}");
    assert!(matches!(guard.check(), Err(LockError::Lost { .. })));
}

/// Without answers from a majority, the state of the lock is unknown. Fails if its loss is reported
/// only after the end of the lease, or before a third of the lease is over.
#[tokio::test]
async fn a_lock_without_a_majority_is_lost_before_its_end() {
    let nodes = nodes(3);
    let pool = pool(&nodes).await;
    let request = pool.lock("k").ttl(TTL).watchdog();
    let guard = request.acquire().await.expect("it is free");
    let (started, excuse) = (Instant::now(), Excuse::begin());
    nodes.servers[0].pause();
    nodes.servers[1].pause();
    guard.lost().await;
    let took = started.elapsed();
    nodes.servers[0].resume();
    nodes.servers[1].resume();
    let least = (TTL / 3).saturating_sub(excuse.so_far());
    assert!(took > least, "given up after {took:?}");
    assert!(took < TTL + excuse.so_far(), "reported after {took:?}");
    assert!(matches!(guard.check(), Err(LockError::Lost { .. })));
}
