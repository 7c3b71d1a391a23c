//! Which clock leases end by, and who says that one has ended.

use std::time::{Duration, Instant};

use leasehold_tests::postgres::Database;
use leasehold_tests::probe::Probe;
use leasehold_tests::proxy::{Mode, Proxy};
use leasehold_tests::wait;
use tokio_postgres::Client;

use super::{LONG, TTL, fresh, take};

/// A renewal in a client of its own, as the pool's functions make it.
async fn renew(client: &Client, key: &str) -> bool {
    let renew = format!(
        "SELECT r.taken FROM leasehold.locks l, leasehold.take(l.process, '{{renew}}', ARRAY[l.key], ARRAY[l.token], '{{20000}}', '{{0}}', '{{false}}', '{{}}') r WHERE l.key = 'lock:{key}'"
    );
    let row = client.query_one(&renew, &[]).await;
    row.expect("the renewal is answered").get(0)
}

/// How many sessions wait for a row.
async fn waiting(database: &Database) -> i64 {
    let client = database.client().await;
    let count = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    client.query_one(count, &[]).await.expect("a count").get(0)
}

/// Fails if a renewal that had to wait for the row compares the end of its lease with the time at
/// which it began to wait.
#[tokio::test]
async fn a_renewal_that_waited_beyond_the_lease_is_refused() {
    const SHORT: Duration = Duration::from_millis(1_500);
    let (database, pool) = fresh().await;
    let guard = pool.lock("waited").ttl(SHORT).acquire().await;
    let guard = guard.expect("it is free");
    let (mut blocker, renewer) = (database.client().await, database.client().await);
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
        while waiting(&database).await == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    wait::within("the renewal waits", LONG, waits).await;
    let lasts =
        "SELECT expires_at > clock_timestamp() FROM leasehold.locks WHERE key = 'lock:waited'";
    let probe = database.probe("lock:");
    assert_eq!(probe.value(lasts), "t", "it began to wait in time");
    let ended = || probe.value(lasts) == "f";
    wait::until_async("the lease ends", LONG, ended).await;
    transaction.commit().await.expect("it ends");
    assert!(!renewal.await.expect("no panic"), "the lease was over");
    drop(guard);
}

/// Fails if a lock comes free because the session of its holder has ended: that says nothing of the
/// holder.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_session_ends_no_lease() {
    let (database, other) = fresh().await;
    let proxy = Proxy::start_postgres(database.address());
    let url = database.url_over(proxy.address());
    let holder = wait::connected(leasehold::LockPool::builder().url(url)).await;
    let held = holder.lock("held").ttl(TTL).acquire().await;
    let held = held.expect("it is free");
    proxy.set(Mode::Refuse);
    proxy.cut();
    let probe = database.probe("lock:");
    let session = "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database WHERE l.locktype = 'advisory' AND l.classid = 1818583924 AND d.datname = current_database()";
    let dark = || probe.value(session) == "1";
    wait::until_async("its session ends", LONG, dark).await;
    let waits = other.lock("held").ttl(TTL).wait(Duration::from_secs(2));
    let refused = waits.acquire().await.map(drop);
    assert!(refused.is_err(), "the lease lasts for long");
    assert!(probe.exists("held"));
    held.check().expect("the holder has it still");
    proxy.pass();
    drop(held);
    // The pool comes back, and releases it.
    take(&other, "held").await.release().await.expect("held");
}

/// Fails if a process that waits and has lost its session costs others a claim.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_without_a_session_is_passed_over_at_once() {
    let (database, other) = fresh().await;
    let mut fastest = Duration::MAX;
    for number in 0..3 {
        let key = format!("passed-{number}");
        let held = take(&other, &key).await;
        let proxy = Proxy::start_postgres(database.address());
        let url = database.url_over(proxy.address());
        let first = wait::connected(leasehold::LockPool::builder().url(url)).await;
        let request = first.lock(&*key).ttl(TTL).wait(LONG);
        let waits = tokio::spawn(async move { request.acquire().await.map(drop) });
        let probe = database.probe("lock:");
        let queued = format!("SELECT count(*) FROM leasehold.waiters WHERE key = 'lock:{key}'");
        let queues = || probe.value(&queued) == "1";
        wait::until_async("it queues", LONG, queues).await;
        let second = super::connect(&database).await;
        let next = second.lock(&*key).ttl(TTL).wait(LONG).acquire();
        let next = wait::started(next).await;
        let queues = || probe.value(&queued) == "2";
        wait::until_async("another queues behind it", LONG, queues).await;
        proxy.set(Mode::Refuse);
        proxy.cut();
        let session = "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database WHERE l.locktype = 'advisory' AND l.classid = 1818583924 AND d.datname = current_database()";
        let dark = || probe.value(session) == "2";
        wait::until_async("its session ends", LONG, dark).await;
        let released = Instant::now();
        held.release().await.expect("still held");
        let guard = next.await.expect("its turn comes");
        fastest = fastest.min(released.elapsed());
        guard.release().await.expect("still held");
        waits.abort();
        drop(first);
    }
    println!("{fastest:?} after the release");
    // A claim lasts a second.
    assert!(fastest < Duration::from_millis(500), "{fastest:?}");
}
