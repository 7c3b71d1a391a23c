//! Tests of the main purpose of a lock. Annotated functions read a number, pause, and write the
//! number plus one. No update may be lost.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold::{LockError, LockPool, distributed_lock};
use leasehold_tests::clock;
use leasehold_tests::random::Random;
use leasehold_tests::recorder::Recorder;
use leasehold_tests::server::Server;
use leasehold_tests::wait;
use leasehold_tests::worker::{Event, Job, Scenario, Worker};
use tokio::task::JoinSet;

const LONG: Duration = Duration::from_secs(120);

/// A counter that only a holder of the lock may change, and a recorder that detects overlapping
/// bodies.
#[derive(Default)]
struct Shared {
    number: AtomicU64,
    recorder: Recorder,
}

#[distributed_lock(key = "counter:<name>", ttl = "20s", wait = "60s", guard = lock, pool = pool)]
async fn add_one(
    pool: &LockPool,
    name: &str,
    shared: &Shared,
    pause: Duration,
) -> Result<(), LockError> {
    let fence = lock.fence().map(u64::from);
    let deadline = clock::in_future(lock.remaining());
    let _inside = shared.recorder.enter(name, fence, deadline);
    let number = shared.number.load(Ordering::Relaxed);
    tokio::time::sleep(pause).await;
    shared.number.store(number + 1, Ordering::Relaxed);
    Ok(())
}

/// Fails if two bodies run inside the lock at the same time. An update is then lost, and the
/// counter ends below the number of calls.
async fn tasks_lose_no_update(urls: &[String]) {
    const TASKS: u64 = 24;
    const TIMES: u64 = 15;
    let mut random = Random::seeded("tasks lose no update");
    let shared = Arc::new(Shared::default());
    let mut pools = Vec::new();
    for url in urls {
        pools.push(wait::connected(LockPool::builder().url(url)).await);
    }
    let mut tasks = JoinSet::new();
    for pool in pools.iter().cycle().take(24) {
        let (pool, shared, mut random) = (pool.clone(), Arc::clone(&shared), random.fork());
        tasks.spawn(async move {
            for _ in 0..TIMES {
                let pause = random.duration(Duration::from_millis(2));
                add_one(&pool, "shared", &shared, pause).await?;
            }
            Ok::<_, LockError>(())
        });
    }
    while let Some(task) = tasks.join_next().await {
        task.expect("no panic").expect("its turn comes");
    }
    shared.recorder.verify();
    assert_eq!(shared.recorder.len() as u64, TASKS * TIMES);
    assert_eq!(shared.number.load(Ordering::Relaxed), TASKS * TIMES);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_lose_no_update_in_memory() {
    let url = "memory://concurrency".to_owned();
    tasks_lose_no_update(&[url.clone(), url]).await;
}

/// Two pools on one server stand for two processes. Their bodies report to one recorder, which
/// detects overlaps.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_lose_no_update_in_redis() {
    let server = Server::start();
    tasks_lose_no_update(&[server.url(), server.url()]).await;
}

fn connects(worker: &mut Worker) -> bool {
    let event = worker.wait_for("it connects, or fails", LONG, |event| {
        matches!(event, Event::Ready | Event::Failed { .. })
    });
    event == Event::Ready
}

/// Fails if the lock works only within one process.
#[test]
fn processes_lose_no_update() {
    const TIMES: u32 = 40;
    let server = Server::start();
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("counter-{}", std::process::id()));
    fs::write(&file, "0").expect("a file can be written");
    let job = Job {
        url: server.url(),
        key: "counter".to_owned(),
        ttl_ms: 20_000,
        wait_ms: 60_000,
        watchdog: true,
        scenario: Scenario::Count {
            file: file.display().to_string(),
            times: Some(TIMES),
            pause_us: 1_000,
        },
    };
    let recorder = Recorder::new();
    let program = env!("CARGO_BIN_EXE_worker");
    let mut workers = [(); 3].map(|()| Worker::spawn(program, &job));
    for worker in &mut workers {
        // On a busy machine, the pool of a worker may not connect in time. Another worker then
        // replaces this one.
        while !connects(worker) {
            *worker = Worker::spawn(program, &job);
        }
    }
    for worker in &mut workers {
        let end = worker.wait_end(LONG);
        assert_eq!(end, Event::Done);
        for section in worker.sections(&job.key) {
            recorder.add(section);
        }
    }
    recorder.verify();
    assert_eq!(recorder.len(), 3 * TIMES as usize);
    let number = fs::read_to_string(&file).expect("it was written");
    let _ = fs::remove_file(&file);
    assert_eq!(number, (3 * TIMES).to_string());
}
