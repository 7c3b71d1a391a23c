//! Tests of `LockPool::check`: the report on the lock store for a readiness probe.

use std::time::Duration;

use ::redis::cmd;
use leasehold::{CheckReport, LockError, LockPool, Severity};
use leasehold_tests::server::{Server, ServerOptions};
use leasehold_tests::stores::{NO_OUTAGE, Store};
use leasehold_tests::{on_stores, wait};

const CANARY: &str = "canary-hunter2";

async fn connect(url: &str) -> LockPool {
    wait::connected(LockPool::builder().url(url).io_timeout(NO_OUTAGE)).await
}

async fn check(url: &str) -> CheckReport {
    let pool = connect(url).await;
    let report = pool.check().await;
    report.unwrap_or_else(|error| panic!("{error}"))
}

#[track_caller]
fn expect(report: &CheckReport, code: &str, severity: Severity, expected: &[&str]) {
    let found = report.find(code);
    let found = found.unwrap_or_else(|| panic!("no {code} in {report}"));
    assert_eq!(found.severity, severity, "{report}");
    for fragment in expected {
        assert!(found.text.contains(fragment), "no {fragment:?} in {found}");
    }
    assert_eq!(report.is_ready(), severity == Severity::Warning, "{report}");
    assert!(!report.to_string().contains(CANARY), "{report}");
}

/// Fails if a correctly configured server has findings.
#[tokio::test]
async fn a_sound_server_has_no_findings() {
    let server = ServerOptions::new()
        .append_only()
        .password(CANARY)
        .max_memory(100_000_000)
        .start();
    let report = check(&server.url()).await;
    assert_eq!(report.findings, [], "{report}");
    assert!(report.is_ready());
    assert!(!format!("{report} {report:?}").contains(CANARY), "{report}");
    assert_eq!(
        server.probe().keys("*check*").len(),
        0,
        "the trial left a key"
    );
}

#[tokio::test]
async fn an_evicting_policy_is_reported() {
    let options = || ServerOptions::new().option("maxmemory", &["100mb"]);
    for policy in ["allkeys-lru", "volatile-ttl", "volatile-random"] {
        let server = options().option("maxmemory-policy", &[policy]).start();
        let report = check(&server.url()).await;
        expect(
            &report,
            "eviction",
            Severity::Warning,
            &[policy, "noeviction"],
        );
    }
}

async fn missing_persistence_is_reported(store: &Store) {
    let report = check(&store.url).await;
    expect(&report, "persistence", Severity::Warning, &["appendonly"]);
}

on_stores!(redis sentinel cluster redlock: (missing_persistence_is_reported));

#[tokio::test]
async fn a_full_server_is_reported() {
    let server = ServerOptions::new().max_memory(100_000_000).start();
    let pool = connect(&server.url()).await;
    let mut full = cmd("CONFIG");
    server
        .probe()
        .run::<()>(full.arg("SET").arg("maxmemory").arg("1"));
    let report = pool.check().await.expect("it answers");
    expect(&report, "OOM", Severity::Error, &["maxmemory"]);
}

/// Fails if the server's role (master or replica) is checked only when the pool connects.
#[tokio::test]
async fn a_demoted_master_is_reported() {
    let other = Server::start();
    let server = Server::start();
    let pool = connect(&server.url()).await;
    assert!(pool.check().await.expect("it answers").is_ready());
    let mut follow = cmd("REPLICAOF");
    follow.arg("127.0.0.1").arg(other.port());
    server.probe().run::<()>(&follow);
    let report = pool.check().await.expect("it answers");
    expect(
        &report,
        "role",
        Severity::Error,
        &["replica", "redis-sentinel://"],
    );
}

#[tokio::test]
async fn a_cluster_node_is_reported() {
    let server = ServerOptions::new()
        .option("cluster-enabled", &["yes"])
        .start();
    let report = check(&server.url()).await;
    expect(&report, "cluster", Severity::Error, &["cluster"]);
}

/// Fails if the check reports the store as ready while the replicas that every lock needs are down.
#[tokio::test]
async fn missing_replicas_are_reported() {
    let master = ServerOptions::new()
        .option("repl-diskless-sync-delay", &["0"])
        .start();
    let mut replica = ServerOptions::new().replica_of(&master).start();
    let url = format!("{}?replicas=all", master.url());
    let pool = connect(&url).await;
    let ready = async || pool.check().await.expect("it answers").is_ready();
    let limit = Duration::from_secs(60);
    let in_step = async {
        while !ready().await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    wait::within("the replica is in step", limit, Box::pin(in_step)).await;
    replica.kill();
    let report = pool.check().await.expect("it answers");
    expect(
        &report,
        "replicas",
        Severity::Error,
        &["1 must", "`replicas`"],
    );
}

/// Fails if the check reports an unreadable setting as correct, or needs more permissions than
/// locks do.
#[tokio::test]
async fn an_unreadable_part_is_reported_as_unknown() {
    let server = ServerOptions::new().append_only().start();
    let mut user = cmd("ACL");
    user.arg(&["SETUSER", "u", "on", ">u", "~lock:*", "+@all", "-info"]);
    server.probe().run::<()>(&user);
    let report = check(&format!("redis://u:u@127.0.0.1:{}/", server.port())).await;
    expect(
        &report,
        "unchecked",
        Severity::Warning,
        &["could not be checked", "+info"],
    );
}

/// Fails if the check does not warn of a connection to another host in plain text. `127.1` is this
/// machine, but the check does not recognize this unusual form of its address.
#[tokio::test]
async fn plain_text_to_another_host_is_reported() {
    let server = ServerOptions::new().append_only().start();
    let report = check(&format!("redis://127.1:{}/", server.port())).await;
    expect(
        &report,
        "plain-text",
        Severity::Warning,
        &["127.1", "rediss://"],
    );
}

#[tokio::test]
async fn memory_is_reported_to_protect_only_one_process() {
    for (url, expected) in [
        ("memory://", "memory://name"),
        ("memory://checked", "redis://"),
    ] {
        let report = check(url).await;
        assert_eq!(report.store, url);
        let expected = ["this process only", expected];
        expect(&report, "one-process", Severity::Warning, &expected);
    }
}

/// Fails if a check of a missing server returns a report instead of an error. Also fails if a check
/// after the restart needs the pool's own connection, which may still be down.
#[tokio::test]
async fn a_check_of_a_missing_server_is_an_error() {
    let mut server = Server::start();
    let pool = connect(&server.url()).await;
    server.kill();
    let error = pool.check().await.expect_err("no server is there");
    assert!(matches!(error, LockError::Unavailable { .. }), "{error:?}");
    server.restart();
    assert!(pool.check().await.expect("it answers").is_ready());
}

/// Fails if a check needs a runtime of the caller.
#[test]
fn a_check_works_without_a_runtime() {
    let server = Server::start();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.expect("a runtime");
    let pool = runtime.block_on(connect(&server.url()));
    drop(runtime);
    let mut check = std::pin::pin!(pool.check());
    let waker = std::task::Waker::noop();
    let mut context = std::task::Context::from_waker(waker);
    let mut report = None;
    wait::until("the check ends", Duration::from_secs(30), || {
        if let std::task::Poll::Ready(found) = check.as_mut().poll(&mut context) {
            report = Some(found);
        }
        report.is_some()
    });
    assert!(report.expect("it ended").expect("it answers").is_ready());
}
