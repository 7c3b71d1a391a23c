//! Tests of `leasehold.verify` and `leasehold.guard`: the fences that they accept, and how long
//! they accept them.

use std::time::{Duration, Instant};

use leasehold::LockGuard;
use leasehold::postgres::{LEASE_OVER, STALE_FENCE};
use leasehold_tests::lateness::Excuse;
use leasehold_tests::probe::Probe;
use leasehold_tests::wait;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error, IsolationLevel, Transaction};

use super::{LONG, TTL, fresh, is_kept_from, patient, take};

/// A ttl that ends during a test.
const SHORT: Duration = Duration::from_millis(600);
/// Time limit from the end of a transaction until a waiting call gets the lock. The call repeats
/// its request every 100 ms.
const LOOKS: Duration = Duration::from_secs(3);
/// The ttl of a lease that a watchdog renews in time, even on a busy machine.
const KEPT: Duration = Duration::from_secs(10);

pub(super) async fn verify(
    transaction: &Transaction<'_>,
    key: &str,
    fence: i64,
) -> Result<(), Error> {
    let verify = "SELECT leasehold.verify($1, $2)";
    transaction.query(verify, &[&key, &fence]).await.map(drop)
}

pub(super) fn code(ended: Result<(), Error>) -> String {
    let error = ended.expect_err("it is refused");
    error.code().map_or("", SqlState::code).to_owned()
}

pub(super) fn fence(guard: &LockGuard) -> i64 {
    let fence = guard.fence().expect("PostgreSQL gives fences");
    i64::try_from(fence.get()).expect("a fence fits a bigint")
}

pub(super) async fn begin(client: &mut Client) -> Transaction<'_> {
    client.transaction().await.expect("a transaction begins")
}

/// Fails if `verify` accepts an ended lease, or refuses a current lease.
#[tokio::test]
async fn only_the_latest_holder_verifies() {
    let (database, pool) = fresh().await;
    let mut client = database.client().await;
    let first = take(&pool, "one").await;
    let key = first.full_key().to_owned();
    assert_eq!(key, "lock:one");
    let old = fence(&first);
    let transaction = begin(&mut client).await;
    verify(&transaction, &key, old).await.expect("it holds it");
    transaction.commit().await.expect("nothing is in its way");
    first.release().await.expect("still held");
    // A release waits at most a second for its answer, so the lock may still be held here on a busy
    // machine.
    let probe = database.probe("lock:");
    wait::until_async("it is free", LONG, || !probe.exists("one")).await;
    for wanted in [old, old + 1] {
        let transaction = begin(&mut client).await;
        let refused = code(verify(&transaction, &key, wanted).await);
        assert_eq!(refused, LEASE_OVER, "no call holds it");
    }
    let second = take(&pool, "one").await;
    let transaction = begin(&mut client).await;
    assert_eq!(code(verify(&transaction, &key, old).await), LEASE_OVER);
    drop(transaction);
    let transaction = begin(&mut client).await;
    let refused = code(verify(&transaction, "lock:other", fence(&second)).await);
    assert_eq!(refused, LEASE_OVER, "there is no such lock");
}

/// A transaction verifies a lock. Then the lease ends, or the lock is released. Fails if another
/// call gets the lock before the end of the transaction, or not soon after it.
#[tokio::test]
async fn a_verified_lock_waits_for_the_transaction() {
    for ends in ["commit", "rollback", "release"] {
        let (database, pool) = fresh().await;
        let other = patient(&database).await;
        let (mut client, probe) = (database.client().await, database.probe("lock:"));
        let ttl = if ends == "release" { TTL } else { SHORT };
        let guard = pool.lock("pinned").ttl(ttl).acquire().await;
        let guard = guard.expect("it is free");
        let transaction = begin(&mut client).await;
        let verified = verify(&transaction, guard.full_key(), fence(&guard)).await;
        verified.expect("it holds it");
        if ends == "release" {
            guard.release().await.expect("still held");
        } else {
            guard.lost().await;
            // The lease ends a little later on the server's clock than in the process.
            let over = || !probe.exists("pinned");
            wait::until_async("the lease ends", LONG, over).await;
        }
        is_kept_from(&other, "pinned").await;
        is_kept_from(&pool, "pinned").await;
        let both = other.lock_all(["pinned", "loose"]).ttl(TTL).acquire().await;
        assert!(both.is_err(), "one of them is pinned");
        let shared = other.lock("pinned").ttl(TTL).shared().acquire().await;
        assert!(shared.is_err(), "a reader could see the state before");
        let next = other.lock("pinned").ttl(TTL).wait(LONG * 2).acquire();
        let next = wait::started(next).await;
        tokio::time::sleep(SHORT).await;
        let (ended, excuse) = (Instant::now(), Excuse::begin());
        match ends {
            "rollback" => transaction.rollback().await.expect("it ends"),
            _ => transaction.commit().await.expect("it ends"),
        }
        let next = wait::within("it is let in", LONG, next).await;
        let took = ended.elapsed();
        drop(next.unwrap_or_else(|error| panic!("{ends}: {error}")));
        println!("{ends}: let in {took:?} after the end");
        let limit = LOOKS + excuse.so_far();
        assert!(
            took < limit,
            "{ends}: let in {took:?} after the end, not in {limit:?}"
        );
    }
}

/// Fails if a transaction delays the renewals of a lock that it has verified.
#[tokio::test]
async fn a_pinned_lease_is_renewed() {
    let (database, pool) = fresh().await;
    let mut client = database.client().await;
    let guard = pool.lock("renewed").ttl(KEPT).watchdog().acquire().await;
    let guard = guard.expect("it is free");
    let transaction = begin(&mut client).await;
    let verified = verify(&transaction, guard.full_key(), fence(&guard)).await;
    verified.expect("it holds it");
    tokio::time::sleep(KEPT + SHORT * 2).await;
    guard.check().expect("its lease was renewed");
    let verified = verify(&transaction, guard.full_key(), fence(&guard)).await;
    verified.expect("it holds it still");
    transaction.commit().await.expect("it ends");
    guard.release().await.expect("still held");
}

/// Runs `verify` in transactions whose snapshot is older than a change of the lock. Fails if a
/// renewal makes `verify` fail, or if `verify` accepts an old fence after the next holder got the
/// lock.
#[tokio::test]
async fn snapshots() {
    for isolation in [IsolationLevel::RepeatableRead, IsolationLevel::Serializable] {
        let (database, pool) = fresh().await;
        let (mut client, probe) = (database.client().await, database.probe("lock:"));
        let guard = pool.lock("seen").ttl(KEPT).watchdog().acquire().await;
        let guard = guard.expect("it is free");
        let (key, old) = (guard.full_key().to_owned(), fence(&guard));
        let builder = client.build_transaction().isolation_level(isolation);
        let transaction = builder.start().await.expect("it begins");
        let look = transaction.query("SELECT count(*) FROM leasehold.locks", &[]);
        look.await.expect("a snapshot");
        let end = "SELECT expires_at FROM leasehold.locks WHERE key = 'lock:seen'";
        let before = probe.value(end);
        let renewed = || probe.value(end) != before;
        wait::until_async("it is renewed", LONG, renewed).await;
        let verified = verify(&transaction, &key, old).await;
        verified.expect("renewals change nothing");
        transaction.commit().await.expect("it ends");

        let builder = client.build_transaction().isolation_level(isolation);
        let transaction = builder.start().await.expect("it begins");
        let look = transaction.query("SELECT count(*) FROM leasehold.locks", &[]);
        look.await.expect("a snapshot");
        guard.release().await.expect("still held");
        let next = take(&pool, "seen").await;
        let refused = code(verify(&transaction, &key, old).await);
        assert!([LEASE_OVER, "40001"].contains(&&*refused), "{refused}");
        drop(transaction);
        next.release().await.expect("still held");
    }
}

/// Calls of another process for the keys `lock:a` and `lock:z`. The result is true if the call got
/// `lock:a`.
const CALLS: [&str; 2] = [
    "SELECT (array_agg(x.taken))[1] FROM leasehold.take(gen_random_uuid(),
         ARRAY['acquire', 'acquire'], ARRAY['lock:a', 'lock:z'],
         ARRAY[gen_random_uuid(), gen_random_uuid()], ARRAY[60000, 60000], ARRAY[0, 0],
         ARRAY[false, false], ARRAY['next', 'next']) x",
    "SELECT bool_and(x.refused IS NULL) FROM leasehold.take_all(gen_random_uuid(),
         ARRAY['lock:a', 'lock:z'], ARRAY[gen_random_uuid(), gen_random_uuid()], 60000, 'next') x",
];

/// A transaction takes a snapshot, and then the holder releases the lock. A call with two keys gets
/// the lock. In the second case, a transaction that has verified the lock ends while this call
/// waits for its other key. Fails if `verify` then accepts the old fence in the snapshot: this
/// transaction would commit after the next holder got the lock.
#[tokio::test]
async fn snapshots_are_refused_after_calls_with_several_keys() {
    let cases = CALLS.map(|call| [(call, false), (call, true)]);
    for (call, is_pinned) in cases.into_iter().flatten() {
        let (database, pool) = fresh().await;
        let (mut old, mut pin) = (database.client().await, database.client().await);
        let (mut blocker, probe) = (database.client().await, database.probe("lock:"));
        let guard = take(&pool, "a").await;
        let (key, fence) = (guard.full_key().to_owned(), fence(&guard));

        let old = old
            .build_transaction()
            .isolation_level(IsolationLevel::RepeatableRead);
        let old = old.start().await.expect("it begins");
        let look = old.query("SELECT count(*) FROM leasehold.locks", &[]);
        look.await.expect("a snapshot");
        let pin = begin(&mut pin).await;
        if is_pinned {
            let verified = verify(&pin, &key, fence).await;
            verified.expect("it holds it");
        }
        guard.release().await.expect("still held");
        let row = "INSERT INTO leasehold.locks (key) VALUES ('lock:z')";
        blocker.execute(row, &[]).await.expect("a row");
        let blocker = begin(&mut blocker).await;
        let row = "SELECT FROM leasehold.locks WHERE key = 'lock:z' FOR UPDATE";
        blocker.execute(row, &[]).await.expect("locks the row");

        let next = database.client().await;
        let id = next.query_one("SELECT pg_backend_pid()", &[]).await;
        let id: i32 = id.expect("an answer").get(0);
        let next = tokio::spawn(async move { while !succeeds(&next, call).await {} });
        let blockers = format!("SELECT cardinality(pg_blocking_pids({id}))");
        let waits = || probe.value(&blockers) == "1";
        wait::until_async("the call waits for its other key", LONG, waits).await;
        pin.commit().await.expect("it ends");
        blocker.commit().await.expect("it ends");
        let next = wait::within("the call gets its keys", LONG, next).await;
        next.expect("no panic");

        let refused = code(verify(&old, &key, fence).await);
        assert!([LEASE_OVER, "40001"].contains(&&*refused), "{refused}");
    }
}

async fn succeeds(client: &Client, call: &str) -> bool {
    let answer = client.query_one(call, &[]).await;
    answer.expect("an answer").get(0)
}

/// Fails if a call of `verify` still keeps other calls out after a rollback to an earlier
/// savepoint: `docs/stores/postgres.md` warns of this.
#[tokio::test]
async fn a_rollback_to_a_savepoint_undoes_the_call() {
    let (database, pool) = fresh().await;
    let mut client = database.client().await;
    let guard = take(&pool, "undone").await;
    let mut transaction = begin(&mut client).await;
    let savepoint = transaction.savepoint("before").await.expect("it begins");
    let verified = verify(&savepoint, guard.full_key(), fence(&guard)).await;
    verified.expect("it holds it");
    savepoint.rollback().await.expect("it is undone");
    guard.release().await.expect("still held");
    let next = take(&pool, "undone").await;
    next.release().await.expect("still held");
    transaction.commit().await.expect("it ends");
}

/// A transaction has verified a shared lock. Fails if this transaction does not keep writers out
/// until its end, or keeps readers out.
#[tokio::test]
async fn readers_pin_against_writers_only() {
    let (database, pool) = fresh().await;
    let other = patient(&database).await;
    let (mut client, probe) = (database.client().await, database.probe("lock:"));
    // The ttl is long enough for the following steps, even on a busy machine.
    let reader = pool.lock("read").ttl(Duration::from_secs(8)).shared();
    let reader = reader.acquire().await.expect("it is free");
    let transaction = begin(&mut client).await;
    let verified = verify(&transaction, reader.full_key(), fence(&reader)).await;
    verified.expect("it has a share");
    let refused = {
        let mut second = database.client().await;
        let transaction = begin(&mut second).await;
        code(verify(&transaction, reader.full_key(), fence(&reader) + 1).await)
    };
    assert_eq!(refused, LEASE_OVER, "there is one share");
    let second = other.lock("read").ttl(SHORT).shared().acquire().await;
    drop(second.expect("readers stand side by side"));
    reader.lost().await;
    let over = || !probe.exists("read");
    wait::until_async("all shares end", LONG, over).await;
    is_kept_from(&other, "read").await;
    transaction.commit().await.expect("it ends");
    take(&other, "read").await.release().await.expect("held");
}

/// Fails if `verify` accepts the fence 0 while `min_hold` keeps a released shared lock held. No
/// call has this fence.
#[tokio::test]
async fn a_kept_share_verifies_no_fence() {
    let (database, pool) = fresh().await;
    let mut client = database.client().await;
    let reader = pool.lock("kept").ttl(TTL).min_hold(TTL / 2).shared();
    let reader = reader.acquire().await.expect("it is free");
    let key = reader.full_key().to_owned();
    reader.release().await.expect("still held");
    let transaction = begin(&mut client).await;
    assert_eq!(code(verify(&transaction, &key, 0).await), LEASE_OVER);
}

/// A transaction verifies the lock of a writer, which then downgrades the lock to a share. Fails if
/// a reader gets the lock before the commit of this transaction.
#[tokio::test]
async fn a_downgrade_lets_readers_in_after_the_commit() {
    let (database, pool) = fresh().await;
    let other = patient(&database).await;
    let mut client = database.client().await;
    let mut writer = take(&pool, "down").await;
    let transaction = begin(&mut client).await;
    let verified = verify(&transaction, writer.full_key(), fence(&writer)).await;
    verified.expect("it holds it");
    writer.downgrade().await.expect("its lease lasts");
    let early = other.lock("down").ttl(TTL).shared().acquire().await;
    assert!(early.is_err(), "the writer has not committed");
    let verified = verify(&transaction, writer.full_key(), fence(&writer)).await;
    verified.expect("the fence stays");
    transaction.commit().await.expect("it ends");
    let reader = other.lock("down").ttl(TTL).shared().acquire().await;
    drop(reader.expect("the writer has committed"));
}

/// Fails if `verify` or `guard` needs rights on the tables.
#[tokio::test]
async fn an_application_needs_no_rights_on_the_tables() {
    let (database, pool) = fresh().await;
    let owner = database.client().await;
    let grants =
        "CREATE ROLE verifier; GRANT USAGE ON SCHEMA leasehold TO verifier; SET ROLE verifier";
    owner.batch_execute(grants).await.expect("an owner may");
    let guard = take(&pool, "rights").await;
    let number = fence(&guard);
    let args: [&(dyn tokio_postgres::types::ToSql + Sync); 2] = [&guard.full_key(), &number];
    for function in ["verify", "guard"] {
        let sql = format!("SELECT leasehold.{function}($1, $2)");
        let asked = owner.query(&sql, &args).await;
        asked.unwrap_or_else(|error| panic!("{function}: {error:?}"));
    }
    let table = owner.query("SELECT * FROM leasehold.locks", &[]).await;
    let refused = table.map(drop);
    assert_eq!(code(refused), SqlState::INSUFFICIENT_PRIVILEGE.code());
}

/// Fails if `guard` accepts an earlier fence after a later fence, or accepts a fence only once.
#[tokio::test]
async fn guard_lets_no_earlier_fence_in() {
    let (database, _pool) = fresh().await;
    let client = database.client().await;
    let guard = async |key: &str, fence: i64| {
        let guard = "SELECT leasehold.guard($1, $2)";
        client.query(guard, &[&key, &fence]).await.map(drop)
    };
    for fence in [5, 5, 7] {
        guard("k", fence).await.expect("none later was there");
    }
    assert_eq!(code(guard("k", 6).await), STALE_FENCE);
    guard("other", 6).await.expect("another key");
    guard("k", 7).await.expect("a refusal changes nothing");
}
