//! Tests that the pool recovers automatically from any fault of the server, and keeps its locks.

use std::slice;
use std::time::{Duration, Instant};

use leasehold::{LockError, LockPool};
use leasehold_tests::holder::Holder;
use leasehold_tests::lateness::Excuse;
use leasehold_tests::postgres::{Database, Postgres};
use leasehold_tests::probe::Probe;
use leasehold_tests::renewal::{self, Renewal};
use leasehold_tests::wait;

use super::{LONG, connect, fresh, works};
use crate::deployments::all_are_renewed;

const TTL: Duration = Holder::TTL;
/// The ttl of a lease that outlasts a short stop.
const SHORT: Duration = Duration::from_secs(4);
/// The ttl of a lease that a watchdog renews in time, even on a busy machine.
const KEPT: Duration = Duration::from_secs(8);
/// Time between the renewals of a lease that outlasts restarts of its server.
const RENEWED: Duration = Duration::from_millis(700);

/// Ends every connection of a pool to the database. Returns the number of ended connections.
async fn end_connections(database: &Database) -> i64 {
    let client = database.client().await;
    let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'leasehold:%'";
    client
        .query_one(end, &[])
        .await
        .expect("an owner may")
        .get(0)
}

/// Fails if the pool keeps an ended connection, or if a call with time for another attempt fails.
#[tokio::test]
async fn ended_connections_are_replaced() {
    let (database, pool) = fresh().await;
    let kept = pool.lock("held").ttl(KEPT).watchdog().acquire().await;
    let kept = kept.expect("it is free");
    let (probe, mut number) = (database.probe("lock:"), 0);
    let end = "SELECT expires_at FROM leasehold.locks WHERE key = 'lock:held'";
    let first = probe.value(end);
    // The loop runs at least 20 times, and until the lease is renewed or lost.
    while number < 20 || kept.check().is_ok() && probe.value(end) == first {
        // The pool may be connecting at this moment and have no connection, so this statement is
        // repeated.
        let ends = async {
            while end_connections(&database).await == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        wait::within("the pool is connected", LONG, ends).await;
        works(&pool, &format!("ended-{number}")).await;
        number += 1;
    }
    kept.check().expect("it was renewed");
    kept.release().await.expect("still held");
}

/// In each crash of the server, a renewal becomes due. Fails if the pool cannot be used after the
/// crash, or if the lease is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_pool_reconnects_to_a_restarted_server() {
    let mut server = Postgres::start();
    let database = server.migrated();
    let pool = connect(&database).await;
    let request = pool.lock("kept").ttl(LONG).wait(LONG);
    let kept = request.watchdog_every(RENEWED).acquire().await;
    let kept = kept.expect("it is free");
    for number in 0..3 {
        server.kill();
        tokio::time::sleep(RENEWED).await;
        server.restart();
        works(&pool, &format!("restarted-{number}")).await;
        all_are_renewed(slice::from_ref(&kept)).await;
        let probe = database.probe("lock:");
        assert!(probe.exists("kept"), "the table survives a crash");
        assert!(!probe.take("kept", TTL), "it is held");
    }
    kept.release().await.expect("its lease was kept");
    server.kill();
    let (started, excuse) = (Instant::now(), Excuse::begin());
    let down = pool.lock("down").ttl(TTL).acquire().await;
    let error = down.map(drop).expect_err("it is down");
    assert!(error.is_unavailable(), "{error}");
    assert!(started.elapsed() < Duration::from_secs(2) + excuse.so_far());
    server.restart();
    works(&pool, "up-again").await;
}

/// Fails if a stopped server blocks callers for longer than their `wait`. Also fails if the lock of
/// a call that gave up stays on the server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_server_delays_calls_at_most_by_their_budget() {
    let server = Postgres::start();
    let database = server.migrated();
    let pool = connect(&database).await;
    works(&pool, "before").await;
    let probe = database.probe("lock:");
    assert!(!probe.exists("stopped"));
    for round in 0..3 {
        server.pause();
        let (started, excuse) = (Instant::now(), Excuse::begin());
        let request = pool.lock("stopped").ttl(LONG);
        let request = request.wait(Duration::from_millis(600)).acquire();
        let error = request.await.map(drop).expect_err("no answer comes");
        let took = started.elapsed();
        server.resume();
        assert!(error.is_unavailable(), "{error}");
        let most = Duration::from_millis(850) + excuse.so_far();
        assert!(took < most, "{took:?}");
        works(&pool, &format!("after-{round}")).await;
        // This limit is shorter than the ttl, so only the pool can have removed the lock.
        let gone = || !probe.exists("stopped");
        wait::until_async("nothing is left", Duration::from_secs(40), gone).await;
    }
}

/// Fails if a lease is lost because its renewal gets no answer in a short stop. Also fails if a
/// lease still counts as held after a long stop.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_survive_only_short_stops() {
    let server = Postgres::start();
    // The pool has a long timeout, because each holder requests its lock only once, and a late
    // answer must not fail this request.
    let pool = LockPool::builder().url(server.migrated().url());
    let pool = wait::connected(pool.io_timeout(Duration::from_secs(3))).await;
    renewal::twice(async |round| {
        let mut renewal = Renewal::near(&pool, &format!("short-{round}"), SHORT).await;
        server.pause();
        renewal.outlasts(SHORT / 4).await;
        server.resume();
        renewal.succeeds().await
    })
    .await;
    let holder = Holder::enter(&pool, "long").await;
    server.pause();
    let ended = wait::within("the loss is reported", LONG, holder.task).await;
    server.resume();
    let ended = ended.expect("no panic");
    assert!(matches!(ended, Err(LockError::Lost { .. })), "{ended:?}");
    works(&pool, "long").await;
}

/// Fails if the table keeps a row for every key ever locked, or if the row of a held lock is
/// removed.
#[tokio::test]
async fn idle_rows_are_removed() {
    let database = Postgres::shared().migrated();
    // The timeout is long, so that no answer to a removal of idle rows (a sweep) counts as late.
    // After a late answer, the pool would repeat the sweep only much later.
    let pool = LockPool::builder().url(database.url()).io_timeout(LONG);
    let pool = wait::connected(pool.on_current_runtime()).await;
    let held = pool.lock("held").ttl(LONG * 3).acquire().await;
    let held = held.expect("it is free");
    let client = database.client().await;
    let insert = "INSERT INTO leasehold.locks (key, fence) SELECT 'idle:' || n, n FROM generate_series(1, 2500) n";
    client.batch_execute(insert).await.expect("an owner may");
    // The clock is advanced until the removal of idle rows is due. One removal takes only a part of
    // the rows, and the next removal follows soon.
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(31)).await;
    tokio::time::resume();
    let swept = async {
        let count = "SELECT count(*) FROM leasehold.locks WHERE key LIKE 'idle:%'";
        while client
            .query_one(count, &[])
            .await
            .expect("a count")
            .get::<_, i64>(0)
            > 0
        {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    wait::within("all are removed", LONG, swept).await;
    assert!(!database.probe("lock:").take("held", TTL), "it is held");
    held.release().await.expect("still held");
}
