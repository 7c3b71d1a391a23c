//! Tests that processes on one database get a lock in the order of their requests, and that dead
//! processes are skipped.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use leasehold_tests::lateness::Excuse;
use leasehold_tests::postgres::Postgres;
use leasehold_tests::wait;
use leasehold_tests::worker::{Event, Job, Scenario, Worker};
use tokio::task::JoinSet;

use super::{LONG, TTL, fresh, patient, queued, take, without_haste, works};

/// Time for which a free lock stays reserved for the next process.
const CLAIM: Duration = Duration::from_secs(1);

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

fn spawn(job: &Job) -> Worker {
    Worker::spawn(env!("CARGO_BIN_EXE_worker"), job)
}

/// Waits until the worker has connected. If the worker cannot connect in time on a busy machine,
/// another worker is started.
fn connected(mut worker: Worker, job: &Job) -> Worker {
    for _ in 0..20 {
        let ended = |event: &Event| matches!(event, Event::Ready | Event::Failed { .. });
        let event = worker.wait_for("it is ready", LONG, ended);
        if event == Event::Ready {
            return worker;
        }
        println!("{event:?}");
        worker = spawn(job);
    }
    panic!("no worker connects");
}

/// Fails if two processes hold the lock at the same time, because an increment would then be lost.
#[test]
fn processes_increment_a_number_without_lost_updates() {
    const PROCESSES: u32 = 4;
    const TIMES: u32 = 60;
    let database = Postgres::shared().migrated();
    let file = std::env::temp_dir().join(format!("leasehold-{}-postgres", std::process::id()));
    std::fs::write(&file, "0").expect("a file can be written");
    let scenario = Scenario::Count {
        file: file.display().to_string(),
        times: Some(TIMES),
        pause_us: 300,
    };
    let job = job(database.url(), "counted", TTL, scenario);
    // All workers are started before the first wait, so that they run at the same time.
    let workers: Vec<_> = (0..PROCESSES).map(|_| spawn(&job)).collect();
    let workers = workers.into_iter().map(|worker| connected(worker, &job));
    for mut worker in workers.collect::<Vec<_>>() {
        let ended = |event: &Event| matches!(event, Event::Done | Event::Failed { .. });
        let ended = worker.wait_for("all additions", LONG * 5, ended);
        assert_eq!(ended, Event::Done);
    }
    let number = std::fs::read_to_string(&file).expect("the file");
    std::fs::remove_file(&file).expect("the file");
    assert_eq!(number, (PROCESSES * TIMES).to_string());
}

/// Fails if a killed process keeps its lock for longer than its ttl, or blocks the queue.
#[tokio::test]
async fn killed_processes_are_skipped_in_the_queue() {
    /// The ttl of a lease that a watchdog renews in time, even on a busy machine.
    const KEPT: Duration = Duration::from_secs(6);
    let (database, pool) = fresh().await;
    let job = job(database.url(), "killed", KEPT, Scenario::Hold);
    let mut holder = connected(spawn(&job), &job);
    holder.wait_entered(LONG);
    let mut waiting = connected(spawn(&job), &job);
    queued(&database.probe("lock:"), "killed", 1).await;
    let (killed, excuse) = (Instant::now(), Excuse::begin());
    waiting.process().kill();
    holder.process().kill();
    works(&pool, "killed").await;
    let took = killed.elapsed();
    println!("{took:?} after both were killed");
    let most = KEPT + CLAIM + Duration::from_secs(1) + excuse.so_far();
    assert!(took < most, "{took:?}");
}

/// Fails if a free lock goes to another process than the first in the queue, or if waiting
/// processes are not notified. Also fails if a repeated request costs a process its place in the
/// queue.
#[tokio::test]
async fn first_come_first_served() {
    let (database, pool) = fresh().await;
    without_haste(&database).await;
    let (held, probe) = (take(&pool, "order").await, database.probe("lock:"));
    let served = Arc::new(Mutex::new(Vec::new()));
    let mut calls = JoinSet::new();
    for name in 0..6 {
        let pool = patient(&database).await;
        let acquire = pool.lock("order").ttl(TTL).wait(LONG).acquire();
        let acquire = wait::started(acquire).await;
        queued(&probe, "order", name + 1).await;
        let served = Arc::clone(&served);
        calls.spawn(async move {
            let guard = acquire.await.expect("its turn comes");
            served.lock().expect("no panic").push((name, guard.fence()));
            guard.release().await.expect("still held");
        });
    }
    // During this sleep, each waiting process repeats its request.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let excuse = Excuse::begin();
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
    // Without messages each process would repeat its request only after about half a second. A busy
    // machine may delay each of the six processes.
    let most = Duration::from_secs(1) + excuse.so_far() * 6;
    assert!(took < most, "{took:?}");
}
