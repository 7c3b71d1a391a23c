//! Tests that leases are renewed while all workers of the runtime are blocked, in stores with
//! several servers.

use std::time::Duration;

use leasehold::LockPool;
use leasehold_tests::blocked::Blocked;
use leasehold_tests::on_stores;
use leasehold_tests::rerun::fails_with;
use leasehold_tests::stores::{NO_OUTAGE, Store};
use leasehold_tests::wait;
use tokio::runtime::Builder;

const TTL: Duration = Duration::from_secs(4);
const LONG: Duration = Duration::from_secs(60);

/// Fails if renewals depend on tasks of the user's runtime, whose workers are all blocked here.
async fn a_lease_is_renewed_while_all_workers_are_blocked(store: &Store) {
    let pool = LockPool::builder()
        .url(&store.url)
        .namespace(&store.namespace)
        .io_timeout(NO_OUTAGE);
    let probe = std::sync::Arc::clone(&store.probe);
    let scene = move || {
        let mut runtime = Builder::new_multi_thread();
        let runtime = runtime.worker_threads(2).enable_all().build();
        let runtime = runtime.expect("a runtime starts");
        let pool = runtime.block_on(wait::connected(pool));
        let request = pool.lock("kept").ttl(TTL).watchdog();
        let guard = runtime.block_on(request.acquire()).expect("it is free");
        let blocked = Blocked::all(&runtime);
        std::thread::sleep(TTL * 2);
        guard.check().expect("it is renewed");
        assert!(!probe.take("kept", LONG), "it came free");
        drop(blocked);
        runtime.block_on(guard.release()).expect("still held");
    };
    let scene = tokio::task::spawn_blocking(scene);
    scene.await.expect("no panic");
}

on_stores!(sentinel cluster redlock: (a_lease_is_renewed_while_all_workers_are_blocked));

/// Fails if the test above does not detect missing renewals.
#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn missing_renewals_are_detected() {
    fails_with(
        "WatchdogAsleep",
        "leases::blocked_workers::sentinel::a_lease_is_renewed_while_all_workers_are_blocked",
    );
}
