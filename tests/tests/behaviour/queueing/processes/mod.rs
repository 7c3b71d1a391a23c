//! Tests of processes that queue for a lock. They get the lock in the order of the queue, even if
//! one of them fails. Each pool is a separate process for the store.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use leasehold::{Fairness, LockGuard, LockPool};
use leasehold_tests::lateness::Excuse;
use leasehold_tests::redis_probe::RedisProbe;
use leasehold_tests::server::Server;
use leasehold_tests::stores::NO_OUTAGE;
use leasehold_tests::wait;
use tokio::task::JoinSet;

mod clock;
mod dead_processes;
mod full_memory;
mod lost_messages;
mod no_push;
mod order;
mod traces;
mod traffic;
mod turns;

/// The ttl of most locks. It is longer than any test, so no lock expires.
const TTL: Duration = Duration::from_secs(120);
const LONG: Duration = Duration::from_secs(60);
/// Time for which the store reserves a free key for the next process.
const CLAIM: Duration = Duration::from_secs(1);
/// Time without a request after which a process loses its place in the queue.
const FORGOTTEN: Duration = Duration::from_secs(3);
/// Time limit for waits. It is shorter than the ttl, so no wait succeeds only because a lock has
/// expired.
const SOON: Duration = Duration::from_secs(20);
/// The only key that may be left on the server at the end.
const FENCES: &str = "lock:%leasehold:fence";

async fn connect(url: &str) -> LockPool {
    connect_with(url, |fairness| fairness).await
}

async fn connect_with(url: &str, set: fn(Fairness) -> Fairness) -> LockPool {
    let pool = LockPool::builder().url(url).io_timeout(NO_OUTAGE);
    wait::connected(pool.fairness(set(Fairness::default()))).await
}

async fn take(pool: &LockPool, key: &str) -> LockGuard {
    let guard = pool.lock(key).ttl(TTL).acquire().await;
    guard.expect("it is free")
}

/// Waits until the store has executed all earlier requests of the pool, and the pool has received
/// the answers.
async fn settle(pool: &LockPool) {
    for _ in 0..2 {
        let guard = take(pool, &format!("settle-{pool:p}")).await;
        guard.release().await.expect("still held");
    }
}

/// Returns the number of processes with a place in the queue for `key`.
fn queued(probe: &RedisProbe, key: &str) -> usize {
    /// Length of a record in the queue, in bytes.
    const RECORD: usize = 46;
    let queue = probe.get(&format!("lock:%leasehold:queue:lock:{key}"));
    let queue = queue.unwrap_or_default();
    assert_eq!(queue.len() % RECORD, 0, "a queue of another form");
    let marked = queue.starts_with(&"0".repeat(32));
    queue.len() / RECORD - usize::from(marked)
}

/// A call that has had the lock.
#[derive(Debug)]
struct Served {
    who: &'static str,
    fence: u64,
    at: Instant,
}

/// Calls that wait for one key, and the order in which they had the lock.
struct Line {
    key: &'static str,
    /// Time for which each call stays inside.
    stay: Duration,
    served: Arc<Mutex<Vec<Served>>>,
    calls: JoinSet<()>,
    excuse: Excuse,
}

impl Line {
    fn new(key: &'static str) -> Self {
        Self {
            key,
            stay: Duration::ZERO,
            served: Arc::default(),
            calls: JoinSet::new(),
            excuse: Excuse::begin(),
        }
    }

    /// Starts a waiting call. When this function returns, the store has the request.
    async fn join(&mut self, pool: &LockPool, who: &'static str) {
        self.join_all(pool, who, 1).await;
    }

    async fn join_all(&mut self, pool: &LockPool, who: &'static str, calls: u32) {
        for _ in 0..calls {
            let request = pool.lock(self.key).ttl(TTL).wait(LONG);
            let acquire = wait::started(request.acquire()).await;
            let (served, stay) = (Arc::clone(&self.served), self.stay);
            self.calls.spawn(async move {
                let guard = acquire.await.expect("its turn comes");
                let fence = guard.fence().expect("the store has fences").get();
                let at = Instant::now();
                let one = Served { who, fence, at };
                served.lock().expect("no panic").push(one);
                tokio::time::sleep(stay).await;
                guard.release().await.expect("still held");
            });
        }
        settle(pool).await;
    }

    /// Returns the processes in the order in which they had the lock. Fails if their fences do not
    /// grow.
    async fn served(self) -> Vec<&'static str> {
        let (order, _) = self.served_since(Instant::now()).await;
        order
    }

    /// Like `served`, after a release at `released`. Also returns true if a process may have been
    /// woken too late for the lock reserved for it. The store then reserves the lock for the next
    /// process. A process woken much later has also lost its place in the queue.
    async fn served_since(mut self, released: Instant) -> (Vec<&'static str>, bool) {
        while let Some(call) = wait::within("all are served", LONG, self.calls.join_next()).await {
            call.expect("no panic");
        }
        let served = self.served.lock().expect("no panic");
        let grows = served.is_sorted_by(|a, b| a.fence < b.fence);
        assert!(grows, "{served:?}");
        let late = self.excuse.so_far();
        let (mut last, mut missed) = (released, FORGOTTEN <= late);
        for one in &*served {
            let gap = one.at.saturating_duration_since(last);
            // On an idle machine a gap excuses nothing.
            missed |= CLAIM / 4 <= late && self.stay + CLAIM <= gap;
            last = one.at;
        }
        (served.iter().map(|one| one.who).collect(), missed)
    }

    /// Fails if the processes do not get the lock in the order `expected` after a release at
    /// `released`. A process that missed its reservation must still get the lock later.
    async fn served_as(self, released: Instant, expected: &[&'static str]) {
        let (mut order, missed) = self.served_since(released).await;
        let mut expected = expected.to_vec();
        if missed && order != expected {
            println!("a turn was missed: {order:?}");
            order.sort_unstable();
            expected.sort_unstable();
        }
        assert_eq!(order, expected);
    }
}

/// Starts a server, and a holder of `key` in a separate process.
async fn held(key: &str) -> (Server, RedisProbe, LockGuard) {
    let server = Server::start();
    let probe = server.probe();
    let guard = take(&connect(&server.url()).await, key).await;
    (server, probe, guard)
}
