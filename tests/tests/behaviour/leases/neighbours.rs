//! Locks of one pool, one of which goes wrong.

use std::time::Duration;

use futures_util::future::try_join_all;
use leasehold::LockGuard;
use leasehold_tests::on_stores;
use leasehold_tests::rerun::fails_with;
use leasehold_tests::stores::Store;
use leasehold_tests::wait;

const TTL: Duration = Duration::from_secs(4);
const LONG: Duration = Duration::from_secs(30);

/// Fails if a lock that is taken away from a pool costs another lock of it.
async fn one_lost_lock_costs_no_other(store: &Store) {
    let pool = store.pool().await;
    // All at once, so that their renewals leave together.
    let taking = (0..20).map(|number| {
        let request = pool.lock(number.to_string()).ttl(TTL).wait(LONG);
        request.watchdog().acquire()
    });
    let held = try_join_all(taking).await.expect("they are free");
    if store.url.starts_with("memory://") {
        // No other client can write there.
        let operator = store.pool().await;
        operator.force_release("7").await.expect("it answers");
    } else {
        store.probe.steal("7", LONG);
    }
    let is_lost = |guard: &LockGuard| guard.check().is_err();
    wait::until_async("the loss", LONG, || is_lost(&held[7])).await;
    // Each of the others has ended by then, if it is no longer renewed.
    tokio::time::sleep(TTL * 2).await;
    for (number, guard) in held.into_iter().enumerate() {
        assert_eq!(guard.check().is_err(), number == 7, "{number}");
        if number != 7 {
            guard.release().await.expect("still held");
        }
    }
}

on_stores!(memory redis sentinel cluster redlock postgres etcd zookeeper: (
    one_lost_lock_costs_no_other,
));

/// Fails if the scene does not see that the answers to renewals are taken for each other's.
#[test]
fn mixed_answers_are_found() {
    for (bug, store) in [("AnswersMixed", "cluster"), ("WrongLeaseExtended", "redis")] {
        fails_with(
            bug,
            &format!("leases::neighbours::{store}::one_lost_lock_costs_no_other"),
        );
    }
}
