//! Checks that an answer wakes only the caller's thread. The test is in a separate program, because
//! it finds the engine's thread by its name.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use leasehold::LockPool;
use leasehold_tests::server::Server;
use tokio::runtime::Builder;

const TTL: Duration = Duration::from_secs(60);
const LIMIT: Duration = Duration::from_secs(20);

async fn pairs(pool: &LockPool, count: usize) {
    for _ in 0..count {
        let request = pool.lock("key").ttl(TTL).wait(LIMIT);
        let guard = request.acquire().await.expect("free");
        guard.release().await.expect("held");
    }
}

/// Returns the number of times that the engine's thread has gone to sleep. The thread sleeps again
/// after each wake-up, so this is also the number of its wake-ups.
fn sleeps() -> usize {
    let read = |path: &Path, file: &str| fs::read_to_string(path.join(file)).unwrap_or_default();
    let tasks = fs::read_dir("/proc/self/task").expect("it is there");
    let mut paths = tasks.map(|task| task.expect("it is listed").path());
    let path = paths.find(|path| read(path, "comm").trim() == "leasehold");
    let status = read(&path.expect("it runs"), "status");
    let mut lines = status.lines();
    let count = lines.find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    let count = count.and_then(|count| count.trim().parse().ok());
    count.expect("a number")
}

/// The caller's runtime reads the answers. Fails if an answer also wakes the engine's thread.
#[test]
fn an_answer_wakes_one_thread() {
    const PAIRS: usize = 2_000;
    let server = Server::start();
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let pool = runtime.block_on(LockPool::connect(&server.url()));
    let pool = pool.expect("it answers");
    runtime.block_on(pairs(&pool, 1));
    let few = || {
        let (began, before) = (Instant::now(), sleeps());
        runtime.block_on(pairs(&pool, PAIRS));
        let slept = sleeps() - before;
        // The engine's thread checks for answers every 20 ms. Twice as many checks are allowed.
        let looks = usize::try_from(began.elapsed().as_millis()).expect("it fits") / 10;
        slept < looks + PAIRS / 10
    };
    // If the system delays the caller's runtime for long, the engine's thread reads the answers for
    // a second. So one successful attempt out of five is enough.
    assert!((0..5).any(|_| few()), "about once for each answer");
}
