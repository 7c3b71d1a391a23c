//! Processes that share an ensemble: one at a time, in order, and past those that are gone.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use leasehold_tests::lateness::Excuse;
use leasehold_tests::wait;
use leasehold_tests::worker::{Event, Job, Scenario, Worker};
use leasehold_tests::zookeeper::{Zookeeper, url_of};
use tokio::task::JoinSet;

use super::{LONG, TTL, connect, take, works};

/// The ttl of a process's lock, how long a session for it lasts, and how late the server notices
/// its end.
const LEASE: Duration = Duration::from_secs(3);
const SESSION: Duration = Duration::from_millis(6_500);
const NOTICED: Duration = Duration::from_secs(1);

fn job(url: String, key: &str, ttl: Duration, scenario: Scenario) -> Job {
    Job {
        url,
        key: key.to_owned(),
        ttl_ms: u64::try_from(ttl.as_millis()).expect("a short time"),
        wait_ms: 60_000,
        watchdog: true,
        scenario,
    }
}

/// Four processes add to a number in a file while `disturb` runs; the number in the end.
fn counted(url: &str, ttl: Duration, times: u32, disturb: impl FnOnce()) -> (u32, u32) {
    const PROCESSES: u32 = 4;
    let name = url.rsplit('/').next().expect("a prefix");
    let file = std::env::temp_dir().join(format!("leasehold-{}-{name}", std::process::id()));
    std::fs::write(&file, "0").expect("a file can be written");
    let scenario = Scenario::Count {
        file: file.display().to_string(),
        times,
        pause_us: 300,
    };
    let job = job(url.to_owned(), "counted", ttl, scenario);
    let worker = || Worker::spawn(env!("CARGO_BIN_EXE_worker"), &job);
    let mut workers: Vec<_> = (0..PROCESSES).map(|_| worker()).collect();
    for worker in &mut workers {
        worker.wait_for("it is ready", LONG, |event| *event == Event::Ready);
    }
    disturb();
    for mut worker in workers {
        let ended = |event: &Event| matches!(event, Event::Done | Event::Failed { .. });
        let ended = worker.wait_for("all additions", LONG * 2, ended);
        assert_eq!(ended, Event::Done);
    }
    let number = std::fs::read_to_string(&file).expect("the file");
    std::fs::remove_file(&file).expect("the file");
    (number.parse().expect("a number"), PROCESSES * times)
}

/// Fails if two processes are inside at the same time: an addition to the number would be lost.
#[test]
fn a_number_in_a_file() {
    let (number, expected) = counted(&Zookeeper::shared().url("counted"), LEASE, 60, || {});
    assert_eq!(number, expected);
}

/// Fails if a killed process keeps its lock for longer than its session, or its turn for good.
#[tokio::test]
async fn killed_processes_are_passed_over() {
    let server = Zookeeper::shared();
    let (url, probe) = (server.url("killed"), server.probe("killed", "lock:"));
    let pool = connect(&url).await;
    let spawn = || {
        let job = job(url.clone(), "killed", LEASE, Scenario::Hold);
        Worker::spawn(env!("CARGO_BIN_EXE_worker"), &job)
    };
    let mut holder = spawn();
    holder.wait_entered(LONG);
    let mut waiting = spawn();
    waiting.wait_for("it is ready", LONG, |event| *event == Event::Ready);
    let queues = || probe.nodes("killed").len() == 2;
    wait::until_async("it queues", LONG, queues).await;
    let (killed, excuse) = (Instant::now(), Excuse::begin());
    waiting.process().kill();
    holder.process().kill();
    works(&pool, "killed").await;
    let took = killed.elapsed();
    println!("{took:?} after both were killed");
    let most = SESSION + NOTICED + Duration::from_secs(1) + excuse.so_far();
    assert!(took < most, "{took:?}");
}

/// Fails if a stopped process goes on in its lock after another process has had it.
#[tokio::test]
async fn a_stopped_holder_is_passed_over_and_stops() {
    let server = Zookeeper::shared();
    let url = server.url("stopped-holder");
    let pool = connect(&url).await;
    let job = job(url, "k", LEASE, Scenario::Hold);
    let mut holder = Worker::spawn(env!("CARGO_BIN_EXE_worker"), &job);
    holder.wait_entered(LONG);
    holder.process().pause();
    let guard = take(&pool, "k").await;
    holder.process().resume();
    let ended = |event: &Event| matches!(event, Event::Done | Event::Failed { .. });
    let ended = holder.wait_for("it stops", LONG, ended);
    assert!(matches!(ended, Event::Failed { .. }), "{ended:?}");
    guard.release().await.expect("held");
}

/// Fails if processes race for a lock that comes free, if one that asks again loses its place, or
/// if they are not told of their turns.
#[tokio::test]
async fn first_come_first_served() {
    // Without messages each of the six would look after half a second or so.
    const TOLD: Duration = Duration::from_millis(1_500);
    let mut took = [Duration::MAX; 3];
    for (round, took) in took.iter_mut().enumerate() {
        *took = serve_six(&format!("order-{round}")).await;
        if *took < TOLD {
            return;
        }
    }
    panic!("{took:?}");
}

/// Six processes queue for a lock. Returns how long it took to serve them.
async fn serve_six(key: &str) -> Duration {
    let zookeeper = Zookeeper::shared();
    let (url, probe) = (zookeeper.url("order"), zookeeper.probe("order", "lock:"));
    let pool = connect(&url).await;
    let held = take(&pool, key).await;
    let served = Arc::new(Mutex::new(Vec::new()));
    let mut calls = JoinSet::new();
    for name in 0..6 {
        let pool = connect(&url).await;
        let acquire = pool.lock(key).ttl(TTL).wait(LONG).acquire();
        let acquire = wait::started(acquire).await;
        let queues = || probe.nodes(key).len() == name + 2;
        wait::until_async("it queues", LONG, queues).await;
        let served = Arc::clone(&served);
        calls.spawn(async move {
            let guard = acquire.await.expect("its turn comes");
            served.lock().expect("no panic").push((name, guard.fence()));
            guard.release().await.expect("still held");
        });
    }
    // Each of them asks again meanwhile.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let released = Instant::now();
    held.release().await.expect("still held");
    while let Some(call) = wait::within("all are served", LONG, calls.join_next()).await {
        call.expect("no panic");
    }
    let took = released.elapsed();
    let served = served.lock().expect("no panic");
    let names: Vec<_> = served.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, [0, 1, 2, 3, 4, 5]);
    assert!(served.is_sorted_by(|a, b| a.1 < b.1), "{served:?}");
    took
}

/// Fails if two processes are inside at the same time while an ensemble loses its leaders.
#[test]
fn a_number_in_a_file_while_leaders_go() {
    let mut ensemble = Zookeeper::ensemble(3);
    let url = url_of(&ensemble, "counted-by-leaders");
    let (number, expected) = counted(&url, TTL, 150, || {
        for round in 0..4 {
            let mut leader = None;
            wait::until("there is a leader", LONG, || {
                leader = ensemble.iter().position(Zookeeper::leads);
                leader.is_some()
            });
            let leader = &mut ensemble[leader.expect("one leads")];
            if round % 2 == 0 {
                leader.kill();
                std::thread::sleep(Duration::from_secs(2));
                leader.restart();
            } else {
                leader.pause();
                std::thread::sleep(Duration::from_secs(4));
                leader.resume();
            }
        }
    });
    assert_eq!(number, expected);
}
