//! Tests that 100,000 released locks leave only the fence counter on the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold::{LockError, LockPool, LockRequest};
use leasehold_tests::server::Server;
use leasehold_tests::wait;
use tokio::task::JoinSet;

use super::{LONG, TTL};

/// Number of locks taken.
const LOCKS: u64 = 100_000;
const CALLERS: u64 = 200;

/// Number of successive calls with the same key. Some of these calls wait for each other.
const SHARE_A_KEY: u64 = 4;

/// The only key that may stay.
const FENCES: &str = "lock:%leasehold:fence";

/// Longest remaining ttl of a key, except for the fence counter, after all locks were released.
const LAST: Duration = Duration::from_secs(4);

/// Takes and releases a lock. The number determines its kind: shared, with permits, on two keys,
/// kept, downgraded, given up or exclusive.
async fn one(pool: &LockPool, number: u64) -> Result<(), LockError> {
    let key = format!("left:{}", number / SHARE_A_KEY);
    let ttl = |request: LockRequest| request.ttl(TTL).wait(LONG);
    match number % 16 {
        0 => ttl(pool.lock(&key)).shared().run(async {}).await,
        1 => ttl(pool.lock(&key)).permits(2).run(async {}).await,
        2 => {
            let keys = [key.clone(), format!("{key}:b")];
            ttl(pool.lock_all(keys)).run(async {}).await
        }
        3 => {
            let guard = ttl(pool.lock(&key)).acquire().await?;
            guard.release_after(Duration::from_millis(20)).await
        }
        4 => {
            let mut guard = ttl(pool.lock(&key)).acquire().await?;
            guard.downgrade().await?;
            guard.release().await
        }
        5 => {
            let guard = ttl(pool.lock(&key)).permits(2).acquire().await?;
            guard.release_after(Duration::from_millis(20)).await
        }
        6 => {
            // With this short `wait`, the call may end with an error before it gets the lock.
            let request = pool.lock(&key).ttl(TTL).wait(Duration::from_millis(1));
            let ended = request.run(async {}).await;
            let given_up = |error: &LockError| error.is_contention() || error.is_unavailable();
            ended.or_else(|error| if given_up(&error) { Ok(()) } else { Err(error) })
        }
        _ => ttl(pool.lock(&key)).run(async {}).await,
    }
}

/// Fails if a lock leaves a key on the server. Only the fence counter may stay, because all locks
/// share it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_thousand_locks_leave_one_key() {
    let server = Server::start();
    let mut pools = Vec::new();
    for _ in 0..2 {
        pools.push(wait::connected(LockPool::builder().url(server.url())).await);
    }
    let next = Arc::new(AtomicU64::new(0));
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let pool = pools[usize::from(caller % 2 == 1)].clone();
        let next = Arc::clone(&next);
        callers.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if LOCKS <= number {
                    return;
                }
                one(&pool, number).await.expect("its turn comes");
            }
        });
    }
    while let Some(caller) = callers.join_next().await {
        caller.expect("no panic");
    }
    let probe = server.probe();
    // A release without an answer within a second continues in the background.
    let released = || probe.keys("lock:left:*").is_empty();
    wait::until_async("all are released", TTL / 2, released).await;
    let soon = probe.keys("*");
    // Queues and records of owners may outlast their locks by seconds. Each of these keys expires
    // automatically.
    for key in soon.iter().filter(|key| *key != FENCES) {
        assert!(
            key.starts_with("lock:%leasehold:") || key.starts_with("lock:left:"),
            "{key}"
        );
        if let Some(left) = probe.ttl(key) {
            assert!(left <= LAST, "{key} stays for {left:?}");
        } else {
            assert_eq!(probe.kind(key), "none", "{key} stays for good");
        }
    }
    println!("{} keys at the end of {LOCKS} locks", soon.len());
    let counter = || probe.keys("*") == [FENCES];
    wait::until_async("nothing but the counter is left", LONG, counter).await;
    assert_eq!(probe.ttl(FENCES), None, "it stays");
}
