//! Tests of pools in a `static` and in a field, and of their shutdown.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::OnceLock;
use std::task::Poll;
use std::time::{Duration, Instant};

use leasehold::{LockError, LockGuard, LockPool, distributed_lock};
use leasehold_tests::probe::{MemoryProbe, Probe};
use leasehold_tests::proxy::{Mode, Proxy};
use leasehold_tests::server::Server;
use leasehold_tests::stores::NO_OUTAGE;
use leasehold_tests::wait;
use redis::cmd;
use tokio::task::JoinSet;

const TTL: Duration = Duration::from_secs(20);
const LIMIT: Duration = Duration::from_secs(20);

async fn connect(url: &str) -> LockPool {
    wait::connected(LockPool::builder().url(url).io_timeout(NO_OUTAGE)).await
}

async fn take(pool: &LockPool, key: &str) -> LockGuard {
    pool.lock(key).ttl(TTL).acquire().await.expect("free")
}

struct Shop {
    locks: LockPool,
    region: &'static str,
}

trait Orders {
    async fn order(&self, id: u64) -> Result<u64, LockError>;
}

impl Shop {
    #[distributed_lock(key = "stock:<self.region>:<sku>", ttl = "20s", pool = self.locks)]
    async fn buy(&self, sku: &str, inside: impl FnOnce()) -> Result<(), LockError> {
        inside();
        Ok(())
    }
}

impl Orders for Shop {
    #[distributed_lock(key = "order:<id>", ttl = "20s", pool = &self.locks)]
    async fn order(&self, id: u64) -> Result<u64, LockError> {
        Ok(id)
    }
}

/// Fails if the attribute does not use the pool that the expression in `pool = …` returns.
#[tokio::test]
async fn the_attribute_uses_a_pool_in_a_field() {
    let url = "memory://pools-field";
    let probe = MemoryProbe::new(url);
    let locks = connect(url).await;
    let shop = Shop {
        locks,
        region: "eu",
    };
    let inside = || assert!(probe.exists("stock:eu:x"));
    shop.buy("x", inside).await.expect("free");
    let _held = take(&shop.locks, "order:7").await;
    assert!(
        shop.order(7)
            .await
            .is_err_and(|error| error.is_contention())
    );
    assert_eq!(shop.order(8).await, Ok(8));
}

static SERVER: OnceLock<Server> = OnceLock::new();
static POOL: OnceLock<LockPool> = OnceLock::new();

/// Returns one pool that several runtimes share. The first test that needs the pool connects it.
async fn shared() -> &'static LockPool {
    let server = SERVER.get_or_init(Server::start);
    if POOL.get().is_none() {
        let _ = POOL.set(connect(&server.url()).await);
    }
    POOL.get().expect("a test has set it")
}

/// Uses the shared pool, which a test on another runtime may have connected. Fails if the pool's
/// connections end with that runtime.
async fn use_shared(name: &str) {
    let pool = shared().await;
    for number in 0..50 {
        let guard = take(pool, &format!("{name}-{number}")).await;
        guard.release().await.expect("still held");
    }
    let request = pool.lock(name).ttl(Duration::from_secs(6)).watchdog();
    let renewed = request.run(tokio::time::sleep(Duration::from_secs(7)));
    assert_eq!(renewed.await, Ok(()));
}

#[tokio::test]
async fn a_pool_in_a_static_on_a_first_runtime() {
    use_shared("first").await;
}

#[tokio::test]
async fn a_pool_in_a_static_on_a_second_runtime() {
    use_shared("second").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_in_a_static_on_a_third_runtime() {
    use_shared("third").await;
}

/// Fails if a pool grants locks, or keeps callers waiting, after its shutdown has begun.
#[tokio::test]
async fn a_shutdown_waits_for_holders_and_refuses_the_rest() {
    let server = Server::start();
    let redis = server.url();
    for url in ["memory://pools-shutdown", &redis] {
        let pool = connect(url).await;
        let soon = take(&pool, "soon").await;
        let forever = take(&pool, "forever").await;
        let waiter = tokio::spawn(pool.lock("forever").ttl(TTL).wait(TTL).acquire());
        tokio::task::yield_now().await;
        let shutdown = tokio::spawn({
            let pool = pool.clone();
            async move { pool.shutdown(Duration::from_secs(6)).await }
        });
        let queued = wait::within("the waiter is notified", LIMIT, waiter).await;
        let queued = queued.expect("no panic");
        assert_eq!(queued.err(), Some(LockError::ShuttingDown), "{url}");
        let refused = pool.lock("new").ttl(TTL).acquire().await;
        assert_eq!(refused.err(), Some(LockError::ShuttingDown), "{url}");
        drop(soon);
        let report = wait::within("the shutdown ends", LIMIT, shutdown).await;
        let report = report.expect("no panic");
        assert_eq!(report.released, 1, "{url}: {report:?}");
        assert_eq!(report.still_held, 1, "{url}: {report:?}");
        assert_eq!(report.unconfirmed, 0, "{url}: {report:?}");
        drop(forever);
        let again = pool.shutdown(Duration::from_millis(100)).await;
        assert_eq!(again.still_held, 0, "{url}: {again:?}");
    }
    assert_eq!(server.probe().get("lock:soon"), None);
}

/// Fails if the time limit of one shutdown replaces the limit of another shutdown of the same pool.
#[expect(
    clippy::async_yields_async,
    reason = "the task is begun here and awaited later"
)]
#[tokio::test]
async fn two_shutdowns_have_separate_time_limits() {
    const SHORT: Duration = Duration::from_millis(300);
    for short_first in [true, false] {
        let pool = connect(&format!("memory://pools-two-{short_first}")).await;
        let held = take(&pool, "held").await;
        let shut_down = |limit| {
            let pool = pool.clone();
            let mut begun = Box::pin(async move { pool.shutdown(limit).await });
            async move {
                poll_once(begun.as_mut()).await;
                tokio::spawn(begun)
            }
        };
        let started = Instant::now();
        let (short, long) = if short_first {
            let short = shut_down(SHORT).await;
            (short, shut_down(TTL).await)
        } else {
            let long = shut_down(TTL).await;
            (shut_down(SHORT).await, long)
        };
        let report = wait::within("the short one ends", LIMIT, short).await;
        let report = report.expect("no panic");
        assert!(started.elapsed() >= SHORT, "{:?}", started.elapsed());
        assert_eq!((report.released, report.still_held), (0, 1), "{report:?}");
        assert!(!long.is_finished(), "it has time left");
        drop(held);
        let report = wait::within("the long one ends", LIMIT, long).await;
        let report = report.expect("no panic");
        assert_eq!((report.released, report.still_held), (1, 0), "{report:?}");
        assert_eq!(report.unconfirmed, 0, "{report:?}");
    }
}

/// Polls `future` once. Fails unless it is still pending.
async fn poll_once<F: Future>(mut future: Pin<&mut F>) {
    poll_fn(|context| {
        assert!(future.as_mut().poll(context).is_pending());
        Poll::Ready(())
    })
    .await;
}

/// Fails if a dropped lock counts as held, or counts as released before the store has confirmed the
/// release.
#[tokio::test]
async fn an_unconfirmed_release_is_reported() {
    let server = Server::start();
    let proxy = Proxy::start(server.address());
    let pool = connect(&proxy.url()).await;
    let (kept, let_go) = (take(&pool, "kept").await, take(&pool, "let-go").await);
    proxy.set(Mode::BlackHole);
    drop(let_go);
    let report = pool.shutdown(Duration::from_millis(400)).await;
    assert_eq!(report.released, 0, "{report:?}");
    assert_eq!(report.still_held, 1, "{report:?}");
    assert_eq!(report.unconfirmed, 1, "{report:?}");
    proxy.pass();
    drop(kept);
    let report = wait::within("both are released", LIMIT, pool.shutdown(TTL)).await;
    assert_eq!(report.released, 2, "{report:?}");
    assert_eq!(report.still_held + report.unconfirmed, 0, "{report:?}");
}

/// The server is stopped while 10,000 guards are dropped. Fails if the pool then sends a request
/// for each release, instead of a few hundred requests with many releases each. Also fails if the
/// shutdown misses a release.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_releases_share_requests() {
    const HELD: usize = 10_000;
    let server = Server::start();
    let probe = server.probe();
    let pool = connect(&server.url()).await;
    let held = take_many(&pool, HELD).await;
    assert_eq!(probe.keys("lock:many*").len(), HELD);
    probe.run::<()>(cmd("CONFIG").arg("RESETSTAT"));
    let stopped = Instant::now();
    server.pause();
    let mut shutdown = pin!(pool.shutdown(LIMIT));
    poll_once(shutdown.as_mut()).await;
    drop(held);
    server.resume();
    let report = shutdown.await;
    // A release without an answer is sent again after a second.
    let rounds = 1 + stopped.elapsed().as_secs();
    assert_eq!(report.released, HELD, "{report:?}");
    assert_eq!(report.still_held + report.unconfirmed, 0, "{report:?}");
    assert_eq!(probe.keys("lock:many*").len(), 0);
    let requests = probe.calls("evalsha");
    assert!(
        requests < (600 * rounds).min(HELD as u64 / 2),
        "{requests} requests in {rounds} rounds"
    );
}

/// Takes this number of locks, in a hundred tasks.
async fn take_many(pool: &LockPool, count: usize) -> Vec<LockGuard> {
    let mut tasks = JoinSet::new();
    for lane in 0..100 {
        let pool = pool.clone();
        tasks.spawn(async move {
            let mut held = Vec::new();
            for number in 0..count / 100 {
                let request = pool.lock(format!("many-{lane}-{number}"));
                let request = request.ttl(Duration::from_secs(60)).wait(TTL);
                held.push(request.acquire().await.expect("free"));
            }
            held
        });
    }
    let mut held = Vec::new();
    while let Some(task) = tasks.join_next().await {
        held.extend(task.expect("no panic"));
    }
    held
}

/// Fails if the engine forgets pending releases when the last handle of its pool is dropped.
#[tokio::test]
async fn a_dropped_pool_still_releases() {
    let server = Server::start();
    let probe = server.probe();
    for number in 0..20 {
        let pool = connect(&server.url()).await;
        let key = format!("dropped-pool-{number}");
        let guard = take(&pool, &key).await;
        drop(pool);
        drop(guard);
        let wire = format!("lock:{key}");
        // This limit is shorter than the ttl, so only the pool can have removed the lock.
        wait::until_async(&wire, TTL / 2, || probe.get(&wire).is_none()).await;
    }
}
