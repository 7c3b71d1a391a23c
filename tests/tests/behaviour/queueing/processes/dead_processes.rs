//! Tests that a killed or stopped waiting process delays the other processes only a little.

use std::time::{Duration, Instant};

use leasehold::{LockGuard, LockPool};
use leasehold_tests::lateness::Excuse;
use leasehold_tests::redis_probe::RedisProbe;
use leasehold_tests::server::Server;
use leasehold_tests::wait;
use leasehold_tests::worker::{Event, Job, Scenario, Worker};
use redis::cmd;

use super::{CLAIM, FORGOTTEN, LONG, Line, TTL, connect, held, queued};

/// Tolerance for a busy machine.
const SLACK: Duration = Duration::from_millis(800);

/// Starts `count` worker processes, which wait for the held lock `dead`.
pub(super) async fn waiting(server: &Server, probe: &RedisProbe, count: usize) -> Vec<Worker> {
    let job = Job {
        url: server.url(),
        key: "dead".to_owned(),
        ttl_ms: 20_000,
        wait_ms: 120_000,
        watchdog: true,
        scenario: Scenario::Hold,
    };
    let mut workers = Vec::new();
    for number in 1..=count {
        workers.push(connected(&job));
        wait::until_async("it waits", LONG, || queued(probe, "dead") == number).await;
    }
    workers
}

/// Starts a worker, and waits until its pool is connected. If the pool cannot connect in time on a
/// busy machine, another worker is started.
fn connected(job: &Job) -> Worker {
    for _ in 0..20 {
        let mut worker = Worker::spawn(env!("CARGO_BIN_EXE_worker"), job);
        let event = worker.wait_for("it connects, or fails", LONG, |event| {
            matches!(event, Event::Ready | Event::Failed { .. })
        });
        if event == Event::Ready {
            return worker;
        }
    }
    panic!("no worker connects");
}

/// Returns the time from a release until the next live process has the lock, minus the delays of a
/// busy machine.
async fn next_after(server: &Server, held: LockGuard) -> Duration {
    let mut line = Line::new("dead");
    line.join(&connect(&server.url()).await, "next").await;
    served_after(held, line).await
}

/// Returns the time from the release until all processes have had the lock, minus the delays of a
/// busy machine.
async fn served_after(held: LockGuard, line: Line) -> Duration {
    let (released, excuse) = (Instant::now(), Excuse::begin());
    held.release().await.expect("still held");
    line.served().await;
    released.elapsed().saturating_sub(excuse.so_far())
}

/// Fails if the lock is reserved for a process whose connection has ended.
#[tokio::test]
async fn killed_processes_delay_no_other_process() {
    let (server, probe, held) = held("dead").await;
    let mut workers = waiting(&server, &probe, 3).await;
    let clients = || -> usize {
        let list: String = probe.run(cmd("CLIENT").arg("LIST"));
        list.lines().count()
    };
    let before = clients();
    for worker in &mut workers {
        worker.process().kill();
    }
    wait::until_async("the server notices", LONG, || clients() + 3 <= before).await;
    let took = next_after(&server, held).await;
    assert!(took < CLAIM, "{took:?}");
}

/// Fails if a lock stays reserved for a stopped process. Also fails if that process gets no lock
/// after it resumes.
#[tokio::test]
async fn a_stopped_process_delays_others_by_one_claim() {
    let (server, probe, held) = held("dead").await;
    let mut workers = waiting(&server, &probe, 1).await;
    workers[0].process().pause();
    let took = next_after(&server, held).await;
    assert!(took < CLAIM + SLACK, "{took:?}");
    workers[0].process().resume();
    workers[0].wait_entered(LONG);
    workers[0].leave();
    assert_eq!(workers[0].wait_end(LONG), Event::Done);
}

/// Fails if a stopped writer delays the readers behind it for longer than one reservation of the
/// lock.
#[tokio::test]
async fn a_stopped_writer_delays_readers_by_one_claim() {
    let server = Server::start();
    let probe = server.probe();
    let reads = |pool: LockPool| pool.lock("dead").ttl(TTL).shared().wait(LONG).acquire();
    let first = reads(connect(&server.url()).await).await.expect("free");
    let mut workers = waiting(&server, &probe, 1).await;
    workers[0].process().pause();
    let pool = connect(&server.url()).await;
    let (started, excuse) = (Instant::now(), Excuse::begin());
    let second = wait::within("it reads", LONG, reads(pool)).await;
    let took = started.elapsed();
    assert!(took < CLAIM + SLACK + excuse.so_far(), "{took:?}");
    for guard in [first, second.expect("two read")] {
        guard.release().await.expect("still held");
    }
    workers[0].process().resume();
    workers[0].wait_entered(LONG);
    workers[0].leave();
    assert_eq!(workers[0].wait_end(LONG), Event::Done);
}

/// Requirement 24 of the fault harness. Fails if five stopped processes delay the next one for six
/// seconds or longer: one second for each of them, and one second of tolerance.
#[tokio::test]
async fn five_stopped_processes_delay_others_by_six_seconds() {
    let (server, probe, held) = held("dead").await;
    let mut workers = waiting(&server, &probe, 5).await;
    for worker in &mut workers {
        worker.process().pause();
    }
    let took = next_after(&server, held).await;
    assert!(took < Duration::from_secs(6), "{took:?}");
}

/// Fails if the lock is still reserved for a process stopped long ago.
#[tokio::test]
async fn long_dead_processes_delay_no_other_process() {
    let (server, probe, held) = held("dead").await;
    let mut workers = waiting(&server, &probe, 3).await;
    for worker in &mut workers {
        worker.process().pause();
    }
    // One live process must keep waiting. Without any requests, the whole queue would expire,
    // instead of only the places of the dead processes.
    let mut line = Line::new("dead");
    line.join(&connect(&server.url()).await, "next").await;
    tokio::time::sleep(FORGOTTEN + Duration::from_millis(500)).await;
    let took = served_after(held, line).await;
    assert!(took < CLAIM, "{took:?}");
}
