//! Tests of renewals at the last moment. The first attempt must succeed, because no time is left
//! for a second attempt.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use leasehold::LockGuard;
use leasehold_tests::cluster::{Cluster, MASTERS, Setup};
use leasehold_tests::lateness::Excuse;

use super::connect;
use super::redirects::hide_the_map;

const TTL: Duration = Duration::from_secs(12);

/// Interval between renewals. After it, only `MARGIN` of the lease is left. A failed renewal is
/// repeated after at least 300 ms, which is too late for the lease.
const INTERVAL: Duration = Duration::from_secs(11);

/// Time left for a renewal after `INTERVAL`, until the engine reports the lease as lost. It is the
/// last second of the ttl of 12 s, minus 600 ms (ttl/20) and 122 ms for the drift of the clocks.
const MARGIN: Duration = Duration::from_millis(278);

/// Key in a slot that is moving to the spare node. The spare node had no slots, so the pool has no
/// connection to it.
const TO_A_STRANGER: &str = "late";

/// Returns keys of one slot. Half of these keys move to another node.
fn halved() -> Vec<String> {
    (0..8).map(|number| format!("{{late}}{number}")).collect()
}

/// Returns keys whose slots move completely to another node.
fn moved() -> Vec<String> {
    (0..3).map(|number| format!("late:{number}")).collect()
}

fn wire(key: &str) -> String {
    format!("lock:{key}")
}

fn scatter(cluster: &Cluster) {
    cluster.begin_move(cluster.slot(&wire(TO_A_STRANGER)), MASTERS);
    cluster.move_key(&wire(TO_A_STRANGER), MASTERS);
    let next = |slot| (cluster.owner(slot) + 1) % MASTERS;
    let slot = cluster.slot("{late}");
    let to = next(slot);
    cluster.begin_move(slot, to);
    for key in halved().iter().step_by(2) {
        cluster.move_key(&wire(key), to);
    }
    for key in moved() {
        let slot = cluster.slot(&wire(&key));
        cluster.reshard(slot, next(slot));
    }
}

/// Fails if a lease is lost because its key moves just before the renewal. The pool must repeat a
/// refused batch of renewals one by one, and must follow `MOVED` at once. It must also keep a
/// request for a new node until it has connected to this node.
#[tokio::test(flavor = "multi_thread")]
async fn late_renewals_reach_moved_locks() {
    for _ in 0..6 {
        let excuse = Excuse::begin();
        let lost = lost().await;
        if lost.is_empty() {
            return;
        }
        let late = excuse.so_far();
        assert!(
            late > MARGIN,
            "lost: {lost:?}; the machine was {late:?} late"
        );
    }
    panic!("this machine was later than {MARGIN:?} each time");
}

/// Returns the keys whose leases were not renewed.
async fn lost() -> Vec<String> {
    let cluster = Setup::new().with_a_spare().start();
    let pool = connect(&cluster.url()).await;
    let keys = [vec![TO_A_STRANGER.to_owned()], halved(), moved()].concat();
    let taken = Instant::now();
    let locks = keys.iter().map(|key| {
        let request = pool.lock(key).ttl(TTL).watchdog_every(INTERVAL);
        request.acquire()
    });
    let locks = join_all(locks).await.into_iter();
    let locks: Vec<LockGuard> = locks.map(|lock| lock.expect("free")).collect();
    hide_the_map(&cluster);
    scatter(&cluster);
    let end = taken + TTL * 5 / 4;
    tokio::time::sleep(end.saturating_duration_since(Instant::now())).await;
    let lost = keys.into_iter().zip(&locks);
    lost.filter(|(_, lock)| lock.check().is_err())
        .map(|(key, _)| key)
        .collect()
}
