//! Processes queue for a lock: in order, in turns, and whatever happens to one of them. A pool is a
//! process to the store.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::{LockGuard, LockPool, LockPoolBuilder};
use leasehold_tests::redis_probe::RedisProbe;
use leasehold_tests::server::Server;
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

const TTL: Duration = Duration::from_secs(20);
const LONG: Duration = Duration::from_secs(60);
/// For so long the store keeps a key for a process that it was handed to.
const CLAIM: Duration = Duration::from_secs(1);
/// After so long without a sign of life a process has no place any more.
const FORGOTTEN: Duration = Duration::from_secs(3);
/// What is left on the server when all is over.
const FENCES: &str = "lock:%leasehold:fence";

async fn connect(url: &str) -> LockPool {
    connect_with(url, |pool| pool).await
}

async fn connect_with(url: &str, set: fn(LockPoolBuilder) -> LockPoolBuilder) -> LockPool {
    wait::connected(set(LockPool::builder().url(url))).await
}

async fn take(pool: &LockPool, key: &str) -> LockGuard {
    let guard = pool.lock(key).ttl(TTL).acquire().await;
    guard.expect("it is free")
}

/// Returns when the store has carried out what the pool asked before, and the pool has taken the
/// answers.
async fn settle(pool: &LockPool) {
    for _ in 0..2 {
        let guard = take(pool, &format!("settle-{pool:p}")).await;
        guard.release().await.expect("still held");
    }
}

/// How many processes have a place in the queue for `key`.
fn queued(probe: &RedisProbe, key: &str) -> usize {
    const RECORD: usize = 46;
    let queue = probe.get(&format!("lock:%leasehold:queue:lock:{key}"));
    let queue = queue.unwrap_or_default();
    assert_eq!(queue.len() % RECORD, 0, "a queue of another form");
    let marked = queue.starts_with(&"0".repeat(32));
    queue.len() / RECORD - usize::from(marked)
}

/// Calls that wait for one key, and in what order they were served.
struct Line {
    key: &'static str,
    /// How long each stays inside.
    stay: Duration,
    served: Arc<Mutex<Vec<(&'static str, u64)>>>,
    calls: JoinSet<()>,
}

impl Line {
    fn new(key: &'static str) -> Self {
        Self {
            key,
            stay: Duration::ZERO,
            served: Arc::default(),
            calls: JoinSet::new(),
        }
    }

    /// Begins to wait; the store knows of it when this returns.
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
                let fence = guard.fence().expect("the store has fences");
                served.lock().expect("no panic").push((who, fence.get()));
                tokio::time::sleep(stay).await;
                guard.release().await.expect("still held");
            });
        }
        settle(pool).await;
    }

    /// The processes that were served, in this order; fails if fences do not grow with it.
    async fn served(mut self) -> Vec<&'static str> {
        while let Some(call) = wait::within("all are served", LONG, self.calls.join_next()).await {
            call.expect("no panic");
        }
        let served = self.served.lock().expect("no panic");
        assert!(served.is_sorted_by(|a, b| a.1 < b.1), "{served:?}");
        served.iter().map(|(who, _)| *who).collect()
    }
}

/// A server and a holder of `key`, in a process of its own.
async fn held(key: &str) -> (Server, RedisProbe, LockGuard) {
    let server = Server::start();
    let probe = server.probe();
    let guard = take(&connect(&server.url()).await, key).await;
    (server, probe, guard)
}
