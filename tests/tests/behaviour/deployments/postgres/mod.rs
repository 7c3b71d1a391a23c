//! Locks in a table of a PostgreSQL database.

use std::time::Duration;

use leasehold::{LockGuard, LockPool};
use leasehold_tests::postgres::{Database, Postgres, PostgresProbe};
use leasehold_tests::wait;
use tokio_postgres::Client;

mod batches;
mod beacons;
mod clock;
mod connecting;
mod deadlocks;
mod exact_commits;
mod fail_over;
mod faults;
mod gathering;
mod kills;
mod mutants;
mod network;
mod orphans;
mod pooler;
mod processes;
#[cfg(feature = "tls")]
mod tls;
mod verifying;

const TTL: Duration = Duration::from_secs(20);
const LONG: Duration = Duration::from_secs(60);

async fn connect(database: &Database) -> LockPool {
    wait::connected(LockPool::builder().url(database.url())).await
}

/// A fresh database with the tables, and a pool on it.
async fn fresh() -> (Database, LockPool) {
    let database = Postgres::shared().migrated();
    let pool = connect(&database).await;
    (database, pool)
}

async fn take(pool: &LockPool, key: &str) -> LockGuard {
    let acquired = pool.lock(key).ttl(TTL).wait(LONG).acquire().await;
    acquired.unwrap_or_else(|error| panic!("{key}: {error}"))
}

/// Takes and releases a lock; the pool may need a moment to come back.
async fn works(pool: &LockPool, key: &str) {
    let released = take(pool, key).await.release().await;
    released.unwrap_or_else(|error| panic!("{key}: {error}"));
}

/// Waits until the sessions of all pools have ended. The server's counts are certain to have a
/// session's part once that has ended.
async fn pools_ended(client: &Client) {
    let left = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'leasehold:%'";
    let ended = async {
        while client
            .query_one(left, &[])
            .await
            .expect("a count")
            .get::<_, i64>(0)
            > 0
        {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    wait::within("all connections end", LONG, ended).await;
}

/// How many sessions of pools show that they hear, in the database of the probe.
fn lit(probe: &PostgresProbe) -> u32 {
    let beacons = "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database WHERE l.locktype = 'advisory' AND l.classid = 1818583924 AND d.datname = current_database()";
    probe.value(beacons).parse().expect("a number")
}
