//! Requests gather while the server is slow.

use std::time::Duration;

use leasehold::LockPool;
use leasehold_tests::postgres::Postgres;
use leasehold_tests::rerun::fails_with;
use leasehold_tests::wait;
use tokio::task::JoinSet;

use super::{LONG, pools_ended, works};

const CALLERS: u32 = 60;
/// Longer than the engine itself waits for answers before it sends more.
const APART: Duration = Duration::from_millis(25);

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
        tokio::time::sleep(APART).await;
    }
    server.resume();
    callers.join_all().await;
    drop(pool);
    let client = database.client().await;
    pools_ended(&client).await;
    let count = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()";
    let calls: i64 = client.query_one(count, &[]).await.expect("a count").get(0);
    println!("{calls} calls for {CALLERS} callers");
    assert!(calls < i64::from(CALLERS), "{calls} for {CALLERS}");
}

#[test]
fn calls_that_pile_up_are_found() {
    let test = "deployments::postgres::gathering::requests_share_calls_while_the_server_is_slow";
    fails_with("CallsPileUp", test);
}
