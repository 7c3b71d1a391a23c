//! Tests of deployments other than one plain server: Sentinels, replicas, clusters, quorums, TLS,
//! users and databases.

mod cluster;
mod etcd;
#[cfg(feature = "tls")]
mod given_tls;
mod postgres;
mod redlock;
mod replicas;
mod sentinel;
mod session_servers;
mod tls_and_acl;
mod zookeeper;

use std::future::pending;
use std::time::{Duration, Instant};

use futures_util::future::{join_all, try_join_all};
#[cfg(feature = "tls")]
use leasehold::LockError;
use leasehold::{LockGuard, LockPool};
use leasehold_tests::lateness::Excuse;
use leasehold_tests::proxy::{Mode, Proxy};
use leasehold_tests::random::Random;
use leasehold_tests::wait;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// The ttl of dropped calls, which is longer than any test.
const HELD: Duration = Duration::from_secs(600);

/// Time limit for a call to get its lock, and for the removal of the locks of dropped calls.
const LONG: Duration = Duration::from_secs(20);

/// Longest time from the start of a call until its drop.
const LATEST_DROP: Duration = Duration::from_millis(30);

/// Number of locks whose waiting calls are dropped.
const QUEUES: u32 = 20;

/// Time limit for a process to leave a queue. If it does not leave, it keeps its place for at least
/// two seconds.
const SOON: Duration = Duration::from_secs(1);

/// Waits until each of these locks is renewed again. Fails if one of the locks is lost.
pub(crate) async fn all_are_renewed(guards: &[LockGuard]) {
    let renewed = guards.iter().map(|guard| {
        let handle = guard.handle();
        let first = leasehold::__test::deadline(&handle);
        async move {
            while leasehold::__test::deadline(&handle) == first {
                handle.check().unwrap_or_else(|error| panic!("{error}"));
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    });
    wait::within("the renewals", Duration::from_secs(30), join_all(renewed)).await;
}

/// Drops calls of both pools before and after they get their locks. Then drops waiting calls of the
/// second pool. Fails if a lock or a place in a queue is left. The pools reach their servers
/// through `networks`, and `keys` returns all keys of the servers.
async fn drop_calls(pools: &[LockPool; 2], networks: &[Proxy], keys: impl Fn() -> Vec<String>) {
    let mut random = Random::seeded("dropped calls");
    for network in networks {
        network.set(Mode::Delay {
            least: Duration::from_millis(1),
            jitter: Duration::from_millis(3),
        });
    }
    let mut callers = JoinSet::new();
    for pool in pools.iter().cycle().take(8) {
        callers.spawn(drop_contending(pool.clone(), random.fork()));
    }
    callers.join_all().await;
    // Leasehold's own keys, such as queues and fence counters, have a `%`.
    let gone = || keys().iter().all(|key| key.contains('%'));
    wait::until_async("all locks are removed", LONG, gone).await;
    drop_waiting(pools, random).await;
}

async fn drop_contending(pool: LockPool, mut random: Random) {
    for number in 0..40 {
        let key = format!("dropped-{}", number % 4);
        let request = pool.lock(key).ttl(HELD).wait(LONG);
        let is_shared = random.below(3) == 0;
        let request = if is_shared { request.shared() } else { request };
        let call = request.run(pending::<()>());
        if let Ok(Err(error)) = timeout(random.duration(LATEST_DROP), call).await {
            assert!(error.is_unavailable(), "{error}");
        }
    }
}

async fn drop_waiting(pools: &[LockPool; 2], mut random: Random) {
    let [holder, waiting] = pools;
    let request = |pool: &LockPool, key: String| pool.lock(key).ttl(HELD).wait(LONG);
    let held = (0..QUEUES).map(|number| request(holder, format!("queued-{number}")).acquire());
    let held = try_join_all(held).await.expect("free");
    for number in 0..QUEUES {
        let call = request(waiting, format!("queued-{number}")).acquire();
        let call = wait::started(call).await;
        sleep(random.duration(LATEST_DROP / 3)).await;
        drop(call);
    }
    // A server carries out the requests of a connection in their order. So after these calls, it
    // has carried out those of the dropped calls. The keys are on all nodes of a cluster.
    for number in 0..QUEUES {
        let settles = request(waiting, format!("settled-{number}")).run(async {});
        settles.await.expect("free");
    }
    let (since, excuse) = (Instant::now(), Excuse::begin());
    loop {
        let queued = queued(holder).await;
        if queued.is_empty() {
            break;
        }
        let in_time = since.elapsed() < SOON + excuse.so_far();
        assert!(in_time, "{queued:?} have waiting processes");
        sleep(Duration::from_millis(5)).await;
    }
    drop(held);
}

/// Returns the keys of `drop_waiting` for which a process waits.
async fn queued(pool: &LockPool) -> Vec<String> {
    let (mut locks, mut queued) = (pool.locks("queued-*"), Vec::new());
    while let Some(lock) = locks.next().await {
        let lock = lock.expect("it answers");
        if !lock.waiting.is_empty() {
            queued.push(lock.key);
        }
    }
    queued
}

/// Returns the code and the text of the error. Fails if connecting succeeds.
#[cfg(feature = "tls")]
async fn refused(
    connecting: impl Future<Output = Result<LockPool, LockError>>,
) -> (String, String) {
    match connecting.await {
        Ok(pool) => panic!("connected: {pool:?}"),
        Err(LockError::Unavailable { source }) => (source.code().to_owned(), source.to_string()),
        Err(error) => ("Config".to_owned(), error.to_string()),
    }
}
