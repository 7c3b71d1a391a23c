//! Tests of `LockPool::ready`, which takes and releases a lock to show that the store grants locks.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ::redis::cmd;
use leasehold::{LockError, LockPool};
use leasehold_tests::lateness::Excuse;
use leasehold_tests::postgres::Postgres;
use leasehold_tests::rerun::fails_with;
use leasehold_tests::server::{Server, ServerOptions};
use leasehold_tests::stores::{NO_OUTAGE, Store};
use leasehold_tests::{on_stores, wait};

use super::{LONG, TTL};

async fn connect(url: &str) -> LockPool {
    wait::connected(LockPool::builder().url(url).io_timeout(NO_OUTAGE)).await
}

async fn of(store: &Store) -> LockPool {
    let builder = LockPool::builder().url(&store.url);
    let builder = builder.namespace(&store.namespace).io_timeout(NO_OUTAGE);
    wait::connected(builder).await
}

/// Fails if `ready` reports a working store as not ready, or conflicts with a lock of the program.
/// Also fails if a pool that has shut down is ready.
async fn a_working_store_is_ready(store: &Store) {
    let pool = of(store).await;
    let held = pool.lock("ready").ttl(TTL).acquire().await.expect("free");
    for _ in 0..20 {
        pool.ready().await.expect("a lock can be taken");
    }
    let both = tokio::join!(pool.ready(), pool.ready());
    assert_eq!(both, (Ok(()), Ok(())));
    held.release().await.expect("held");
    let error = pool.lock("%leasehold:ready:x").ttl(TTL).acquire().await;
    assert!(matches!(
        error,
        Err(LockError::Config { .. } | LockError::InvalidKey { .. })
    ));
    pool.shutdown(LONG).await;
    assert_eq!(pool.ready().await, Err(LockError::ShuttingDown));
}

on_stores!(memory redis sentinel cluster redlock postgres etcd zookeeper: (
    a_working_store_is_ready,
));

/// Asserts that `ready` fails with an error that contains the server's reason.
async fn is_refused(pool: &LockPool, expected: &str) {
    let error = pool.ready().await.expect_err("no lock can be taken");
    assert!(error.is_unavailable(), "{error}");
    assert!(error.to_string().contains(expected), "{error}");
}

async fn impatient(url: &str) -> LockPool {
    let builder = LockPool::builder().url(url);
    wait::connected(builder.io_timeout(Duration::from_secs(2))).await
}

/// Fails if `ready` accepts a master that has become a replica.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_is_not_ready() {
    let (other, server) = (Server::start(), Server::start());
    let pool = impatient(&server.url()).await;
    pool.ready().await.expect("it is a master");
    let mut follow = cmd("REPLICAOF");
    let follow = follow.arg("127.0.0.1").arg(other.port());
    server.probe().run::<()>(follow);
    is_refused(&pool, "replica").await;
}

/// Fails if `ready` accepts a server with full memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_server_is_not_ready() {
    let server = ServerOptions::new().max_memory(100_000_000).start();
    let pool = impatient(&server.url()).await;
    let set = |memory: &str| {
        let mut set = cmd("CONFIG");
        server
            .probe()
            .run::<()>(set.arg(&["SET", "maxmemory", memory]));
    };
    set("1");
    is_refused(&pool, "maxmemory").await;
    set("100000000");
    pool.ready().await.expect("there is room");
}

/// Fails if `ready` succeeds for a user who may not write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_permission_is_not_ready() {
    let server = Server::start();
    let set = |rules: &[&str]| {
        let mut user = cmd("ACL");
        server
            .probe()
            .run::<()>(user.arg("SETUSER").arg("u").arg(rules));
    };
    set(&["on", ">u", "~lock:*", "&*", "+@all"]);
    let pool = impatient(&format!("redis://u:u@127.0.0.1:{}/", server.port())).await;
    pool.ready().await.expect("it may");
    set(&["resetkeys", "%R~lock:*"]);
    is_refused(&pool, "NOPERM").await;
}

/// Fails if `ready` accepts a database without leasehold's tables.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_schema_is_not_ready() {
    let server = Postgres::start();
    let database = server.migrated();
    let pool = impatient(&database.url()).await;
    pool.ready().await.expect("it may");
    database.try_run("DROP SCHEMA leasehold CASCADE");
    let error = pool.ready().await.expect_err("the tables are gone");
    assert!(error.is_unavailable(), "{error}");
}

/// Fails if a dropped call of `ready` leaves its lock on the server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_probe_leaves_nothing() {
    let server = Server::start();
    let pool = connect(&server.url()).await;
    let excuse = Excuse::begin();
    for _ in 0..50 {
        let mut probe = pin!(pool.ready());
        let cx = &mut Context::from_waker(Waker::noop());
        // Three polls are enough to send the request. The call is then dropped, usually before its
        // answer. An answer that comes sooner ends the polls.
        let polled = (0..3).map(|_| probe.as_mut().poll(cx));
        let _ = polled.take_while(Poll::is_pending).count();
    }
    let left = || server.probe().keys("*ready*").len();
    // This limit is half of the ttl of the locks, so only the pool can have removed them. A delayed
    // machine gets more time.
    if !wait::try_until_async(Duration::from_secs(1), || left() == 0).await {
        wait::until_async("nothing is left", excuse.so_far(), || left() == 0).await;
    }
    pool.ready().await.expect("it still works");
}

/// Fails if the tests above do not detect that `ready` returns without taking a lock.
#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn a_probe_without_a_lock_is_found() {
    for test in [
        "outages::readiness::a_replica_is_not_ready",
        "outages::readiness::a_full_server_is_not_ready",
    ] {
        fails_with("ReadyUnasked", test);
    }
}
