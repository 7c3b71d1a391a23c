//! Every way in which an annotated function can end, with the locks in a real Redis.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use leasehold_tests::clock;
use leasehold_tests::lateness::Excuse;
use leasehold_tests::probe::Probe;
use leasehold_tests::server::Server;
use leasehold_tests::wait;
use leasehold_tests::worker::{Event, Job, Scenario, Worker};

use super::{Store, ways_out};

/// Ttl of a lock that the probe takes, and time limit for each wait.
const LONG: Duration = Duration::from_secs(60);

/// A server for all tests of this file. It ends with this process.
static SERVER: LazyLock<Server> = LazyLock::new(Server::start);

fn store() -> Store {
    Store {
        url: SERVER.url(),
        probe: Arc::new(SERVER.probe().namespace("lock:")),
    }
}

ways_out! {
    store(),
    the_lock_is_stolen: Stolen,
}

/// Fails unless the lock of a killed process becomes free at the end of its ttl, even with a
/// watchdog.
#[test]
fn the_process_is_killed() {
    const TTL: Duration = Duration::from_millis(500);
    std::thread::scope(|scope| {
        for number in 0..4 {
            scope.spawn(move || {
                for round in 0..5 {
                    killed(&format!("killed-{number}-{round}"), TTL, number % 2 == 0);
                }
            });
        }
    });
}

/// Returns a worker inside its lock, and the time at which its lease ends unless it is renewed. On
/// a busy machine, the lease may end before the worker's body begins. Another worker is then
/// started.
fn entered(job: &Job) -> (Worker, u64) {
    for _ in 0..20 {
        let mut worker = Worker::spawn(env!("CARGO_BIN_EXE_worker"), job);
        let event = worker.wait_for("the body begins, or is too late", LONG, |event| {
            matches!(event, Event::Enter { .. } | Event::Failed { .. })
        });
        match event {
            Event::Enter { deadline, .. } => return (worker, deadline),
            other => eprintln!("again: {other:?}"),
        }
    }
    panic!("no body ever begins");
}

fn killed(key: &str, ttl: Duration, watchdog: bool) {
    let probe = SERVER.probe().namespace("lock:");
    let job = Job {
        url: SERVER.url(),
        key: key.to_owned(),
        ttl_ms: u64::try_from(ttl.as_millis()).expect("a short ttl"),
        wait_ms: 0,
        watchdog,
        scenario: Scenario::Hold,
    };
    let (mut worker, deadline) = entered(&job);
    assert!(probe.exists(key) || deadline <= clock::now());
    worker.process().kill();
    // Fails if a lock is set without an expiry, or is renewed after its process was killed.
    let excuse = Excuse::begin();
    let took = wait::until(key, LONG, || probe.take(key, LONG));
    let most = ttl + Duration::from_millis(200) + excuse.so_far();
    assert!(took < most, "{key}: {took:?}");
}
