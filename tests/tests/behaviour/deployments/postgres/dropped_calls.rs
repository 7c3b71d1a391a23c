//! Tests of transactions that outlive the call whose lock they have verified. Such a transaction
//! either commits before the next call of the same process reads the data, or does not commit.

use std::time::Duration;

use leasehold::{Fence, LockGuard, LockPool};
use leasehold_tests::postgres::{Database, Postgres};
use leasehold_tests::proxy::{Mode, Proxy};
use leasehold_tests::wait;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, Error, IsolationLevel, NoTls};

use super::{LONG, connect, take};

/// Sleep during which the next call would end if the open transaction did not block it.
const LOOK: Duration = Duration::from_secs(1);

const LEVELS: [IsolationLevel; 3] = [
    IsolationLevel::ReadCommitted,
    IsolationLevel::RepeatableRead,
    IsolationLevel::Serializable,
];

/// Creates a database for consecutive numbers. Each number is in a separate row, so that two
/// transactions never write the same row.
async fn numbers(server: &Postgres) -> (Database, LockPool, Client) {
    let database = server.migrated();
    let client = database.client().await;
    let made = "CREATE TABLE numbers (number bigint)";
    client.batch_execute(made).await.expect("a new table");
    let pool = connect(&database).await;
    (database, pool, client)
}

/// Begins a transaction with `verify`, and reads the last number.
async fn begin(client: &Client, level: IsolationLevel, lock: &LockGuard) -> Result<i64, Error> {
    let level = match level {
        IsolationLevel::RepeatableRead => "REPEATABLE READ",
        IsolationLevel::Serializable => "SERIALIZABLE",
        _ => "READ COMMITTED",
    };
    let begin = format!("BEGIN ISOLATION LEVEL {level}");
    client.batch_execute(&begin).await?;
    let fence = lock.fence().map(Fence::as_i64);
    let verify = "SELECT leasehold.verify($1, $2)";
    client.query(verify, &[&lock.full_key(), &fence]).await?;
    let read = "SELECT coalesce(max(number), 0) FROM numbers";
    Ok(client.query_one(read, &[]).await?.get(0))
}

async fn write(client: &Client, number: i64) -> Result<(), Error> {
    let write = "INSERT INTO numbers VALUES ($1)";
    client.execute(write, &[&number]).await.map(drop)
}

/// Takes the lock for one call, and starts the next call of the same process. Both calls waited at
/// the same time, so the store has reserved a fence for the next call.
async fn two_calls(
    database: &Database,
    pool: &LockPool,
    level: IsolationLevel,
) -> (LockGuard, JoinHandle<()>) {
    let earlier = take(pool, "numbers").await;
    let first = wait::started(take(pool, "numbers")).await;
    let next = next_call(pool.clone(), database.client().await, level);
    let next = wait::started(next).await;
    earlier.release().await.expect("still held");
    (first.await, tokio::spawn(next))
}

/// Runs the next call: reads the last number and commits the following number. The call must not
/// read an outdated number.
async fn next_call(pool: LockPool, client: Client, level: IsolationLevel) {
    let guard = take(&pool, "numbers").await;
    let ended = async {
        let last = begin(&client, level, &guard).await?;
        write(&client, last + 1).await?;
        client.batch_execute("COMMIT").await
    };
    ended.await.expect("it has the lock");
    guard.release().await.expect("still held");
}

/// Fails unless both transactions have written a number, and the two numbers differ.
async fn none_is_lost(client: &Client, level: IsolationLevel) {
    let read = "SELECT count(*), count(DISTINCT number) FROM numbers";
    let row = client.query_one(read, &[]).await.expect("a count");
    assert_eq!(
        (row.get::<_, i64>(0), row.get::<_, i64>(1)),
        (2, 2),
        "{level:?}"
    );
}

/// A dropped call leaves an open transaction behind. Fails if the next call of the same process
/// commits before this transaction ends.
#[tokio::test]
async fn a_transaction_of_a_dropped_call_blocks_the_next_commit() {
    for level in LEVELS {
        let (database, pool, client) = numbers(Postgres::shared()).await;
        let (dropped, next) = two_calls(&database, &pool, level).await;
        let last = begin(&client, level, &dropped)
            .await
            .expect("it has the lock");
        drop(dropped);
        tokio::time::sleep(LOOK).await;
        let ended = async {
            write(&client, last + 1).await?;
            client.batch_execute("COMMIT").await
        };
        ended.await.expect("no other holder was let in");
        let next = wait::within("the next call ends", LONG, next).await;
        next.expect("no panic");
        none_is_lost(&database.client().await, level).await;
    }
}

/// A finished call has prepared its transaction for a commit in two phases. Fails if the next call
/// of the same process commits before the prepared transaction ends.
#[tokio::test]
async fn a_prepared_transaction_blocks_the_next_commit() {
    let settings = ["fsync=off", "max_prepared_transactions=4"];
    let server = Postgres::start_with(&settings);
    for level in LEVELS {
        let (database, pool, client) = numbers(&server).await;
        let (returned, next) = two_calls(&database, &pool, level).await;
        let last = begin(&client, level, &returned)
            .await
            .expect("it has the lock");
        write(&client, last + 1).await.expect("an open transaction");
        let prepare = "PREPARE TRANSACTION 'first'";
        client.batch_execute(prepare).await.expect("a first phase");
        returned.release().await.expect("still held");
        tokio::time::sleep(LOOK).await;
        let commit = "COMMIT PREPARED 'first'";
        client.batch_execute(commit).await.expect("a second phase");
        let next = wait::within("the next call ends", LONG, next).await;
        next.expect("no panic");
        none_is_lost(&client, level).await;
    }
}

/// A call is dropped while its `COMMIT` is in flight. Fails if the next call of the same process
/// commits before that `COMMIT`.
#[tokio::test]
async fn a_commit_in_flight_blocks_the_next_commit() {
    for level in LEVELS {
        let (database, pool, _client) = numbers(Postgres::shared()).await;
        let proxy = Proxy::start_postgres(database.address());
        let url = database.url_over(proxy.address());
        let connected = tokio_postgres::connect(&url, NoTls).await;
        let (client, connection) = connected.expect("the server answers");
        tokio::spawn(connection);
        let (dropped, next) = two_calls(&database, &pool, level).await;
        let last = begin(&client, level, &dropped)
            .await
            .expect("it has the lock");
        write(&client, last + 1).await.expect("an open transaction");
        proxy.set(Mode::Stall);
        let commit = wait::started(client.batch_execute("COMMIT")).await;
        drop(dropped);
        tokio::time::sleep(LOOK).await;
        proxy.pass();
        commit.await.expect("no other holder was let in");
        let next = wait::within("the next call ends", LONG, next).await;
        next.expect("no panic");
        none_is_lost(&database.client().await, level).await;
    }
}
