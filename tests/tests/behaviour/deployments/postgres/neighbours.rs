//! Tests that roles with few rights in the database of the locks cannot block, forge or release a
//! lock.

use std::time::{SystemTime, UNIX_EPOCH};

use leasehold::postgres::STALE_FENCE;
use leasehold::{Fence, LockPool};
use leasehold_tests::postgres::{Database, Postgres};
use leasehold_tests::proxy::Proxy;
use leasehold_tests::wait;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error};

use super::beacons::{cut_off, prolong};
use super::{LONG, TTL, fresh, take, works};

/// Error code for a fence that is far ahead of the server's clock.
const OUT_OF_RANGE: &str = "22023";

const HOUR: i64 = 3_600_000_000;

/// Statements on leasehold's tables, and a call of each function that pools call.
const FOREIGN: [&str; 13] = [
    "SELECT FROM leasehold.meta FOR UPDATE",
    "LOCK TABLE leasehold.locks; SELECT 1",
    "SELECT leasehold.light(gen_random_uuid())",
    "SELECT leasehold.take(gen_random_uuid(), '{acquire}', '{a}', ARRAY[gen_random_uuid()], '{9}', '{0}', '{true}', '{f}')",
    "SELECT leasehold.take_all(gen_random_uuid(), '{a}', ARRAY[gen_random_uuid()], 9, 'f')",
    "SELECT leasehold.give(gen_random_uuid(), '{release}', '{a}', ARRAY[gen_random_uuid()], '{NULL}')",
    "SELECT leasehold.sweep()",
    "SELECT leasehold.look('{a}')",
    "SELECT leasehold.take_away('a')",
    "SELECT leasehold.recall(gen_random_uuid(), 'a', gen_random_uuid(), 9, true, 'f', 'f')",
    "SELECT leasehold.record('a', gen_random_uuid(), NULL, '{}', 9, 'f')",
    "SELECT leasehold.forget('a')",
    "SELECT leasehold.adopt(gen_random_uuid(), 'a', gen_random_uuid(), gen_random_uuid(), 9, 'f')",
];

/// Returns a session of a new role with these rights. `<role>` stands for the role's name.
async fn neighbour(database: &Database, rights: &str) -> Client {
    let client = database.client().await;
    let name = "SELECT current_database()::text";
    let name: String = client.query_one(name, &[]).await.expect("a name").get(0);
    let role = format!("neighbour_{name}");
    let rights = rights.replace("<role>", &role);
    let make = format!("CREATE ROLE {role} LOGIN; {rights}");
    client.batch_execute(&make).await.expect("an owner may");
    let url = database.url_of(&role);
    let connected = tokio_postgres::connect(&url, tokio_postgres::NoTls).await;
    let (client, connection) = connected.expect("it may connect");
    tokio::spawn(connection);
    client
}

fn code(ended: Result<(), Error>) -> String {
    let error = ended.expect_err("it is refused");
    error.code().map_or("", SqlState::code).to_owned()
}

/// Takes each advisory lock of other sessions that can be shared, and the advisory locks that
/// earlier versions of leasehold used.
async fn take_advisory_locks(neighbour: &Client) {
    let seen = "SELECT pg_try_advisory_lock_shared(((l.classid::bigint << 32) | l.objid::bigint)) \
        FROM pg_locks l WHERE l.locktype = 'advisory' AND l.objsubid = 1";
    let pairs = "SELECT pg_try_advisory_lock_shared(l.classid::integer, l.objid::integer) \
        FROM pg_locks l WHERE l.locktype = 'advisory' AND l.objsubid = 2 AND l.objid < 2147483648";
    let known = "SELECT pg_advisory_lock(1818583923, 1), pg_advisory_lock(1818583923, 2)";
    for take in [seen, pairs, known] {
        neighbour.batch_execute(take).await.expect("anyone may");
    }
}

/// Fails if a role with only the right to connect delays the removal of idle rows, a migration, or
/// a new session of a pool (which writes a row, its beacon).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_with_only_connect_delays_nothing() {
    let empty = Postgres::shared().database();
    let hostile = neighbour(&empty, "").await;
    take_advisory_locks(&hostile).await;
    let migrating = LockPool::builder().url(empty.migrating_url());
    let migrated = migrating.io_timeout(LONG).connect().await;
    works(&migrated.expect("nothing holds it up"), "migrated").await;

    let (database, operator) = fresh().await;
    let hostile = neighbour(&database, "").await;
    let proxy = Proxy::start_postgres(database.address());
    let url = database.url_over(proxy.address());
    let holder = wait::connected(LockPool::builder().url(url).io_timeout(LONG)).await;
    let held = take(&holder, "cut").await;
    take_advisory_locks(&hostile).await;
    for statement in FOREIGN {
        let refused = code(hostile.batch_execute(statement).await);
        assert_eq!(refused, "42501", "{statement}");
    }
    cut_off(&database, &proxy, 1).await;
    take_advisory_locks(&hostile).await;
    let was = operator.force_release("cut").await.expect("it answers");
    assert!(was.is_some(), "it was held");
    prolong(&database.probe("lock:"));
    let next = operator.lock("cut").ttl(TTL).acquire().await;
    let next = next.expect("free at once: its holder's session has ended");
    proxy.pass();
    let error = held.release().await.expect_err("it was taken away");
    assert!(error.is_lost(), "{error}");
    works(&holder, "back").await;
    next.release().await.expect("still held");

    let swept = "SELECT leasehold.sweep('0 s')";
    let client = database.client().await;
    let swept: i32 = client.query_one(swept, &[]).await.expect("a sweep").get(0);
    assert!(0 < swept, "it removes idle rows");
    let beacons = "SELECT count(*) FROM leasehold.beacons";
    let beacons: i64 = client.query_one(beacons, &[]).await.expect("rows").get(0);
    assert_eq!(beacons, 2, "those of ended sessions are removed");
}

/// Fails if the beacon of an ended session still counts because a session of another role now has
/// the same pid.
#[tokio::test]
async fn a_session_of_another_role_does_not_keep_a_beacon_lit() {
    let (database, _pool) = fresh().await;
    // Like the pool's role, this role may not read the start times of other roles' sessions.
    let rights =
        "GRANT USAGE ON SCHEMA leasehold TO <role>; GRANT SELECT ON leasehold.beacons TO <role>";
    let role = neighbour(&database, rights).await;
    let owner = database.client().await;
    let pid = "SELECT pg_backend_pid()";
    let pid: i32 = owner.query_one(pid, &[]).await.expect("a pid").get(0);
    for (session, dark) in [("leasehold", false), ("pg_monitor", true)] {
        let put = format!(
            "DELETE FROM leasehold.beacons WHERE pid = {pid};
             INSERT INTO leasehold.beacons (process, pid, role, began, lit_at)
               VALUES ('00000000-0000-0000-0000-000000000001', {pid}, '{session}'::regrole, 'epoch', 'epoch')"
        );
        owner.batch_execute(&put).await.expect("an owner may");
        let look = "SELECT leasehold._is_dark('00000000-0000-0000-0000-000000000001')";
        let is_dark: bool = role.query_one(look, &[]).await.expect("it may").get(0);
        assert_eq!(is_dark, dark, "{session}");
    }
}

fn micros() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    i64::try_from(now.expect("after 1970").as_micros()).expect("a fence fits a bigint")
}

/// Fails if a role with USAGE can block a key for longer than an hour, or can call the functions of
/// a pool.
#[tokio::test]
async fn a_role_with_usage_blocks_no_key() {
    let (database, pool) = fresh().await;
    let rights = "GRANT USAGE ON SCHEMA leasehold TO <role>";
    let hostile = neighbour(&database, rights).await;
    for statement in FOREIGN {
        let refused = code(hostile.batch_execute(statement).await);
        assert_eq!(refused, "42501", "{statement}");
    }
    let client = database.client().await;
    let guard = async |client: &Client, key: &str, fence: i64| {
        let guard = "SELECT leasehold.guard($1, $2)";
        client.query(guard, &[&key, &fence]).await.map(drop)
    };
    let lock = take(&pool, "spoilt").await;
    let fence = lock.fence().map(Fence::as_i64).expect("a fence");
    for ahead in [i64::MAX, micros() + HOUR + HOUR / 60] {
        let refused = code(guard(&hostile, "lock:spoilt", ahead).await);
        assert_eq!(refused, OUT_OF_RANGE, "{ahead}");
    }
    let held = guard(&client, "lock:spoilt", fence).await;
    held.expect("the fence of a held lock");
    // A fence up to an hour ahead of the clock is accepted. After that, `guard` refuses the fences
    // of holders until the clock has passed the accepted fence.
    let ahead = guard(&hostile, "lock:spoilt", micros() + HOUR / 2).await;
    ahead.expect("as far as clocks may differ");
    assert_eq!(
        code(guard(&client, "lock:spoilt", fence).await),
        STALE_FENCE
    );
    lock.release().await.expect("still held");
}
