//! Tests that processes on one cluster get a lock in the order of their requests, and that dead
//! processes are skipped.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use leasehold_tests::lateness::Excuse;
use leasehold_tests::session_server::{SessionProbe as _, SessionServer, leader};
use leasehold_tests::worker::{Event, Job, Scenario, Worker};
use leasehold_tests::{clock, wait};
use tokio::task::JoinSet;

use super::{HELD, LONG, Times, connect, connect_patiently, works};

/// Longest time from the end of a session until the server detects it.
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

/// Makes four processes add to a number in a file until `disturb` has ended. Fails if the final
/// number is not the number of additions.
fn counts(url: &str, ttl: Duration, disturb: impl FnOnce(&mut [Worker])) {
    const KEY: &str = "counted";
    let file = url.replace(|letter: char| !letter.is_ascii_alphanumeric(), "-");
    let file = std::env::temp_dir().join(format!("leasehold-{}-{file}", std::process::id()));
    std::fs::write(&file, "0").expect("a file can be written");
    let scenario = Scenario::Count {
        file: file.display().to_string(),
        times: None,
        pause_us: 300,
    };
    let job = job(url.to_owned(), KEY, ttl, scenario);
    let mut workers = [(); 4].map(|()| Worker::spawn(env!("CARGO_BIN_EXE_worker"), &job));
    disturb(&mut workers);
    for worker in &mut workers {
        worker.wait_entered(LONG);
        worker.leave();
    }
    let mut additions = 0;
    for mut worker in workers {
        assert_eq!(worker.wait_end(LONG * 2), Event::Done);
        additions += worker.sections(KEY).len();
    }
    let number = std::fs::read_to_string(&file).expect("the file");
    std::fs::remove_file(&file).expect("the file");
    assert_eq!(number, additions.to_string());
}

/// Fails if two processes hold the lock at the same time, because an increment would then be lost.
pub(crate) fn processes_increment_a_number_without_lost_updates<S: SessionServer>() {
    const TIMES: u32 = 60;
    counts(&S::shared().url("counted"), HELD, |workers| {
        // All processes continue until the last one has had the lock often enough.
        for worker in workers {
            for _ in 0..TIMES {
                worker.wait_entered(LONG);
            }
        }
    });
}

/// Fails if a killed process keeps its lock for longer than its session, or blocks the queue.
pub(crate) async fn killed_processes_are_skipped_in_the_queue<S: Times>() {
    let server = S::shared();
    let (url, probe) = (server.url("killed"), server.probe("killed", "lock:"));
    let pool = connect(&url).await;
    let spawn = || {
        let job = job(url.clone(), "killed", S::LEASE, Scenario::Hold);
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
    works::<S>(&pool, "killed").await;
    let took = killed.elapsed();
    println!("{took:?} after both were killed");
    let most = S::SESSION + NOTICED + Duration::from_secs(1) + excuse.so_far();
    assert!(took < most, "{took:?}");
}

/// Fails if the body of a stopped process continues when the process resumes, although another pool
/// has the lock by then.
pub(crate) async fn a_stopped_holder_loses_its_lock_and_ends_its_body<S: Times>() {
    let server = S::shared();
    let url = server.url("stopped-holder");
    let pool = connect(&url).await;
    let job = job(url, "k", S::LEASE, Scenario::Hold);
    let mut holder = Worker::spawn(env!("CARGO_BIN_EXE_worker"), &job);
    holder.wait_entered(LONG);
    holder.process().pause();
    let guard = pool.lock("k").ttl(HELD).wait(LONG).acquire().await;
    let guard = guard.expect("the holder is passed over");
    let taken = clock::now();
    holder.process().resume();
    let ended = holder.wait_end(LONG);
    assert!(
        matches!(&ended, Event::Failed { kind, .. } if kind == "Lost"),
        "{ended:?}"
    );
    for event in holder.seen() {
        let late = matches!(event, Event::Poll { began, .. } if taken <= *began);
        assert!(!late, "polled while another pool has the lock: {event:?}");
    }
    guard.release().await.expect("held");
}

/// Fails if a free lock goes to another process than the first in the queue, or if waiting
/// processes are not notified. Also fails if a repeated request costs a process its place in the
/// queue.
pub(crate) async fn first_come_first_served<S: SessionServer>() {
    // Time limit for six processes that get the lock one after the other. Without notifications,
    // each of them would repeat its request only after about half a second.
    const NOTICE: Duration = Duration::from_millis(1_500);
    let mut took = [Duration::MAX; 3];
    for (round, took) in took.iter_mut().enumerate() {
        let excuse = Excuse::begin();
        *took = serve_six::<S>(&format!("order-{round}")).await;
        if *took < NOTICE + excuse.so_far() {
            return;
        }
    }
    panic!("{took:?}");
}

/// Makes six processes queue for a lock. Returns the time until all of them have had the lock.
async fn serve_six<S: SessionServer>(key: &str) -> Duration {
    let of_all = S::shared();
    let (url, probe) = (of_all.url("order"), of_all.probe("order", "lock:"));
    let pool = connect_patiently(&url).await;
    let held = pool.lock(key).ttl(HELD).wait(LONG).acquire().await;
    let held = held.expect("it is free");
    let served = Arc::new(Mutex::new(Vec::new()));
    let mut calls = JoinSet::new();
    for name in 0..6 {
        let pool = connect_patiently(&url).await;
        let acquire = pool.lock(key).ttl(HELD).wait(LONG).acquire();
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
    // During this sleep, each waiting process repeats its request.
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

/// Fails if two processes hold the lock at the same time while a cluster loses its leaders. The
/// processes continue until the last leader is back. The first leader is killed after `begin`
/// returns. The ttl of the locks, `ttl`, is longer than a change of leaders takes.
pub(crate) fn no_increment_is_lost_while_leaders_are_killed<S: SessionServer>(
    mut cluster: Vec<S>,
    ttl: Duration,
    begin: impl FnOnce(&mut [Worker]),
) {
    let url = S::url_of(&cluster, "counted-by-leaders");
    counts(&url, ttl, |workers| {
        begin(workers);
        for round in 0..4 {
            let at = leader(&cluster, None);
            let leader = &mut cluster[at];
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
}
