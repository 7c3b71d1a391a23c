//! Tests of beacons, rows with which sessions show that a process listens. A beacon only shows that
//! a process can be notified. A missing beacon does not mean that a lease has ended.

use std::time::{Duration, Instant};

use leasehold::{LockGuard, LockPool};
use leasehold_tests::lateness::Excuse;
use leasehold_tests::postgres::{Database, Postgres, PostgresProbe};
use leasehold_tests::probe::Probe;
use leasehold_tests::proxy::{Mode, Proxy};
use leasehold_tests::wait;

use super::{BEACONS, LONG, TTL, fresh, lit, patient, queued, take, without_haste};

/// Returns a pool whose connection to the server can be cut, and the proxy that cuts it.
async fn behind_a_proxy(database: &Database) -> (LockPool, Proxy) {
    let proxy = Proxy::start_postgres(database.address());
    let url = database.url_over(proxy.address());
    let pool = LockPool::builder().url(url).io_timeout(LONG);
    (wait::connected(pool).await, proxy)
}

/// Cuts a pool off, and waits until the server has ended the pool's session. `left` is the number
/// of other pools, whose sessions remain.
pub(super) async fn cut_off(database: &Database, proxy: &Proxy, left: u32) {
    let probe = database.probe("lock:");
    proxy.set(Mode::Refuse);
    let dark = || {
        // The cut is repeated, because the pool may have opened a new connection just before.
        proxy.cut();
        lit(&probe) == left
    };
    wait::until_async("its session ends", LONG, dark).await;
}

/// Keeps revoked locks, exclusive or shared, locked for a minute, so that a late check still finds
/// them. Normally a revoked lock whose holder is notified stays locked for at most 3 seconds.
pub(super) fn prolong(probe: &PostgresProbe) {
    for (table, revoked) in [
        ("shares", "revoked"),
        ("locks", "state IN ('revoked', 'shared')"),
    ] {
        probe.value(&format!(
            "UPDATE leasehold.{table} SET expires_at = clock_timestamp() + interval '1 minute' WHERE {revoked}"
        ));
    }
}

/// Fails if a lock becomes free because its holder's session has ended. The holder may still be
/// running.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_session_ends_no_lease() {
    let (database, other) = fresh().await;
    let (holder, proxy) = behind_a_proxy(&database).await;
    let held = holder.lock("held").ttl(LONG * 2).acquire().await;
    let held = held.expect("it is free");
    cut_off(&database, &proxy, 1).await;
    // This wait is long enough for an answer, even on a busy machine.
    let waits = other.lock("held").ttl(TTL).wait(Duration::from_secs(5));
    let refused = waits.acquire().await.map(drop);
    assert!(refused.is_err(), "the lease lasts for long");
    assert!(database.probe("lock:").exists("held"));
    held.check().expect("the holder has it still");
    proxy.pass();
    drop(held);
    // The other pool gets the lock after the holder's pool has connected again and released it.
    take(&other, "held").await.release().await.expect("held");
}

/// The server ends sessions that are idle for a second. Fails if it ends the session that listens
/// for a pool. PostgreSQL 13 has no such setting, and ends no idle session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_sessions_do_not_end() {
    const IMPATIENT: &str = "DO $$ BEGIN EXECUTE format(
        'ALTER DATABASE %I SET idle_session_timeout = ''1s''', current_database()); END $$";
    const PATIENT: &str =
        "SELECT count(*) FROM pg_settings WHERE name = 'idle_session_timeout' AND setting = '0'";
    for beside in [false, true] {
        let database = Postgres::shared().migrated();
        // The setting applies to later sessions, so the probe's session does not end.
        let probe = database.probe("lock:");
        assert_eq!(lit(&probe), 0);
        database.try_run(IMPATIENT);
        assert_eq!(database.probe("lock:").value(PATIENT), "0");
        let url = if beside {
            let listen = database.url().replace(':', "%3A").replace('/', "%2F");
            format!("{}?listen={listen}", database.url())
        } else {
            database.url()
        };
        let pool = LockPool::builder().url(url).io_timeout(LONG);
        let _pool = wait::connected(pool).await;
        let idle = format!(
            "SELECT count(*) FROM {BEACONS} AND a.state = 'idle' \
             AND a.state_change < clock_timestamp() - interval '4 s'"
        );
        let stays = || probe.value(&idle) == "1";
        wait::until_async("it is idle for seconds", LONG, stays).await;
    }
}

/// Fails if other processes must wait because a free lock is reserved for a waiting process without
/// a session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_without_a_session_is_skipped_at_once() {
    let (database, other) = fresh().await;
    // After this call, a free lock stays reserved for an hour.
    without_haste(&database).await;
    let (probe, excuse) = (database.probe("lock:"), Excuse::begin());
    let mut fastest = Duration::MAX;
    for number in 0..3 {
        let key = format!("passed-{number}");
        let held = take(&other, &key).await;
        let (first, proxy) = behind_a_proxy(&database).await;
        let request = first.lock(&*key).ttl(TTL).wait(LONG);
        let waits = tokio::spawn(async move { request.acquire().await.map(drop) });
        queued(&probe, &key, 1).await;
        let second = patient(&database).await;
        let next = second.lock(&*key).ttl(TTL).wait(LONG * 2).acquire();
        let next = wait::started(next).await;
        queued(&probe, &key, 2).await;
        cut_off(&database, &proxy, 2).await;
        let released = Instant::now();
        held.release().await.expect("still held");
        let next = wait::within("it is passed over", Duration::from_secs(20), next).await;
        let guard = next.expect("its turn comes");
        fastest = fastest.min(released.elapsed());
        guard.release().await.expect("still held");
        waits.abort();
        drop(first);
    }
    println!("{fastest:?} after the release");
    let most = Duration::from_millis(500) + excuse.so_far();
    assert!(fastest < most, "{fastest:?}");
}

/// Fails if an operator who takes a lock away must wait for a holder that cannot be notified.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_taken_from_a_holder_without_a_session_is_free_at_once() {
    let (database, operator) = fresh().await;
    let (holder, proxy) = behind_a_proxy(&database).await;
    let mut cut = take(&holder, "cut").await;
    cut_off(&database, &proxy, 1).await;
    let was = operator.force_release("cut").await.expect("it answers");
    assert!(was.is_some(), "it was held");
    prolong(&database.probe("lock:"));
    let next = operator.lock("cut").ttl(TTL).acquire().await;
    let next = next.expect("free at once");
    proxy.pass();
    // The holder's pool connects again, repeats the downgrade until it gets an answer, and so
    // detects the loss.
    cut.downgrade().await.expect_err("it was taken away");
    let error = cut.release().await.expect_err("it was taken away");
    assert!(error.is_lost(), "{error}");
    next.release().await.expect("still held");
}

/// An operator takes a shared lock away from two holders, one of which has no session. Fails if the
/// holder without a session keeps its share. Also fails if the other holder, which is notified,
/// loses its share before it has released the lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn revoked_shares_end_with_or_without_a_session() {
    let (database, operator) = fresh().await;
    let (holder, proxy) = behind_a_proxy(&database).await;
    let reader = patient(&database).await;
    let share = async |pool: &LockPool| -> LockGuard {
        let shared = pool.lock("read").ttl(TTL).shared().acquire().await;
        shared.expect("readers stand side by side")
    };
    let (cut, reached) = (share(&holder).await, share(&reader).await);
    cut_off(&database, &proxy, 2).await;
    let was = operator.force_release("read").await.expect("it answers");
    assert_eq!(was.expect("two had it").holders.len(), 2);
    prolong(&database.probe("lock:"));
    wait::within("it is notified", LONG, Box::pin(reached.lost())).await;
    let lock = operator.inspect("read").await.expect("it answers");
    assert_eq!(lock.holders.len(), 1, "{lock:?}");
    assert!(lock.holders[0].revoked, "{lock:?}");
    let error = reached.release().await.expect_err("it was taken away");
    assert!(error.is_lost(), "{error}");
    // The writer waits, because the store may have the notified holder's shared lock for another
    // moment.
    let writer = operator.lock("read").ttl(TTL).wait(LONG).acquire().await;
    let writer = writer.expect("free once the reader that was reached has ended");
    drop(cut);
    writer.release().await.expect("still held");
}
