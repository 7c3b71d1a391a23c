//! Tests of pools behind pgbouncer, which may run each transaction on another session.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use leasehold::LockPool;
use leasehold_tests::lateness::Excuse;
use leasehold_tests::postgres::{Database, PgBouncer, Postgres, PostgresProbe};
use leasehold_tests::wait;
use tokio::task::JoinSet;

use super::{BEACONS, LONG, TTL, fresh, is_kept_from, lit, queued, take, without_haste, works};

async fn pooled(pooler: &PgBouncer, database: &Database, more: &str) -> LockPool {
    let url = format!("{}?pooler=1{more}", pooler.url(database));
    wait::connected(LockPool::builder().url(url).io_timeout(LONG)).await
}

/// Returns the option `&listen=` with the URL of the server itself, instead of the pooler's.
fn listening(database: &Database) -> String {
    let url = database.url().replace(':', "%3A").replace('/', "%2F");
    format!("&listen={url}")
}

/// Fails if a pool connects through a pooler although its URL does not declare one. An error at the
/// first lock, or at two simultaneous locks, would be too late.
#[tokio::test]
async fn an_undeclared_pooler_is_refused() {
    let (database, _pool) = fresh().await;
    for more in [&[][..], &["ignore_startup_parameters = options"]] {
        let pooler = PgBouncer::start(Postgres::shared(), more);
        let pool = LockPool::builder().url(pooler.url(&database));
        let error = pool.io_timeout(LONG).connect().await;
        let error = error.map(drop).expect_err("its sessions change");
        assert!(error.to_string().contains("`pooler=1`"), "{error}");
    }
}

/// The server behind the pooler is down for a while. Fails if a call with a `wait` does not wait
/// for the server. Also fails if the error of another call suggests an option that the URL already
/// has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_wait_for_an_unavailable_server() {
    let mut server = Postgres::start();
    let database = server.migrated();
    let settings = ["server_login_retry = 1", "query_wait_timeout = 2"];
    let pooler = PgBouncer::start(&server, &settings);
    let url = format!("{}?pooler=1", pooler.url(&database));
    let pool = wait::connected(LockPool::builder().url(url)).await;
    works(&pool, "before").await;
    server.kill();
    let waiting = tokio::spawn(pool.lock("waiting").ttl(TTL).wait(LONG).acquire());
    for _ in 0..3 {
        let error = pool.lock("away").ttl(TTL).acquire().await.map(drop);
        let error = error.expect_err("it is away");
        assert!(error.is_unavailable(), "{error}");
        assert!(!error.to_string().contains("pooler=1"), "{error}");
    }
    server.restart();
    let guard = waiting.await.expect("no panic").expect("it serves again");
    guard.release().await.expect("still held");
}

/// Fails if calls overlap, or if a call fails, while ten pools share two sessions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_of_lock_works_behind_a_pooler() {
    const POOLS: u32 = 10;
    const TIMES: u32 = 12;
    /// The ttl of a lease that a watchdog renews in time, even on a busy machine.
    const KEPT: Duration = Duration::from_secs(8);
    let (database, direct) = fresh().await;
    let pooler = PgBouncer::start(Postgres::shared(), &[]);
    let inside = Arc::new(AtomicU32::new(0));
    let mut tasks = JoinSet::new();
    for number in 0..POOLS {
        let pool = pooled(&pooler, &database, "").await;
        let inside = Arc::clone(&inside);
        tasks.spawn(async move {
            for _ in 0..TIMES {
                let request = pool.lock("shared").ttl(TTL).wait(LONG * 2);
                let counted = async {
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two are inside");
                    tokio::time::sleep(Duration::from_millis(2)).await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                };
                request.run(counted).await.expect("its turn comes");
                works(&pool, &format!("own-{number}")).await;
            }
            let read = pool.lock("read").ttl(TTL).wait(LONG).shared();
            drop(read.acquire().await.expect("readers stand side by side"));
            let all = pool.lock_all(["a", "b", "c"]).ttl(TTL).wait(LONG);
            drop(all.acquire().await.expect("its turn comes"));
        });
    }
    while let Some(task) = tasks.join_next().await {
        task.expect("every call is served");
    }
    let pool = pooled(&pooler, &database, "").await;
    let kept = pool.lock("kept").ttl(KEPT).watchdog().acquire().await;
    let kept = kept.expect("it is free");
    tokio::time::sleep(KEPT + Duration::from_secs(1)).await;
    kept.check().expect("its lease was renewed");
    is_kept_from(&direct, "kept").await;
    kept.release().await.expect("still held");
    let leaked = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'";
    // The release of a late call may not be finished yet, so the test waits.
    let probe = database.probe("lock:");
    let none = || probe.value(leaked) == "0";
    wait::until_async("no transaction is left open", LONG, none).await;
}

/// Fails if pools that receive no notifications get their locks out of order, or not at all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_without_messages_are_served_in_order() {
    let (database, direct) = fresh().await;
    without_haste(&database).await;
    let pooler = PgBouncer::start(Postgres::shared(), &[]);
    let (held, probe) = (take(&direct, "order").await, database.probe("lock:"));
    let mut pools = Vec::new();
    for number in 0..3 {
        // With each of these URLs, the pool receives no notifications, for three different reasons.
        pools.push(match number {
            0 => pooled(&pooler, &database, "").await,
            1 => pooled(&pooler, &database, "&listen=off").await,
            _ => {
                let url = format!("{}?listen=off", database.url());
                wait::connected(LockPool::builder().url(url).io_timeout(LONG)).await
            }
        });
    }
    let mut calls = JoinSet::new();
    let (served, mut order) = tokio::sync::mpsc::unbounded_channel();
    for (number, pool) in (0..).zip(&pools) {
        let acquire = pool.lock("order").ttl(TTL).wait(LONG).acquire();
        let acquire = wait::started(acquire).await;
        queued(&probe, "order", number + 1).await;
        let served = served.clone();
        calls.spawn(async move {
            let guard = acquire.await.expect("its turn comes");
            served.send(number).expect("the test reads");
            guard.release().await.expect("still held");
        });
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    held.release().await.expect("still held");
    while let Some(call) = wait::within("all are served", LONG, calls.join_next()).await {
        call.expect("no panic");
    }
    drop(served);
    let mut names = Vec::new();
    while let Some(name) = order.recv().await {
        names.push(name);
    }
    assert_eq!(names, [0, 1, 2]);
    let report = pools[0].check().await.expect("the server answers");
    assert!(
        report.is_ready() && report.find("turns").is_some(),
        "{report}"
    );
}

/// Ends the three listening sessions, and waits for three new sessions.
async fn replace_listeners(probe: &PostgresProbe, direct: &LockPool) {
    let old = format!("SELECT string_agg(l.pid::text, ', ') FROM {BEACONS}");
    let old = probe.value(&old);
    let end = format!("SELECT count(pg_terminate_backend(l.pid)) FROM {BEACONS}");
    assert_eq!(probe.value(&end), "3");
    let new = format!("SELECT count(*) FROM {BEACONS} AND l.pid NOT IN ({old})");
    let replaced = async {
        while probe.value(&new) != "3" {
            // A request makes sure that the direct pool connects again.
            works(direct, "asked").await;
        }
    };
    wait::within("all listen again", LONG, replaced).await;
}

/// Fails if a pool with a separate connection for messages is not notified. Also fails if the pool
/// is no longer notified after that connection was replaced.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_connection_receives_turns() {
    let (database, direct) = fresh().await;
    let pooler = PgBouncer::start(Postgres::shared(), &[]);
    let more = listening(&database);
    let one = pooled(&pooler, &database, &more).await;
    let two = pooled(&pooler, &database, &more).await;
    let report = one.check().await.expect("the server answers");
    assert_eq!(report.find("turns"), None, "{report}");
    let probe = database.probe("lock:");
    // The two pools behind the pooler and the pool of `fresh`, which connects directly, have one
    // beacon each.
    let all = || lit(&probe) == 3;
    wait::until_async("both listen", LONG, all).await;
    for replaced in [false, true] {
        if replaced {
            replace_listeners(&probe, &direct).await;
        }
        let excuse = Excuse::begin();
        let mut times = Vec::new();
        for _ in 0..10 {
            let held = take(&one, "told").await;
            let next = two.lock("told").ttl(TTL).wait(LONG).acquire();
            let next = wait::started(next).await;
            // This sleep gives the waiting call time to enter the queue. After that, only a message
            // makes the call repeat its request soon.
            tokio::time::sleep(Duration::from_millis(300)).await;
            let released = Instant::now();
            held.release().await.expect("still held");
            let next = next.await.expect("its turn comes");
            times.push(released.elapsed());
            next.release().await.expect("still held");
        }
        let most = Duration::from_millis(100) + excuse.so_far();
        // Without messages, a call repeats its request every 250 to 750 ms, so only few of these
        // times would be this short.
        let fast = times.iter().filter(|time| **time < most).count();
        assert!(8 <= fast, "{replaced}: {times:?}");
    }
}
