//! Tests of the clock that determines the end of leases.

use std::time::Duration;

use leasehold_tests::wait;
use tokio_postgres::Client;

use super::{LONG, fresh, take};

/// Renews the lock from a separate client, with the SQL functions of the pool.
async fn renew(client: &Client, key: &str) -> bool {
    let renew = format!(
        "SELECT r.taken FROM leasehold.locks l, leasehold.take(l.process, '{{renew}}', ARRAY[l.key], ARRAY[l.token], '{{20000}}', '{{0}}', '{{false}}', '{{}}') r WHERE l.key = 'lock:{key}'"
    );
    let row = client.query_one(&renew, &[]).await;
    row.expect("the renewal is answered").get(0)
}

/// Returns the number of sessions that wait for a row.
async fn waiting(client: &Client) -> i64 {
    let count = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    client.query_one(count, &[]).await.expect("a count").get(0)
}

/// A renewal waits for a locked row until the lease has ended. Fails if the renewal then succeeds.
/// It must not compare the end of the lease with a time from before the wait.
#[tokio::test]
async fn a_renewal_delayed_beyond_the_lease_is_refused() {
    /// Time until the lease ends. It is long enough for a renewal to begin, even on a busy machine.
    const SHORT: Duration = Duration::from_secs(10);
    let (database, pool) = fresh().await;
    let guard = take(&pool, "waited").await;
    let (mut blocker, renewer) = (database.client().await, database.client().await);
    let (looker, probe) = (database.client().await, database.probe("lock:"));
    assert!(renew(&renewer, "waited").await, "the lease lasts");
    let shorten = format!(
        "UPDATE leasehold.locks SET expires_at = clock_timestamp() + '{} ms' WHERE key = 'lock:waited'",
        SHORT.as_millis()
    );
    blocker.batch_execute(&shorten).await.expect("an owner may");
    let transaction = blocker.transaction().await.expect("it begins");
    let block = "SELECT FROM leasehold.locks WHERE key = 'lock:waited' FOR UPDATE";
    transaction.query(block, &[]).await.expect("it is there");
    let renewal = tokio::spawn(async move { renew(&renewer, "waited").await });
    let waits = async {
        while waiting(&looker).await == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    wait::within("the renewal waits", LONG, waits).await;
    let lasts =
        "SELECT expires_at > clock_timestamp() FROM leasehold.locks WHERE key = 'lock:waited'";
    assert_eq!(probe.value(lasts), "t", "it began to wait in time");
    let ended = || probe.value(lasts) == "f";
    wait::until_async("the lease ends", LONG, ended).await;
    transaction.commit().await.expect("it ends");
    assert!(!renewal.await.expect("no panic"), "the lease was over");
    drop(guard);
}
