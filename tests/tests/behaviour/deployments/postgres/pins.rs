//! Tests of pinned locks. Such a lock has no holder, but is still blocked by transactions ("pins")
//! that have called `leasehold.verify` for it. `inspect` shows the lock with the session of such a
//! transaction.

use std::time::Duration;

use leasehold::{LockError, LockGuard, LockInfo, LockPool, LockState};
use leasehold_tests::postgres::{Database, Postgres};
use leasehold_tests::wait;
use tokio_postgres::Client;

use super::verifying::fence;
use super::{LONG, TTL, fresh, patient, take, works};

/// A ttl that ends during a test, but not before a transaction has verified the lock.
const SHORT: Duration = Duration::from_secs(5);

/// Statement that begins a subtransaction, in which the lock is then verified.
const SAVEPOINT: &str = "SAVEPOINT a;";

/// Begins a transaction that verifies the lock.
async fn verified(database: &Database, guard: &LockGuard, savepoint: &str) -> Client {
    let client = database.client().await;
    let (key, fence) = (guard.full_key(), fence(guard));
    let begin = "SET application_name = 'shop'; BEGIN;";
    let verify = format!("{begin} {savepoint} SELECT leasehold.verify('{key}', {fence})");
    client.batch_execute(&verify).await.expect("it holds it");
    client
}

/// Begins transactions that verify the lock `k`, and then releases the lock.
async fn pin(database: &Database, pool: &LockPool, number: usize, savepoint: &str) -> Vec<Client> {
    let guard = take(pool, "k").await;
    let mut clients = Vec::new();
    for _ in 0..number {
        clients.push(verified(database, &guard, savepoint).await);
    }
    guard.release().await.expect("still held");
    clients
}

async fn pid(client: &Client) -> u32 {
    let asked = client.query_one("SELECT pg_backend_pid()", &[]).await;
    let pid: i32 = asked.expect("it answers").get(0);
    pid.unsigned_abs()
}

/// Inspects `k`, which must have no holder but still be blocked by a transaction.
async fn pinned(pool: &LockPool) -> LockInfo {
    let mut lock = pool.inspect("k").await.expect("it answers");
    // A release may still be on its way.
    while lock.state == LockState::Exclusive {
        lock = pool.inspect("k").await.expect("it answers");
    }
    assert_eq!(lock.state, LockState::Pinned, "{lock:?}");
    lock
}

async fn listed(pool: &LockPool) -> Vec<String> {
    let (mut locks, mut keys) = (pool.locks("*"), Vec::new());
    while let Some(lock) = locks.next().await {
        keys.push(lock.expect("it answers").key);
    }
    keys
}

async fn refusal(pool: &LockPool) -> LockError {
    let refused = pool.lock("k").ttl(TTL).acquire().await;
    refused.map(drop).expect_err("it is pinned")
}

/// Fails if a pinned lock is shown as free. Also fails if `inspect`, `check`, `force_release` or
/// the error of a refused call does not show a transaction that blocks the lock.
#[tokio::test]
async fn a_pinned_lock_is_shown() {
    for (number, savepoint) in [(1, ""), (1, SAVEPOINT), (2, SAVEPOINT)] {
        let (database, pool) = fresh().await;
        let other = patient(&database).await;
        let clients = pin(&database, &pool, number, savepoint).await;
        let mut pids = Vec::new();
        for client in &clients {
            pids.push(pid(client).await);
        }
        let lock = pinned(&other).await;
        let owner = lock.holders[0].owner.as_ref().expect("its session");
        assert!(pids.contains(&owner.pid), "{owner} {pids:?}");
        assert!(lock.holders[0].foreign);
        assert!(owner.to_string().contains("transaction of shop"), "{owner}");
        assert_eq!(listed(&other).await, ["k"]);

        let refused = refusal(&other).await;
        assert!(refused.is_contention(), "{refused}");
        let holder = refused.holder().expect("the session");
        assert!(pids.contains(&holder.pid), "{refused}");

        let report = pool.check().await.expect("it answers");
        let finding = report.find("pinned").expect("it is found").text.clone();
        assert!(
            finding.contains("keep 1 locks") && finding.contains("shop"),
            "{finding}"
        );

        let taken = other.force_release("k").await.map(drop);
        let text = taken.expect_err("a transaction stays").to_string();
        let names = |pid: &u32| text.contains(&format!("pg_terminate_backend({pid})"));
        assert!(pids.iter().any(names), "{text}");

        let owner = database.client().await;
        for pid in pids {
            let end = format!("SELECT pg_terminate_backend({pid})");
            owner.batch_execute(&end).await.expect("a superuser may");
        }
        works(&other, "k").await;
        let is_free = async || !other.inspect("k").await.expect("it answers").is_taken();
        wait::within("it is free", LONG, async { while !is_free().await {} }).await;
        assert!(listed(&other).await.is_empty());
        let report = pool.check().await.expect("it answers");
        assert!(report.find("pinned").is_none(), "{report}");
    }
}

/// A prepared transaction, which has no session, blocks a lock. Fails if `inspect` does not show
/// the name of this transaction. Also fails if the error of `force_release` does not show the
/// statement that ends it.
#[tokio::test]
async fn a_prepared_transaction_is_shown() {
    let settings = ["fsync=off", "max_prepared_transactions=4"];
    let server = Postgres::start_with(&settings);
    for savepoint in ["", SAVEPOINT] {
        let database = server.migrated();
        let pool = patient(&database).await;
        let clients = pin(&database, &pool, 1, savepoint).await;
        let prepare = "PREPARE TRANSACTION 'sale-7'";
        clients[0].batch_execute(prepare).await.expect("it may");
        let lock = pinned(&pool).await;
        let owner = lock.holders[0].owner.as_ref().expect("its name");
        assert_eq!(
            (owner.pid, &*owner.function),
            (0, "prepared transaction sale-7")
        );
        let taken = pool.force_release("k").await.map(drop);
        let text = taken.expect_err("it stays").to_string();
        assert!(text.contains("ROLLBACK PREPARED"), "{text}");
        let end = "ROLLBACK PREPARED 'sale-7'";
        clients[0].batch_execute(end).await.expect("it may");
        works(&pool, "k").await;
    }
}

/// A lease has ended without a release, as after the death of its holder, but a transaction still
/// pins the lock. Fails if this pin is missing in `inspect`, in `check`, or in the error of a
/// refused call.
#[tokio::test]
async fn a_pin_of_an_ended_lease_is_shown() {
    let (database, pool) = fresh().await;
    let other = patient(&database).await;
    let guard = pool.lock("k").ttl(SHORT).acquire().await.expect("free");
    let client = verified(&database, &guard, "").await;
    wait::within("the lease ends", LONG, guard.lost()).await;
    let lock = pinned(&other).await;
    let owner = lock.holders[0].owner.as_ref().expect("its session");
    assert_eq!(owner.pid, pid(&client).await, "{owner}");
    assert_eq!(listed(&other).await, ["k"]);
    let refused = refusal(&other).await;
    let holder = refused.holder().expect("the session");
    assert_eq!(holder.pid, pid(&client).await, "{refused}");
    let report = other.check().await.expect("it answers");
    assert!(report.find("pinned").is_some(), "{report}");
    client.batch_execute("COMMIT").await.expect("it ends");
    works(&other, "k").await;
}

/// Fails if a pin is not shown after the lock was reserved for a waiting process. This process
/// cannot take the lock before the pin ends.
#[tokio::test]
async fn a_pin_of_a_handed_over_lock_is_shown() {
    let (database, pool) = fresh().await;
    let other = patient(&database).await;
    let guard = take(&pool, "k").await;
    let waiting = tokio::spawn(other.lock("k").ttl(TTL).wait(SHORT).acquire());
    let queues = async || {
        !pool
            .inspect("k")
            .await
            .expect("it answers")
            .waiting
            .is_empty()
    };
    wait::within("it queues", LONG, async { while !queues().await {} }).await;
    let client = verified(&database, &guard, "").await;
    guard.release().await.expect("still held");
    let lock = pinned(&pool).await;
    let owner = lock.holders[0].owner.as_ref().expect("its session");
    assert_eq!(owner.pid, pid(&client).await, "{owner}");
    let refused = waiting.await.expect("no panic").map(drop);
    let refused = refused.expect_err("it is pinned");
    let holder = refused.holder().expect("the session");
    assert_eq!(holder.pid, pid(&client).await, "{refused}");
    client.batch_execute("COMMIT").await.expect("it ends");
    works(&other, "k").await;
}

/// A call of a pool has locked the same row as a pin. Fails if `inspect` shows the session of the
/// pool instead of the session of the pin.
#[tokio::test]
async fn a_pin_beside_a_call_of_a_pool_is_shown() {
    const CALL: &str = "SET application_name = 'leasehold:other:1'; BEGIN; \
                        SELECT FROM leasehold.locks FOR KEY SHARE";
    let (database, pool) = fresh().await;
    for is_first in [true, false] {
        let guard = take(&pool, "k").await;
        let call = database.client().await;
        if is_first {
            call.batch_execute(CALL).await.expect("it may");
        }
        let client = verified(&database, &guard, "").await;
        if !is_first {
            call.batch_execute(CALL).await.expect("it may");
        }
        guard.release().await.expect("still held");
        let lock = pinned(&pool).await;
        let owner = lock.holders[0].owner.as_ref().expect("its session");
        assert_eq!(owner.pid, pid(&client).await, "{owner}");
        for ended in [call, client] {
            ended.batch_execute("COMMIT").await.expect("it ends");
        }
        works(&pool, "k").await;
    }
}

/// Fails if a held lock is shown as pinned because a transaction of its holder has verified it.
#[tokio::test]
async fn a_transaction_of_the_holder_is_not_shown_as_a_pin() {
    let (database, pool) = fresh().await;
    let guard = take(&pool, "k").await;
    let client = database.client().await;
    let verify = format!(
        "BEGIN; SELECT leasehold.verify('{}', {})",
        guard.full_key(),
        fence(&guard)
    );
    client.batch_execute(&verify).await.expect("it holds it");
    let lock = pool.inspect("k").await.expect("it answers");
    assert_eq!(
        (lock.state, lock.fence),
        (LockState::Exclusive, guard.fence())
    );
    let report = pool.check().await.expect("it answers");
    assert!(report.find("pinned").is_none(), "{report}");
    client.batch_execute("COMMIT").await.expect("it ends");
    guard.release().await.expect("still held");
}
