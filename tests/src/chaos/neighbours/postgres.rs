//! Scenes on PostgreSQL: roles with few rights, locked rows and tables, and changed settings of the
//! pool's role.

use std::thread::sleep;
use std::time::{Duration, Instant};

use leasehold::{Fence, LockPool};
use tokio_postgres::{Client, NoTls};

use super::tenants::{LONG_FOR_A_LEASE, TTL, Tenants};
use super::{Scene, crowd};
use crate::chaos::ground::Ground;
use crate::chaos::sheet::Sheet;
use crate::pipe::Pipe;
use crate::postgres::{Database, Postgres};

pub(super) const SCENES: &[Scene] = &[
    ("some rows are locked", row),
    ("the table is locked for a moment", table),
    ("a role with CONNECT has advisory locks", advisory_locks),
    ("a role with CONNECT has the lock of migrations", migration),
    ("a role with USAGE has a high fence", high_fence),
    ("the role of the pool has other settings", settings),
    ("keys are as long as they may be", long_keys),
    (crowd::SCENE, crowd),
];

const TENANTS: usize = 20;
/// Statements that take the advisory locks of earlier versions of leasehold: for removing unused
/// rows, and for creating the tables. The present version uses no advisory locks.
const SWEEPING: &str = "SELECT pg_try_advisory_lock(1818583923, 1)";
const MIGRATING: &str = "SELECT pg_try_advisory_lock(1818583923, 2)";
/// A statement that waits for the advisory locks of all other sessions. It finds these locks in
/// `pg_locks`, which any role can read.
const ALL: &str = "SELECT pg_advisory_lock((classid::bigint << 32 >> 32)::int, (objid::bigint - CASE WHEN objid::bigint > 2147483647 THEN 4294967296 ELSE 0 END)::int) FROM pg_locks JOIN pg_database d ON d.oid = database WHERE locktype = 'advisory' AND objsubid = 2 AND d.datname = current_database() AND pid <> pg_backend_pid()";
const END_POOLS: &str = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'leasehold:%' AND datname = current_database()";
/// Settings that would refuse or end every request if leasehold's sessions did not set their own
/// values.
const SETTINGS: &[&str] = &[
    "statement_timeout = '1ms'",
    "lock_timeout = '1ms'",
    "default_transaction_isolation = 'serializable'",
    "default_transaction_read_only = on",
    "default_transaction_deferrable = on",
    "idle_in_transaction_session_timeout = '1ms'",
    "search_path = 'nowhere'",
    "bytea_output = 'escape'",
    "datestyle = 'German'",
    "intervalstyle = 'sql_standard'",
    "timezone = 'Asia/Kathmandu'",
    "standard_conforming_strings = off",
    "transform_null_equals = on",
    "extra_float_digits = -15",
    "client_min_messages = 'debug5'",
    "row_security = off",
];

/// A server, and the leases that must last on it.
struct House {
    database: Database,
    tenants: Tenants,
    server: Postgres,
}

impl House {
    fn open(many: usize) -> Self {
        let server = Postgres::start();
        let database = server.migrated();
        let tenants = Tenants::move_in(&database.url(), many);
        Self {
            database,
            tenants,
            server,
        }
    }

    /// Connects a client with the role of the database's owner.
    fn owner(&self) -> Client {
        self.tenants.runtime.block_on(self.database.client())
    }

    /// Creates a role without any grant, and connects a client with this role.
    fn stranger(&self) -> Client {
        self.run(&self.owner(), "CREATE ROLE stranger LOGIN");
        self.tenants.runtime.block_on(client(&self.database))
    }

    fn run(&self, client: &Client, sql: &str) {
        let done = self.tenants.runtime.block_on(client.batch_execute(sql));
        done.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    }
}

async fn client(database: &Database) -> Client {
    let connected = tokio_postgres::connect(&database.url_of("stranger"), NoTls).await;
    let (client, connection) = connected.expect("any role may connect");
    tokio::spawn(connection);
    client
}

/// Locks the rows of some leases, so that their renewals fail. The pool repeats these renewals
/// often, in one request with the renewals of the other leases. The other leases must last.
fn row(_ground: &Ground, sheet: &Sheet) {
    const SCENE: &str = "some rows are locked";
    let house = House::open(TENANTS);
    let psql = house.owner();
    let attacked = (0..5).map(|number| {
        let often = house.tenants.pool.lock(format!("attacked-{number}"));
        let often = often.ttl(TTL * 10).watchdog_every(TTL / 10);
        house.tenants.runtime.block_on(often.acquire())
    });
    let attacked: Vec<_> = attacked.collect();
    house.run(
        &psql,
        "BEGIN; SELECT FROM leasehold.locks WHERE key LIKE 'lock:attacked-%' FOR UPDATE",
    );
    sleep(LONG_FOR_A_LEASE);
    house.tenants.last(sheet, SCENE);
    house.tenants.turn(sheet, SCENE, "turn");
    house.run(&psql, "ROLLBACK");
    drop(attacked);
}

/// Locks the table for 0.3 of a ttl. No lease may be lost, because leasehold promises that a lease
/// survives an outage of 0.4 of its ttl.
fn table(_ground: &Ground, sheet: &Sheet) {
    const SCENE: &str = "the table is locked for a moment";
    let house = House::open(TENANTS);
    let psql = house.owner();
    for mode in ["SHARE", "ACCESS EXCLUSIVE"] {
        let lock = format!("BEGIN; LOCK TABLE leasehold.locks IN {mode} MODE");
        house.run(&psql, &lock);
        sleep(TTL * 3 / 10);
        house.run(&psql, "ROLLBACK");
        sleep(TTL);
    }
    house.tenants.last(sheet, SCENE);
}

fn advisory_locks(_ground: &Ground, sheet: &Sheet) {
    const SCENE: &str = "a role with CONNECT has advisory locks";
    let house = House::open(TENANTS);
    let owner = house.owner();
    let stranger = house.stranger();
    house.run(&stranger, SWEEPING);
    // This client requests all advisory locks of other sessions. If a pool's session had such a
    // lock, this client would get it when the pool's session is ended below. The pool could then
    // not take the lock again.
    let waits = house.tenants.runtime.block_on(client(&house.database));
    let waits = house.tenants.runtime.spawn(async move {
        // The statement waits for the lock of `stranger` until the server ends, so its result is
        // ignored.
        let _ = waits.batch_execute(ALL).await;
    });
    sleep(TTL / 4);
    house.run(&owner, END_POOLS);
    sleep(LONG_FOR_A_LEASE);
    house.tenants.last(sheet, SCENE);
    house.tenants.turn(sheet, SCENE, "turn");
    let sweep = "SELECT leasehold.sweep(interval '0 seconds')";
    let swept = house.tenants.runtime.block_on(async {
        let row = owner.query_one(sweep, &[]).await.expect("an owner may");
        row.get::<_, i32>(0)
    });
    sheet.check(swept > 0, || format!("{SCENE}: no idle row is swept"));
    waits.abort();
}

fn migration(_ground: &Ground, sheet: &Sheet) {
    const SCENE: &str = "a role with CONNECT has the lock of migrations";
    let house = House::open(0);
    sheet.faults(SCENE, 1);
    drop(house.stranger());
    let empty = house.server.database();
    let made = house.tenants.runtime.block_on(async {
        let stranger = client(&empty).await;
        stranger
            .batch_execute(MIGRATING)
            .await
            .expect("any role may");
        let connects = LockPool::builder().url(empty.migrating_url()).connect();
        tokio::time::timeout(Duration::from_secs(10), connects).await
    });
    sheet.check(matches!(made, Ok(Ok(_))), || {
        format!("{SCENE}: the tables are not made")
    });
}

fn high_fence(_ground: &Ground, sheet: &Sheet) {
    const SCENE: &str = "a role with USAGE has a high fence";
    let house = House::open(1);
    let stranger = house.stranger();
    let owner = house.owner();
    house.run(&owner, "GRANT USAGE ON SCHEMA leasehold TO stranger");
    let guard = house.tenants.take("guarded", TTL);
    let fence = guard.fence().map_or(0, Fence::as_i64);
    for high in [i64::MAX, fence + 10_i64.pow(15)] {
        // The stranger calls `guard` with a fence far above the holder's fence. The server may
        // refuse the high fence, and must not store it. So it must still accept the holder's own
        // fence.
        let sql = format!("SELECT leasehold.guard('lock:guarded', {high})");
        let _ = house.tenants.runtime.block_on(stranger.batch_execute(&sql));
        let sql = format!("SELECT leasehold.guard('lock:guarded', {fence})");
        let let_in = house.tenants.runtime.block_on(owner.batch_execute(&sql));
        sheet.check(let_in.is_ok(), || {
            format!("{SCENE}: after {high} the holder is refused: {let_in:?}")
        });
    }
    house.tenants.last(sheet, SCENE);
}

/// Changes the settings of the pool's role. A setting takes effect with the role's next connection.
fn settings(_ground: &Ground, sheet: &Sheet) {
    let house = House::open(TENANTS);
    // The settings do not affect the owner's session, because it began earlier.
    let owner = house.owner();
    for setting in SETTINGS {
        let scene = format!("the role of the pool has {setting}");
        let set = format!("ALTER ROLE leasehold SET {setting}");
        house.run(&owner, &set);
        house.run(&owner, END_POOLS);
        // `turn` takes a lock, which needs the pool's new connection. So the setting is in effect
        // afterwards.
        let began = Instant::now();
        house.tenants.turn(sheet, &scene, "turn");
        sleep((TTL / 2).saturating_sub(began.elapsed()));
        house.tenants.last(sheet, &scene);
        house.run(&owner, "ALTER ROLE leasehold RESET ALL");
    }
    sleep(TTL);
    house
        .tenants
        .last(sheet, "the role of the pool has other settings");
}

/// Uses keys of about 512 bytes, the greatest allowed length. Such a key must fit into a
/// notification of the server, which has less than 8,000 bytes.
fn long_keys(_ground: &Ground, sheet: &Sheet) {
    const SCENE: &str = "keys are as long as they may be";
    let house = House::open(1);
    for letter in ["k", "\u{20ac}", "'", "\\", "\u{1f512}"] {
        let key = letter.repeat(512 / letter.len());
        house.tenants.turn(sheet, SCENE, &key);
    }
    house.tenants.last(sheet, SCENE);
}

fn crowd(ground: &Ground, sheet: &Sheet) {
    let server = Postgres::start();
    let database = server.migrated();
    let url = |pipe: &Pipe| database.url_over(pipe.address());
    crowd::is_cut(
        sheet,
        database.address(),
        url,
        &database.url(),
        ground.count(2_000, 400),
    );
}
