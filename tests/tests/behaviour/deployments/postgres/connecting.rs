//! Tests of the tables, the rights, the URL, and the findings of `check`.

use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use leasehold::postgres::SCHEMA;
use leasehold::{LockError, LockPool, Replicas, distributed_lock};
use leasehold_tests::postgres::{Database, Postgres, WITH_PASSWORD};
use leasehold_tests::wait;
use tokio::task::JoinSet;

use super::{LONG, TTL, patient, works};

/// The documentation page on PostgreSQL, which lists the rights that a role needs.
const RIGHTS: &str = include_str!("../../../../../docs/stores/postgres.md");

#[distributed_lock(key = "recorded", ttl = "20s", replay = "1h", pool = pool)]
async fn recorded(pool: &LockPool) -> Result<u32, LockError> {
    Ok(7)
}

/// Connects with a long timeout, because password authentication takes long in an unoptimized
/// build.
async fn try_connect(url: &str) -> Result<LockPool, LockError> {
    let pool = LockPool::builder().url(url).io_timeout(LONG);
    pool.connect().await
}

async fn refusal(url: &str) -> LockError {
    try_connect(url).await.map(drop).expect_err(url)
}

fn code(error: &LockError) -> &'static str {
    match error {
        LockError::Unavailable { source } => source.code(),
        other => panic!("{other}"),
    }
}

/// Returns the SQL from the documentation page, with this name of the role.
fn grants(role: &str) -> String {
    let (_, rest) = RIGHTS.split_once("```sql\nGRANT").expect("the rights");
    let (grants, _) = rest.split_once("```").expect("the end of the rights");
    format!(
        "GRANT{}",
        grants.replace(" TO locks", &format!(" TO {role}"))
    )
}

/// Fails if missing tables are reported only by the first lock.
#[tokio::test]
async fn a_database_without_tables_is_reported_at_connect() {
    let database = Postgres::shared().database();
    let error = refusal(&database.url()).await;
    assert!(matches!(error, LockError::Config { .. }), "{error}");
    assert!(error.to_string().contains("?migrate=1"), "{error}");
    let client = database.client().await;
    client.batch_execute(SCHEMA).await.expect("a migration");
    let pool = try_connect(&database.url()).await;
    let pool = pool.expect("the tables are there");
    works(&pool, "migrated").await;

    let drop = "DROP SCHEMA leasehold CASCADE";
    client.batch_execute(drop).await.expect("an owner may");
    let error = pool.lock("gone").ttl(TTL).acquire().await;
    let error = error.map(std::mem::drop).expect_err("no table");
    assert!(error.is_unavailable(), "{error}");
    assert!(error.to_string().contains("?migrate=1"), "{error}");
    let report = pool.check().await.expect("the server answers");
    assert!(
        !report.is_ready() && report.find("schema").is_some(),
        "{report}"
    );
}

/// Fails if a pool waits longer than its limit for a port that accepts connections and never
/// answers.
#[tokio::test]
async fn migrating_a_silent_server_times_out() {
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let port = silent.local_addr().expect("it listens").port();
    let url = format!("postgres://locks@127.0.0.1:{port}/locks?migrate=1");
    let pool = LockPool::builder().url(url).io_timeout(TTL / 100);
    // This limit is below the 30 s that a migration may take, because the connection must time out
    // before a migration begins.
    let connected = wait::within("a refusal", Duration::from_secs(15), pool.connect()).await;
    assert_eq!(
        code(&connected.map(drop).expect_err("it is silent")),
        "timeout"
    );
}

/// Fails if the documented rights are not enough on a server where `PUBLIC` may not execute
/// functions.
#[tokio::test]
async fn the_documented_rights_suffice_without_public_rights() {
    let (database, _pool) = super::fresh().await;
    let owner = database.client().await;
    let revoke = "REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA leasehold FROM PUBLIC";
    owner.batch_execute(revoke).await.expect("an owner may");
    let role = format!("CREATE ROLE strict LOGIN; {}", grants("strict"));
    owner.batch_execute(&role).await.expect("an owner may");
    let pool = try_connect(&database.url_of("strict"))
        .await
        .expect("it may");
    works(&pool, "strict").await;
    assert_eq!(recorded(&pool).await.expect("it may"), 7);
    let guard = super::take(&pool, "verified").await;
    let (client, key) = (database.client().await, guard.full_key().to_owned());
    client
        .batch_execute("SET ROLE strict")
        .await
        .expect("it may");
    for function in ["verify", "guard"] {
        let fence = super::verifying::fence(&guard);
        let sql = format!("SELECT leasehold.{function}('{key}', {fence})");
        client.batch_execute(&sql).await.expect("it may");
    }
    let report = pool.check().await.expect("it answers");
    assert!(report.is_ready(), "{report}");
}

/// Fails if several processes cannot create the tables at the same time.
#[tokio::test]
async fn processes_can_migrate_concurrently() {
    let database = Postgres::shared().database();
    let mut pools = JoinSet::new();
    for _ in 0..12 {
        let pool = LockPool::builder().url(database.migrating_url());
        pools.spawn(pool.io_timeout(LONG).connect());
    }
    while let Some(pool) = pools.join_next().await {
        let pool = pool
            .expect("no panic")
            .unwrap_or_else(|error| panic!("{error}"));
        works(&pool, "migrated").await;
    }
}

/// Fails if the pool uses tables of an earlier version, or refuses tables of a later version.
#[tokio::test]
async fn only_older_tables_are_refused() {
    let (database, _pool) = super::fresh().await;
    let client = database.client().await;
    for (version, fits) in [(0, false), (1, true), (2, true)] {
        let set = format!("UPDATE leasehold.meta SET version = {version}");
        client.batch_execute(&set).await.expect("an owner may");
        let connected = try_connect(&database.url()).await;
        match connected {
            Ok(_) => assert!(fits, "{version}"),
            Err(LockError::Config { reason }) => assert!(!fits, "{version}: {reason}"),
            Err(error) => panic!("{version}: {error}"),
        }
    }
}

/// Fails if a password is shown, or if a wrong login is reported with a wrong code. Also fails if
/// the documented rights are not enough, or if a missing right is not reported.
#[tokio::test]
async fn passwords() {
    let (database, _pool) = super::fresh().await;
    let owner = database.client().await;
    let role = format!(
        "CREATE ROLE {WITH_PASSWORD} LOGIN PASSWORD 'hunter2'; {}",
        grants(WITH_PASSWORD)
    );
    owner.batch_execute(&role).await.expect("an owner may");
    let wrong = refusal(&database.url_of(&format!("{WITH_PASSWORD}:Hunter3"))).await;
    assert_eq!(code(&wrong), "28P01", "{wrong}");
    assert!(!wrong.to_string().contains("Hunter3"), "{wrong}");
    let none = refusal(&database.url_of(WITH_PASSWORD)).await;
    assert!(none.is_unavailable(), "{none}");
    let unknown = refusal(&database.url_of("nobody")).await;
    assert_eq!(code(&unknown), "28000", "{unknown}");

    // The documented rights are enough for every kind of lock, and for `check`.
    let right = database.url_of(&format!("{WITH_PASSWORD}:hunter2"));
    let pool = try_connect(&right).await.expect("it is right");
    assert!(!format!("{pool:?}").contains("hunter2"), "{pool:?}");
    works(&pool, "allowed").await;
    let readers = pool.lock("read").ttl(TTL).shared().acquire().await;
    drop(readers.expect("free"));
    let all = pool.lock_all(["a", "b"]).ttl(TTL).acquire().await;
    drop(all.expect("free"));
    for _ in 0..2 {
        assert_eq!(recorded(&pool).await, Ok(7));
    }
    let held = pool.lock("held").ttl(TTL).acquire().await.expect("free");
    let seen = pool.inspect("held").await.expect("it may look");
    assert_eq!(seen.holders.len(), 1, "{seen:?}");
    let was = pool.force_release("held").await.expect("it may");
    assert!(was.is_some());
    drop(held);
    let report = pool.check().await.expect("the server answers");
    assert!(report.is_ready(), "{report}");

    let revoke = format!("REVOKE UPDATE ON leasehold.locks FROM {WITH_PASSWORD}");
    owner.batch_execute(&revoke).await.expect("an owner may");
    let report = pool.check().await.expect("the server answers");
    assert!(report.find("permission").is_some(), "{report}");
    let refused = pool.lock("denied").ttl(TTL).acquire().await;
    let refused = refused.map(drop).expect_err("it may not");
    assert_eq!(code(&refused), "42501", "{refused}");
}

/// Fails if an unsupported option is ignored, or if a server or database that cannot be used is not
/// reported.
#[tokio::test]
async fn unsupported_features_are_refused() {
    let database = Postgres::shared().database();
    let plain = database.url();
    for option in ["sslmode=strict", "pooler=yes", "replicas=1", "migrate=yes"] {
        let error = refusal(&format!("{plain}?{option}")).await;
        assert!(
            matches!(error, LockError::Config { .. }),
            "{option}: {error}"
        );
    }
    let replicas = LockPool::builder().url(database.url()).io_timeout(LONG);
    let replicas = replicas.replicas(Replicas::AtLeast(1)).connect().await;
    let error = replicas.map(drop).expect_err("replicas are of Redis");
    assert!(
        error.to_string().contains("synchronous_standby_names"),
        "{error}"
    );

    let closed = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = closed.local_addr().expect("it is bound");
    drop(closed);
    let nobody = format!("postgres://u:hunter2@{address}/d");
    let error = refusal(&nobody).await;
    assert!(error.is_unavailable(), "{error}");
    assert!(!error.to_string().contains("hunter2"), "{error}");
    let error = refusal(&plain.replace("/test_", "/none_")).await;
    assert_eq!(code(&error), "3D000", "{error}");
    let create = "CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0";
    let client = database.client().await;
    client.batch_execute(create).await.expect("an owner may");
    let (server, _) = plain.rsplit_once('/').expect("a database");
    let error = refusal(&format!("{server}/latin?migrate=1")).await;
    assert!(error.to_string().contains("UTF8"), "{error}");
}

/// Fails if the store's SQL functions depend on default settings of the role.
#[tokio::test]
async fn defaults_of_the_role_have_no_effect() {
    let (database, _pool) = super::fresh().await;
    let client = database.client().await;
    let role = "CREATE ROLE strange LOGIN;
        ALTER ROLE strange SET default_transaction_isolation = 'serializable';
        ALTER ROLE strange SET default_transaction_read_only = 'on';
        ALTER ROLE strange SET statement_timeout = '1ms';
        ALTER ROLE strange SET search_path = 'nowhere'";
    client.batch_execute(role).await.expect("an owner may");
    client
        .batch_execute(&grants("strange"))
        .await
        .expect("an owner may");
    let mut pools = Vec::new();
    for _ in 0..3 {
        let pool = try_connect(&database.url_of("strange")).await;
        pools.push(pool.expect("its defaults do not matter"));
    }
    let mut tasks = JoinSet::new();
    for pool in pools {
        for _ in 0..4 {
            let pool = pool.clone();
            tasks.spawn(async move {
                for _ in 0..30 {
                    works(&pool, "contended").await;
                }
            });
        }
    }
    while let Some(task) = tasks.join_next().await {
        task.expect("every call is served");
    }
}

/// Fails if the server cannot be reached through a Unix socket.
#[tokio::test]
async fn a_unix_socket_can_be_used() {
    let database = Postgres::shared().migrated();
    let pool = try_connect(&database.socket_url()).await;
    let pool = pool.expect("the server listens there");
    works(&pool, "socket").await;
}

/// Fails if `check` has findings about a good server, or none about an unlogged table, which the
/// server empties after a crash.
#[tokio::test]
async fn checks() {
    let server = Postgres::durable();
    let database: Database = server.migrated();
    let pool = patient(&database).await;
    let report = pool.check().await.expect("the server answers");
    assert!(report.findings.is_empty(), "{report}");
    assert!(!report.store.contains('@'), "{report}");
    let client = database.client().await;
    let unlogged = "ALTER TABLE leasehold.locks SET UNLOGGED";
    client.batch_execute(unlogged).await.expect("an owner may");
    let report = pool.check().await.expect("the server answers");
    assert!(
        report.is_ready() && report.find("persistence").is_some(),
        "{report}"
    );
    drop(server);
    let gone = wait::within(
        "it gives up",
        Duration::from_secs(30),
        Box::pin(pool.check()),
    )
    .await;
    let error = gone.expect_err("there is no server");
    assert!(error.is_unavailable(), "{error}");
}
