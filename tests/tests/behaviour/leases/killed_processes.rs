//! Tests of locks of a killed process, in stores with several servers.

use std::time::Duration;

use leasehold::LockPool;
use leasehold_tests::lateness::Excuse;
use leasehold_tests::stores::{NO_OUTAGE, Store};
use leasehold_tests::worker::{Event, Job, Scenario, Worker};
use leasehold_tests::{on_stores, wait};

const TTL: Duration = Duration::from_secs(2);
const LONG: Duration = Duration::from_secs(60);
/// Tolerance for a waiting call that gets no message. It may be in a pause between two attempts
/// when the lock becomes free.
const SLACK: Duration = Duration::from_millis(500);

/// Fails if the lock of a killed process becomes free later than the end of its ttl.
async fn a_killed_process_frees_its_lock(store: &Store) {
    let next = LockPool::builder().url(&store.url).io_timeout(NO_OUTAGE);
    let next = wait::connected(next).await;
    for round in 0..3 {
        let key = format!("killed-{round}");
        let job = Job {
            url: store.url.clone(),
            key: key.clone(),
            ttl_ms: 2_000,
            wait_ms: 60_000,
            watchdog: true,
            scenario: Scenario::Hold,
        };
        let mut worker = Worker::spawn(env!("CARGO_BIN_EXE_worker"), &job);
        worker.wait_for("the body begins", LONG, |event| {
            matches!(event, Event::Enter { .. })
        });
        worker.process().kill();
        let excuse = Excuse::begin();
        let killed = std::time::Instant::now();
        let request = next.lock(&*key).ttl(TTL).wait(LONG);
        let guard = request.acquire().await.expect("it comes free");
        let took = killed.elapsed();
        assert!(took < TTL + SLACK + excuse.so_far(), "{took:?}");
        guard.release().await.expect("still held");
    }
}

on_stores!(sentinel cluster redlock: (a_killed_process_frees_its_lock));
