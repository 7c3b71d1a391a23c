//! Tests that the pool collects requests while the server is slow.

use std::time::Duration;

use leasehold::LockPool;
use leasehold_tests::postgres::Postgres;
use leasehold_tests::proxy::Proxy;
use leasehold_tests::rerun::fails_with;
use leasehold_tests::wait;
use tokio::task::JoinSet;

use super::{LONG, take, works};

const CALLERS: u32 = 60;
/// Pause between two requests, longer than the 20 ms for which the engine collects requests.
const APART: Duration = Duration::from_millis(25);

/// Fails if the pool sends each request to a slow server in a separate transaction. The additional
/// work would slow the server down further.
#[tokio::test]
async fn requests_share_calls_while_the_server_is_slow() {
    let server = Postgres::start();
    let database = server.migrated();
    let pool = LockPool::builder().url(database.url()).io_timeout(LONG);
    let pool = wait::connected(pool).await;
    server.pause();
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let pool = pool.clone();
        callers.spawn(async move { works(&pool, &caller.to_string()).await });
        tokio::time::sleep(APART).await;
    }
    server.resume();
    callers.join_all().await;
    drop(pool);
    // `ask` uses another database, so its queries are not counted. The server may count the last
    // transactions of a session only when the session ends, so the test waits for that.
    let left = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'leasehold:%'";
    let ended = || server.ask(left) == "0";
    wait::until_async("all connections end", LONG, ended).await;
    let count = "SELECT sum(xact_commit) FROM pg_stat_database WHERE datname LIKE 'test\\_%'";
    let calls: i64 = server.ask(count).parse().expect("a count");
    println!("{calls} calls for {CALLERS} callers");
    assert!(calls < i64::from(CALLERS), "{calls} for {CALLERS}");
}

#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn piled_up_calls_are_detected() {
    let test = "deployments::postgres::gathering::requests_share_calls_while_the_server_is_slow";
    fails_with("CallsPileUp", test);
}

/// A connection becomes silent while two acquires wait for their answers on it. Fails if a renewal
/// waits until these acquires time out, because its lease would end before that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_does_not_wait_for_patient_calls() {
    const KEPT: Duration = Duration::from_secs(9);
    let database = Postgres::shared().migrated();
    let proxy = Proxy::start_postgres(database.address());
    let pool = LockPool::builder().url(database.url_over(proxy.address()));
    // The time limit for the answer to an acquire is a quarter of this timeout. So the acquires
    // still wait for their answers when the lease of `kept` would end without a renewal.
    let pool = wait::connected(pool.io_timeout(LONG * 8)).await;
    let kept = pool.lock("kept").ttl(KEPT).watchdog().acquire().await;
    let kept = kept.expect("it is free");
    proxy.half_open();
    let mut calls = JoinSet::new();
    for call in ["first", "second"] {
        let pool = pool.clone();
        calls.spawn(async move { take(&pool, call).await });
        // The pause keeps the requests separate, because the engine combines requests made within
        // 20 ms.
        tokio::time::sleep(APART).await;
    }
    tokio::time::sleep(KEPT + Duration::from_secs(2)).await;
    kept.check().expect("it was renewed on another connection");
    let taken = wait::within("all are asked for again", LONG, calls.join_all()).await;
    drop(taken);
    kept.release().await.expect("still held");
}

#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn a_renewal_delayed_by_patient_calls_is_detected() {
    let test = "deployments::postgres::gathering::a_renewal_does_not_wait_for_patient_calls";
    fails_with("GatheredPatiently", test);
}
