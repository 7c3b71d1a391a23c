//! Tests of waiting for a held lock. The time limit must be kept, and the calls must get the lock
//! in the order in which they came.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use leasehold::{Fairness, LockError, LockPool};
use leasehold_tests::lateness::Excuse;
use leasehold_tests::probe::{MemoryProbe, Probe};
use leasehold_tests::proxy::{Mode, Proxy};
use leasehold_tests::server::Server;
use leasehold_tests::stores::{NO_OUTAGE, Store};
use leasehold_tests::{on_stores, wait};
use tokio::task::JoinSet;

use crate::bodies::is_released;

const TTL: Duration = Duration::from_secs(20);
/// Time allowed for a round trip to the store, in addition to the delays of a busy machine.
const SLACK: Duration = Duration::from_millis(250);

/// A store in memory and one in Redis, each with a probe that acts as another holder.
struct Stores {
    _server: Server,
    stores: [(LockPool, Arc<dyn Probe>); 2],
}

impl Stores {
    async fn open(name: &str) -> Self {
        let server = Server::start();
        let memory = format!("memory://waiting-{name}");
        let redis: Arc<dyn Probe> = Arc::new(server.probe().namespace("lock:"));
        let stores = [
            (
                connect(&memory, NO_OUTAGE).await,
                Arc::new(MemoryProbe::new(&memory)) as _,
            ),
            (connect(&server.url(), NO_OUTAGE).await, redis),
        ];
        Self {
            _server: server,
            stores,
        }
    }
}

async fn connect(url: &str, io_timeout: Duration) -> LockPool {
    let fairness = Fairness::default().max_waiters(20);
    let pool = LockPool::builder().url(url).fairness(fairness);
    wait::connected(pool.io_timeout(io_timeout)).await
}

/// Fails if the time limit starts again with each attempt, or if the last attempt exceeds it.
#[tokio::test]
async fn the_budget_is_never_exceeded() {
    let stores = Stores::open("budget").await;
    for (pool, probe) in &stores.stores {
        assert!(probe.take("held", TTL));
        let mut calls = JoinSet::new();
        // These limits are so long that the store answers within them even on a busy machine.
        // Without an answer, the error would be `Unavailable`.
        for wait in [3_050, 3_300, 3_700, 4_100].map(Duration::from_millis) {
            let request = pool.lock("held").ttl(TTL).wait(wait);
            calls.spawn(async move {
                let (started, excuse) = (Instant::now(), Excuse::begin());
                let error = request.acquire().await.expect_err("it is held");
                let took = started.elapsed();
                let slack = SLACK + excuse.so_far();
                match &error {
                    LockError::TimedOut { key, waited, .. } => {
                        assert_eq!(key, "held");
                        assert!(*waited <= took && *waited + slack > took, "{waited:?}");
                    }
                    other => panic!("{other:?}"),
                }
                assert!(took >= wait, "gave up after {took:?} of {wait:?}");
                assert!(took < wait + slack, "took {took:?} of {wait:?}");
            });
        }
        while let Some(call) = calls.join_next().await {
            call.expect("no panic");
        }
        assert!(probe.untouched("held"));
        probe.give_back("held");
        assert!(
            !probe.exists("held"),
            "a call that timed out leaves no trace"
        );
    }
}

/// Fails if the time for I/O does not count towards the time limit.
#[tokio::test]
async fn the_budget_includes_waiting_for_an_answer() {
    let server = Server::start();
    let mut calls = JoinSet::new();
    for mode in [Mode::BlackHole, Mode::Stall, Mode::SwallowReplies] {
        for wait in [100, 400, 800].map(Duration::from_millis) {
            let proxy = Proxy::start(server.address());
            let pool = connect(&proxy.url(), Duration::from_secs(1)).await;
            calls.spawn(async move {
                proxy.set(mode);
                let (started, excuse) = (Instant::now(), Excuse::begin());
                let request = pool.lock("unanswered").ttl(TTL).wait(wait);
                let error = request.acquire().await.expect_err("no answer");
                let took = started.elapsed();
                assert!(error.is_unavailable(), "{mode:?}: {error:?}");
                let slack = SLACK + excuse.so_far();
                assert!(took < wait + slack, "{mode:?}: took {took:?} of {wait:?}");
            });
        }
    }
    while let Some(call) = calls.join_next().await {
        call.expect("no panic");
    }
}

#[tokio::test]
async fn a_call_without_a_budget_tries_once() {
    let stores = Stores::open("one-try").await;
    for (pool, probe) in &stores.stores {
        assert!(probe.take("held", TTL));
        let (started, excuse) = (Instant::now(), Excuse::begin());
        let error = pool.lock("held").ttl(TTL).acquire().await;
        let error = error.expect_err("it is held");
        assert!(started.elapsed() < SLACK + excuse.so_far());
        assert!(matches!(error, LockError::Contended { .. }), "{error:?}");
        let left = error.retry_after().expect("both stores report it");
        assert!(left <= TTL && left > TTL / 2, "{left:?} of {TTL:?}");
        assert!(error.to_string().contains("set `wait`"), "{error}");
    }
}

type Acquire = Pin<Box<dyn Future<Output = Result<leasehold::LockGuard, LockError>> + Send>>;

/// Returns a call that already waits for `key`. So the order in which a test makes such calls is
/// the order of the queue.
async fn queue(pool: &LockPool, key: &str) -> Acquire {
    wait::started(pool.lock(key).ttl(TTL).wait(TTL).acquire()).await
}

/// Fails if a released lock goes to a waiting call other than the first in the queue.
async fn first_come_first_served(store: &Store) {
    let pool = store.pool().await;
    let held = pool.lock("queue").ttl(TTL).acquire().await.expect("free");
    let served = Arc::new(Mutex::new(Vec::new()));
    let mut waiters = JoinSet::new();
    for number in 0..20 {
        let acquire = queue(&pool, "queue").await;
        let served = Arc::clone(&served);
        waiters.spawn(async move {
            let guard = acquire.await.expect("its turn comes");
            let one = (number, guard.fence());
            served.lock().expect("no panic").push(one);
            tokio::task::yield_now().await;
            guard.release().await.expect("still held");
        });
    }
    drop(held);
    while let Some(waiter) = waiters.join_next().await {
        waiter.expect("no panic");
    }
    let served = served.lock().expect("no panic");
    let order: Vec<_> = served.iter().map(|(number, _)| *number).collect();
    assert_eq!(order, (0..20).collect::<Vec<_>>());
    let grow = served.is_sorted_by(|a, b| a.1 < b.1);
    // A quorum has no fences.
    let has_fences = !store.url.starts_with("redlock://");
    assert_eq!(grow, has_fences, "fences grow: {served:?}");
}

on_stores!(memory redis sentinel cluster redlock postgres etcd zookeeper: (
    first_come_first_served,
));

/// Waiting calls are dropped just after a release. Fails if a dropped call keeps the last waiting
/// call from the lock.
#[tokio::test]
async fn an_abandoned_wait_does_not_block_later_ones() {
    let stores = Stores::open("gives-up").await;
    for (pool, probe) in &stores.stores {
        let held = pool.lock("queue").ttl(TTL).acquire().await.expect("free");
        let mut waiters = Vec::new();
        for _ in 0..10 {
            waiters.push(queue(pool, "queue").await);
        }
        let last = waiters.pop().expect("ten of them");
        waiters.truncate(5);
        let (released, excuse) = (Instant::now(), Excuse::begin());
        drop(held);
        // The calls are dropped while the lock is being passed to one of them.
        drop(waiters);
        let guard = last.await.expect("it is the only one left");
        assert!(released.elapsed() < Duration::from_secs(2) + excuse.so_far());
        let asked = Instant::now();
        guard.release().await.expect("still held");
        is_released(&**probe, "queue", asked).await;
    }
}

/// Another client releases the lock, or lets it expire. Fails if a waiting call of leasehold does
/// not get the lock soon after that.
#[tokio::test]
async fn a_release_or_expiry_elsewhere_is_noticed() {
    let stores = Stores::open("elsewhere").await;
    for (pool, probe) in &stores.stores {
        assert!(probe.take("released", TTL));
        let acquire = tokio::spawn(queue(pool, "released").await);
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert!(probe.untouched("released"));
        probe.give_back("released");
        let (released, excuse) = (Instant::now(), Excuse::begin());
        acquire
            .await
            .expect("no panic")
            .expect("its turn comes")
            .release()
            .await
            .expect("held");
        // A waiting call repeats its request at least once a second.
        assert!(
            released.elapsed() < Duration::from_secs(1) + SLACK + excuse.so_far(),
            "{:?}",
            released.elapsed()
        );

        let short = Duration::from_millis(400);
        assert!(probe.take("expired", short));
        let (taken, excuse) = (Instant::now(), Excuse::begin());
        let request = pool.lock("expired").ttl(TTL).wait(TTL);
        let guard = request.acquire().await.expect("its turn comes");
        let most = short + SLACK + excuse.so_far();
        assert!(taken.elapsed() < most, "{:?}", taken.elapsed());
        drop(guard);
    }
}

/// Fails if the number of waiting calls has no limit.
#[tokio::test]
async fn a_full_queue_refuses_calls() {
    let stores = Stores::open("full").await;
    for (pool, probe) in &stores.stores {
        assert!(probe.take("full", TTL));
        let mut waiters = Vec::new();
        for _ in 0..20 {
            waiters.push(queue(pool, "full").await);
        }
        let request = pool.lock("full").ttl(TTL).wait(TTL);
        let error = request.acquire().await.expect_err("twenty wait already");
        assert!(
            matches!(&error, LockError::QueueFull { key, limit: 20, .. } if key == "full"),
            "{error:?}"
        );
        assert!(error.to_string().contains("max_waiters"), "{error}");
        let other = pool.lock("other").ttl(TTL).wait(TTL).acquire().await;
        other
            .expect("another key has its own queue")
            .release()
            .await
            .expect("held");
        waiters.truncate(19);
        drop(queue(pool, "full").await);
    }
}
