//! Tests that leases of several slots are renewed together, and that each lease gets its own
//! answer.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use leasehold::LockGuard;
use leasehold_tests::cluster::{Cluster, MASTERS, Setup};

use super::{LONG, connect};

/// A ttl so short that an unrenewed lease is lost soon, but longer than the delay of a renewal on a
/// busy machine.
const TTL: Duration = Duration::from_secs(6);
const SLOTS: usize = 3;
const KEYS: usize = 5;

/// Returns keys that alternate between the slots, so that no two neighbours share a slot.
fn keys() -> Vec<String> {
    let key = |number: usize| format!("{{stolen{}}}{number}", number % SLOTS);
    (0..SLOTS * KEYS).map(key).collect()
}

/// Gives some locks to another client. The keys of each slot are counted from 0, and `places`
/// contains the indices of the stolen ones.
fn steal(cluster: &Cluster, keys: &[String], places: &[usize]) {
    for (number, key) in keys.iter().enumerate() {
        let wire = format!("lock:{key}");
        if places.contains(&(number / SLOTS)) {
            cluster.probe_of(&wire).overwrite(&wire, "another", LONG);
        }
    }
}

/// Waits for longer than a ttl. Fails unless exactly the locks at `places` (see `steal`) are lost
/// by then.
async fn judge(what: &str, held: &[LockGuard], places: &[usize]) {
    let end = Instant::now() + TTL + Duration::from_secs(1);
    while Instant::now() < end {
        for (number, lock) in held.iter().enumerate() {
            let stolen = places.contains(&(number / SLOTS));
            assert!(lock.check().is_ok() || stolen, "{what}: {number} was kept");
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for (number, lock) in held.iter().enumerate() {
        let stolen = places.contains(&(number / SLOTS));
        assert_eq!(lock.check().is_err(), stolen, "{what}: {number}");
    }
}

/// The pool renews the leases of several slots together. Fails if an answer counts for the wrong
/// lease, so that other leases than the stolen ones are lost. The second part runs while the slots
/// move and only some of their keys have moved.
#[tokio::test(flavor = "multi_thread")]
async fn renewal_answers_are_matched_to_their_leases() {
    let cluster = Setup::new().start();
    let pool = connect(&cluster.url()).await;
    let keys = keys();
    let held = keys
        .iter()
        .map(|key| pool.lock(key).ttl(TTL).watchdog().acquire());
    let held = join_all(held).await.into_iter();
    let held: Vec<_> = held.map(|lock| lock.expect("free")).collect();
    steal(&cluster, &keys, &[1]);
    judge("at home", &held, &[1]).await;
    for tag in &keys[..SLOTS] {
        let slot = cluster.slot(tag);
        let to = (cluster.owner(slot) + 1) % MASTERS;
        cluster.begin_move(slot, to);
        let moved = keys.iter().filter(|key| cluster.slot(key) == slot);
        for key in moved.take(KEYS / 2 + 1) {
            cluster.move_key(&format!("lock:{key}"), to);
        }
    }
    // In each slot, the keys at the indices 0 to 2 have moved. The key at index 3 has not.
    steal(&cluster, &keys, &[3]);
    judge("on the way", &held, &[1, 3]).await;
}
