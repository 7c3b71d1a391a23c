//! Tests in which slots move from node to node under load.

use std::collections::BTreeSet;
use std::time::Duration;

use leasehold_tests::cluster::{MASTERS, Setup};
use leasehold_tests::load::Load;
use leasehold_tests::random::Random;
use leasehold_tests::wait;

use super::{LONG, connect, take};

const KEYS: u64 = 4;

/// Fails if two holders share a lock, if a fence does not grow across a move, or if the pools do
/// not find moved slots.
#[tokio::test(flavor = "multi_thread")]
async fn under_load() {
    let mut random = Random::seeded("resharding under load");
    let cluster = Setup::new().start();
    let pools = [connect(&cluster.url()).await, connect(&cluster.url()).await];
    let longest = Duration::from_millis(20);
    let load = Load::start(&pools, 4, KEYS, longest, &mut random);
    for round in 1..=6 {
        for key in 0..KEYS {
            let slot = cluster.slot(&Load::wire_key(key));
            cluster.reshard(slot, (cluster.owner(slot) + 1) % MASTERS);
        }
        let before = load.sections();
        let what = format!("sections after round {round}");
        wait::until_async(&what, LONG, || load.sections() > before + 100).await;
    }
    let unavailable = load.unavailable();
    let ended = load.stop().await;
    ended.recorder().verify();
    println!(
        "{} sections, {unavailable} calls refused",
        ended.recorder().len()
    );
}

/// Fails if a pool with an outdated slot map does not find a moved slot and its locks.
#[tokio::test(flavor = "multi_thread")]
async fn an_outdated_slot_map_is_corrected() {
    let cluster = Setup::new().start();
    let pool = connect(&cluster.url()).await;
    let keys: Vec<_> = (0..12).map(|key| format!("old:{key}")).collect();
    let mut held = Vec::new();
    for key in &keys {
        // Each lock is held until all slots have moved, which takes long on a busy machine.
        let guard = pool.lock(key).ttl(LONG * 5).wait(LONG).acquire().await;
        held.push((guard.expect("free"), key));
    }
    let slots: BTreeSet<_> = keys
        .iter()
        .map(|key| cluster.slot(&format!("lock:{key}")))
        .collect();
    for slot in slots {
        cluster.reshard(slot, (cluster.owner(slot) + 1) % MASTERS);
    }
    for (guard, key) in held {
        let fence = guard.fence();
        guard.release().await.expect("still held");
        let again = take(&pool, key).await;
        assert!(fence < again.fence(), "{key}");
        again.release().await.expect("still held");
    }
}
