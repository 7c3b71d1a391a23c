//! Tests of locks held for longer than their ttl while their slot moves to another node.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use leasehold::LockGuard;
use leasehold_tests::cluster::{Cluster, Setup};
use leasehold_tests::wait;

use super::{LONG, TTL, code, connect, take};

/// A ttl so short that an unrenewed lease is lost soon. A busy machine wakes a thread up to three
/// seconds late. With a renewal every `RENEWED`, such a delay loses no lease.
const SHORT: Duration = Duration::from_secs(4);
const RENEWED: Duration = Duration::from_millis(400);

/// Returns the key of a slot's fence counter.
fn counter_of(cluster: &Cluster, slot: usize) -> String {
    let keys = cluster.keys().into_iter();
    let mut counters = keys.filter(|key| key.ends_with(":fence") && cluster.slot(key) == slot);
    counters.next().expect("a lock was taken there")
}

/// Waits for longer than a ttl. Fails if one of the leases is lost meanwhile.
async fn outlives_its_ttl(what: &str, guards: &[&LockGuard]) {
    let end = Instant::now() + SHORT * 9 / 8;
    while Instant::now() < end {
        for guard in guards {
            let kept = guard.check();
            kept.unwrap_or_else(|error| panic!("{what}: {error}"));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Fails in each of these cases:
///
/// - A renewal waits for the end of the move, or is not sent with `ASKING` to the node of its key.
/// - A shared lock cannot be renewed while the queue's key is on another node.
/// - Leases cannot be renewed after only some of their keys have moved.
/// - A call that waits for the lock does not get it after the move.
/// - The fence decreases, because its counter is still on the old node.
#[tokio::test(flavor = "multi_thread")]
async fn leases_are_renewed_while_their_slot_moves() {
    let cluster = Setup::new().start();
    let pool = connect(&cluster.url()).await;
    let wire = "lock:{moves}:lock";
    let slot = cluster.slot(wire);
    let to = (cluster.owner(slot) + 1) % 3;
    take(&pool, "{moves}:lock")
        .await
        .release()
        .await
        .expect("held");
    // The counter is set far ahead of the servers' clocks. A new counter would start at the clock,
    // so the fence grows after the move only if the new node has this counter.
    let counter = counter_of(&cluster, slot);
    let probe = cluster.probe_of(wire);
    probe.overwrite(&counter, "4000000000000000", LONG * 2);
    let request = |key: &str| pool.lock(key).ttl(SHORT).watchdog_every(RENEWED);
    let lock = request("{moves}:lock").acquire().await.expect("free");
    let share = request("{moves}:share").shared().acquire().await;
    let share = share.expect("free");
    // These locks are acquired together, so that their renewals are sent together.
    let more = (0..8).map(|number| request(&format!("{{moves}}:{number}")).acquire());
    let more = join_all(more).await;
    let more: Vec<_> = more.into_iter().map(|one| one.expect("free")).collect();
    let held: Vec<_> = [&lock, &share].into_iter().chain(&more).collect();
    let other = connect(&cluster.url()).await;
    let waiting = other.lock("{moves}:lock").ttl(TTL).wait(LONG * 4).acquire();
    let waiting = tokio::spawn(waiting);
    outlives_its_ttl("before", &held).await;
    cluster.begin_move(slot, to);
    outlives_its_ttl("on its way, not moved", &held).await;
    for key in [wire, "lock:{moves}:0"] {
        cluster.move_key(key, to);
    }
    outlives_its_ttl("on its way, some keys moved", &held).await;
    while cluster.move_keys(slot, to, 10) > 0 {}
    outlives_its_ttl("on its way, all moved", &held).await;
    cluster.finish_move(slot, to);
    outlives_its_ttl("moved", &held).await;
    assert_eq!(cluster.owner(slot), to);
    assert!(!waiting.is_finished(), "it is held");
    let fence = lock.fence();
    lock.release().await.expect("still held");
    let handed = wait::within("its turn", LONG, waiting).await;
    let handed = handed.expect("no panic").expect("its turn");
    assert!(fence < handed.fence(), "{fence:?}, {:?}", handed.fence());
}

/// Fails if a release that the node refuses during the move is not repeated.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_during_a_slot_move_is_not_lost() {
    let cluster = Setup::new().start();
    let pool = connect(&cluster.url()).await;
    let wire = "lock:release";
    let slot = cluster.slot(wire);
    let to = (cluster.owner(slot) + 1) % 3;
    let held = pool.lock("release").ttl(LONG).acquire().await;
    let held = held.expect("free");
    cluster.begin_move(slot, to);
    cluster.move_key(wire, to);
    held.release().await.expect("it goes on by itself");
    let target = cluster.probe(to);
    cluster.finish_move(slot, to);
    wait::until_async("the key is removed", LONG / 2, || {
        target.get(wire).is_none()
    })
    .await;
}

/// A lock is requested while its slot moves, so the other node may already have its key. Fails if a
/// call without `wait` gets the lock, or if its error does not name the reason. Also fails if a
/// waiting call does not get the lock after the move.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_taken_after_the_slot_has_moved() {
    let cluster = Setup::new().start();
    let pool = connect(&cluster.url()).await;
    let slot = cluster.slot("lock:new");
    let to = (cluster.owner(slot) + 1) % 3;
    take(&pool, "new").await.release().await.expect("held");
    cluster.begin_move(slot, to);
    let once = pool.lock("new").ttl(TTL).acquire().await;
    let error = once.expect_err("its slot is on its way");
    assert_eq!(code(&error), "TRYAGAIN", "{error}");
    assert!(error.to_string().contains("moving"), "{error}");
    let waiting = wait::started(pool.lock("new").ttl(TTL).wait(LONG).acquire()).await;
    while cluster.move_keys(slot, to, 10) > 0 {}
    cluster.finish_move(slot, to);
    let held = waiting.await.expect("it is free");
    held.release().await.expect("still held");
}
