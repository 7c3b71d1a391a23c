//! Tests in which a master is killed and its replica takes over.

use std::time::Duration;

use futures_util::future::join_all;
use leasehold_tests::cluster::{MASTERS, Setup};
use leasehold_tests::lateness::Excuse;
use leasehold_tests::load::Load;
use leasehold_tests::random::Random;
use leasehold_tests::wait;
use redis::cmd;
use tokio::time::Instant;

use super::{LONG, SHARED, connect};

/// Time within which the pool must follow a fail-over. It is less than 30 s, because even a pool
/// that has not detected the fail-over reads the slot map every 30 s.
const FOLLOWED: Duration = Duration::from_secs(15);

/// Fails if the pool stays with the killed master, or never finds the new master. Also fails if a
/// lease on another master is lost, if a body outlives its lease, or if a fence decreases.
/// Simultaneous holders of one lock are only counted: replication is asynchronous, so a lock that
/// has not reached the replica is lost with the master.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_fail_over_is_followed_under_load() {
    let mut random = Random::seeded("fail-over of a master");
    let mut cluster = Setup::new().with_replicas().start();
    let pools = [connect(&cluster.url()).await, connect(&cluster.url()).await];
    let dead = cluster.owner(cluster.slot(&Load::wire_key(0)));
    let elsewhere = (0..).map(|number| format!("elsewhere:{number}"));
    let elsewhere: Vec<_> = elsewhere
        .filter(|key| cluster.owner(cluster.slot(&format!("lock:{key}"))) != dead)
        .take(5)
        .collect();
    let mut survivors = Vec::new();
    for key in &elsewhere {
        // Until the replica takes over, the whole cluster refuses requests. The ttl is longer than
        // this outage.
        let request = pools[0].lock(key).ttl(LONG / 3).watchdog();
        survivors.push(request.wait(LONG).acquire().await.expect("free"));
    }
    let load = Load::start(&pools, 4, 1, Duration::from_millis(100), &mut random);
    wait::until_async("sections before", LONG, || load.sections() > 20).await;
    cluster.kill(dead);
    let killed = Instant::now();
    cluster.wait_until_it_serves_without(dead);
    // Waits until the end of the leases from before the fail-over. Until then a pool may pass a
    // lock from call to call without the master, so new sections would prove nothing.
    tokio::time::sleep_until(killed + Load::TTL).await;
    let (before, serves, excuse) = (load.sections(), Instant::now(), Excuse::begin());
    wait::until_async("sections after", LONG, || load.sections() > before + 20).await;
    let took = serves.elapsed();
    assert!(took < FOLLOWED + excuse.so_far(), "followed after {took:?}");
    assert_eq!(
        cluster.owner(cluster.slot(&Load::wire_key(0))),
        dead + MASTERS
    );
    for guard in survivors {
        guard.check().expect("its master lives");
        guard.release().await.expect("released");
    }
    let ended = load.stop().await;
    ended.overlaps("a fail-over under load");
}

/// Fails if a call does not wait for the replicas of its key's master, or if it counts replicas of
/// other masters.
#[tokio::test(flavor = "multi_thread")]
async fn each_call_waits_for_the_replicas_of_its_master() {
    let mut cluster = Setup::new().with_replicas().start();
    let pool = connect(&format!("{}/?replicas=1", cluster.url())).await;
    let all = connect(&format!("{}/?replicas=all", cluster.url())).await;
    let keys: Vec<_> = (0..8).map(|key| format!("copies:{key}")).collect();
    for key in &keys {
        for pool in [&pool, &all] {
            let guard = pool.lock(key).ttl(LONG).wait(LONG / 2).acquire().await;
            guard.expect("free").release().await.expect("held");
        }
    }
    cluster.kill(MASTERS);
    let mut refused = 0;
    // All calls run concurrently, because each refused call waits for the missing confirmation
    // until its time limit.
    let asked = keys.iter().zip([&pool, &all].into_iter().cycle());
    let asked = asked.map(|(key, pool)| pool.lock(key).ttl(LONG).acquire());
    for (key, result) in keys.iter().zip(join_all(asked).await) {
        let lonely = cluster.owner(cluster.slot(&format!("lock:{key}"))) == 0;
        assert_eq!(result.is_err(), lonely, "{key}: {result:?}");
        if let Err(error) = result {
            assert_eq!(super::code(&error), "replicas");
            refused += 1;
        }
    }
    assert!(refused > 0, "a key is on the first master");
    let none = connect(&format!("{}/?replicas=1", SHARED.url())).await;
    let error = none.lock("copies").ttl(LONG).acquire().await;
    assert_eq!(super::code(&error.expect_err("there are none")), "replicas");
}

/// A limitation of `replicas`, which the documentation describes: a master that restarts with empty
/// data before its replica takes over also empties the replica. Fails if this no longer happens,
/// because the warning in the documentation can then be removed.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_copies_an_empty_restarted_master() {
    let mut cluster = Setup::new().with_replicas().start();
    let pool = connect(&format!("{}/?replicas=all", cluster.url())).await;
    let held = pool.lock("copied").ttl(LONG * 5).wait(LONG).acquire().await;
    let held = held.expect("free");
    let master = cluster.owner(cluster.slot("lock:copied"));
    // The replica must not take over. On a busy machine the master may be down for longer than a
    // replica waits.
    let mut stay = cmd("CONFIG");
    stay.arg("SET").arg("cluster-replica-no-failover");
    cluster.run_everywhere(stay.arg("yes"));
    cluster.kill(master);
    cluster.restart(master);
    cluster.wait_until_whole();
    assert_eq!(cluster.owner(cluster.slot("lock:copied")), master);
    let other = connect(&cluster.url()).await;
    let second = super::take(&other, "copied").await;
    held.check().expect("its holder is not notified");
    second.release().await.expect("it has the lock as well");
}
