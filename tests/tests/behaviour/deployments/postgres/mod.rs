//! Tests of locks in a table of a PostgreSQL database.

use std::time::Duration;

use leasehold::{LockError, LockGuard, LockPool};
use leasehold_tests::postgres::{Database, Postgres, PostgresProbe};
use leasehold_tests::wait;
use tokio_postgres::Client;

mod batches;
mod beacons;
mod clock;
mod connecting;
mod deadlocks;
mod dropped_calls;
mod exact_commits;
mod fail_over;
mod faults;
mod gathering;
mod hostile;
mod kills;
mod listening;
mod locked_rows;
mod mutants;
mod neighbours;
mod network;
mod orphans;
mod outliving;
mod pins;
mod pooler;
mod processes;
#[cfg(feature = "tls")]
mod tls;
mod verifying;

/// A ttl longer than a test, even on a busy machine.
const TTL: Duration = Duration::from_secs(60);
const LONG: Duration = Duration::from_secs(60);

/// FROM clause for the sessions with beacons in the queried database. A beacon shows that its
/// process listens.
const BEACONS: &str = "leasehold.beacons l JOIN pg_stat_activity a ON a.pid = l.pid AND a.backend_start = l.began WHERE true";

/// SQL that keeps a free lock reserved for its next process for an hour, and keeps every waiting
/// process in its queue.
const WITHOUT_HASTE: &str = "
    CREATE FUNCTION public.stays_handed() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN NEW.expires_at := clock_timestamp() + interval '1 hour'; RETURN NEW; END $$;
    CREATE TRIGGER stays_handed BEFORE UPDATE ON leasehold.locks
      FOR EACH ROW WHEN (NEW.state = 'handed') EXECUTE FUNCTION public.stays_handed();
    CREATE FUNCTION public.stays_seen() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN NEW.seen_at := clock_timestamp() + interval '1 hour'; RETURN NEW; END $$;
    CREATE TRIGGER stays_seen BEFORE INSERT OR UPDATE ON leasehold.waiters
      FOR EACH ROW EXECUTE FUNCTION public.stays_seen()";

async fn connect(database: &Database) -> LockPool {
    wait::connected(LockPool::builder().url(database.url())).await
}

/// Returns a pool with a long timeout, for tests that do not test timeouts.
async fn patient(database: &Database) -> LockPool {
    let pool = LockPool::builder().url(database.url()).io_timeout(LONG);
    wait::connected(pool).await
}

/// Returns a new database with the tables, and a pool with a long timeout on it.
async fn fresh() -> (Database, LockPool) {
    let database = Postgres::shared().migrated();
    let pool = patient(&database).await;
    (database, pool)
}

async fn take(pool: &LockPool, key: &str) -> LockGuard {
    let acquired = pool.lock(key).ttl(TTL).wait(LONG).acquire().await;
    acquired.unwrap_or_else(|error| panic!("{key}: {error}"))
}

/// Takes and releases a lock. The pool may need a moment to reconnect.
async fn works(pool: &LockPool, key: &str) {
    let released = take(pool, key).await.release().await;
    released.unwrap_or_else(|error| panic!("{key}: {error}"));
}

/// Fails unless a call for the lock is refused. Repeats a call that times out, as may happen on a
/// busy machine.
async fn is_kept_from(pool: &LockPool, key: &str) {
    let refused = async {
        loop {
            let tried = pool.lock(key).ttl(TTL).acquire().await;
            let error = tried.map(drop).expect_err("it is taken");
            if !error.is_unavailable() {
                break error;
            }
        }
    };
    let error = wait::within("the server answers", LONG, refused).await;
    assert!(matches!(error, LockError::Contended { .. }), "{error}");
}

/// Executes `WITHOUT_HASTE`, so that a waiting process gets the lock reserved for it even if a busy
/// machine wakes it late.
async fn without_haste(database: &Database) {
    let made = database.client().await.batch_execute(WITHOUT_HASTE).await;
    made.expect("an owner may");
}

/// Waits until `many` processes have a place in the queue of the key.
async fn queued(probe: &PostgresProbe, key: &str, many: u32) {
    let count = format!("SELECT count(*) FROM leasehold.waiters WHERE key = 'lock:{key}'");
    let queue = || probe.value(&count) == many.to_string();
    wait::until_async("they queue", LONG, queue).await;
}

/// Waits until the sessions of all pools have ended. Only then is it certain that the server's
/// counts include the work of these sessions.
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

/// Returns the number of pool sessions with a beacon in the database of the probe.
fn lit(probe: &PostgresProbe) -> u32 {
    let beacons = format!("SELECT count(*) FROM {BEACONS}");
    probe.value(&beacons).parse().expect("a number")
}
