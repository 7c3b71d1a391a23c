//! The two sessions of a pool.

use std::time::Duration;

use leasehold::LockPool;
use leasehold_tests::postgres::{Database, Postgres};
use leasehold_tests::rerun::fails_with;
use leasehold_tests::wait;
use tokio::task::JoinSet;
use tokio_postgres::{Client, Transaction};

use super::{LONG, TTL, fresh, pools_ended, works};

const ROUNDS: u32 = 30;
const CALLERS: u32 = 300;

/// The statement of a pool that waits for a row: its session, and when it began.
async fn waiting(client: &Client) -> Option<String> {
    let waiting =
        "SELECT pid || ' ' || query_start FROM pg_stat_activity WHERE datname = current_database()
        AND application_name LIKE 'leasehold:%' AND wait_event_type = 'Lock'";
    let row = client.query_opt(waiting, &[]).await.expect("at most one");
    row.map(|row| row.get(0))
}

async fn until_one_waits(client: &Client) -> String {
    let waits = async {
        loop {
            if let Some(waiting) = waiting(client).await {
                return waiting;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    wait::within("a request waits for the row", LONG, waits).await
}

/// Keeps the requests for a key waiting until it ends.
async fn block<'a>(client: &'a mut Client, key: &str) -> Transaction<'a> {
    let transaction = client.transaction().await.expect("it begins");
    let block = format!("SELECT FROM leasehold.locks WHERE key = 'lock:{key}' FOR UPDATE");
    transaction
        .query_one(&block, &[])
        .await
        .expect("it is there");
    transaction
}

/// As the docs say.
#[tokio::test]
async fn a_pool_has_two_connections() {
    let (database, pool) = fresh().await;
    works(&pool, "any").await;
    let count = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'leasehold:%'";
    let client = database.client().await;
    let sessions: i64 = client.query_one(count, &[]).await.expect("a count").get(0);
    assert_eq!(sessions, 2);
}

/// Fails if a request that waits in one session keeps those for other keys waiting.
#[tokio::test]
async fn a_request_that_waits_keeps_no_other_key_waiting() {
    let (database, pool) = fresh().await;
    works(&pool, "waits").await;
    let (mut blocker, client) = (database.client().await, database.client().await);
    let transaction = block(&mut blocker, "waits").await;
    let asking = tokio::spawn(ask_for(pool.clone(), "waits"));
    // Half of the keys are in the other session. A wait for a row ends after a while, and is begun
    // again, so a late processor may miss one.
    let served = async {
        for number in 0.. {
            let before = until_one_waits(&client).await;
            works(&pool, &format!("other-{number}")).await;
            if waiting(&client).await == Some(before) {
                return;
            }
        }
    };
    wait::within("another key is served meanwhile", LONG, served).await;
    transaction.commit().await.expect("it ends");
    asking.await.expect("no panic");
}

async fn ask_for(pool: LockPool, key: &'static str) {
    works(&pool, key).await;
}

/// Fails if the next request for a key overtakes the removal of an acquire that was dropped.
#[tokio::test]
async fn a_key_whose_acquire_was_dropped_is_free_for_the_next() {
    let (database, pool) = fresh().await;
    for _ in 0..ROUNDS {
        next_after_dropped(&database, &pool).await;
    }
}

async fn next_after_dropped(database: &Database, pool: &LockPool) {
    works(pool, "k").await;
    let (mut blocker, client) = (database.client().await, database.client().await);
    let transaction = block(&mut blocker, "k").await;
    let dropped = tokio::spawn(ask_for(pool.clone(), "k"));
    until_one_waits(&client).await;
    dropped.abort();
    let _ = dropped.await;
    let next = pool.lock("k").ttl(TTL);
    let next = tokio::spawn(async move { next.acquire().await });
    // Time for a pool that breaks the order to send it. Whether it has left makes no difference to
    // one that keeps the order.
    tokio::time::sleep(Duration::from_millis(20)).await;
    transaction.commit().await.expect("it ends");
    let next = next.await.expect("no panic");
    let next = next.expect("the dropped acquire has been removed");
    next.release().await.expect("held");
}

#[test]
fn requests_that_change_sessions_are_found() {
    let test =
        "deployments::postgres::sessions::a_key_whose_acquire_was_dropped_is_free_for_the_next";
    fails_with("SessionsMixed", test);
}

/// Fails if the end of one session costs a lease, or keeps the pool from working.
#[tokio::test]
async fn the_other_session_serves_while_one_is_gone() {
    let (database, pool) = fresh().await;
    let held = pool.lock("held").ttl(Duration::from_secs(5)).watchdog();
    let held = held.acquire().await.expect("it is free");
    let client = database.client().await;
    let sessions = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'leasehold:%' ORDER BY backend_start";
    for round in 0..ROUNDS {
        let pids = client.query(sessions, &[]).await.expect("a list");
        if let Some(row) = pids.get(round as usize % 2) {
            let pid: i32 = row.get(0);
            let end = "SELECT pg_terminate_backend($1)";
            client.query(end, &[&pid]).await.expect("an owner may");
        }
        works(&pool, "any").await;
    }
    held.release().await.expect("no lease was lost");
}

/// Fails if each request is a call of its own where a server is slow: that keeps it slow.
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
        // Callers come one after the other, for longer than the engine waits for answers.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    server.resume();
    callers.join_all().await;
    drop(pool);
    let client = database.client().await;
    pools_ended(&client).await;
    let count = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()";
    let calls: i64 = client.query_one(count, &[]).await.expect("a count").get(0);
    let requests = i64::from(2 * CALLERS);
    println!("{calls} calls for {requests} requests");
    assert!(
        4 * calls < requests,
        "{calls} calls for {requests} requests"
    );
}

#[test]
fn calls_that_pile_up_are_found() {
    let test = "deployments::postgres::sessions::requests_share_calls_while_the_server_is_slow";
    fails_with("CallsPileUp", test);
}
