//! Tests that the pool replaces its connection only when the connection no longer works. Meanwhile
//! no lease is lost, no call fails, and the server does not get too many new connections.

use std::time::{Duration, Instant};

use leasehold::{LockError, LockGuard, LockPool};
use leasehold_tests::pipe::Pipe;
use leasehold_tests::probe::Probe as _;
use leasehold_tests::proxy::Proxy;
use leasehold_tests::random::Random;
use leasehold_tests::redis_probe::RedisProbe;
use leasehold_tests::sentinel::{MASTER, Setup};
use leasehold_tests::server::{Server, ServerOptions};
use leasehold_tests::wait;
use leasehold_tests::worker::{Event, Job, Scenario, Worker};
use redis::cmd;

/// The ttl of a renewed lease.
const TTL: Duration = Duration::from_secs(6);
/// The ttl of a lease without renewal.
const LEASE: Duration = Duration::from_secs(20);
const LONG: Duration = Duration::from_secs(30);

async fn connect(url: &str) -> LockPool {
    wait::connected(LockPool::builder().url(url)).await
}

/// Connects a pool that accepts late answers, which are usual on a busy machine.
async fn connect_patiently(url: &str) -> LockPool {
    wait::connected(LockPool::builder().url(url).io_timeout(LEASE)).await
}

async fn take(pool: &LockPool, key: &str, wait: Duration) -> LockGuard {
    let acquired = pool.lock(key).ttl(LEASE).wait(wait).acquire().await;
    acquired.unwrap_or_else(|error| panic!("{key}: {error}"))
}

fn code(error: &LockError) -> &'static str {
    match error {
        LockError::Unavailable { source } => source.code(),
        other => panic!("{other:?}"),
    }
}

/// Returns the number after `name` in a section of `INFO`, or zero if `name` is missing.
fn info(probe: &RedisProbe, section: &str, name: &str) -> u64 {
    let text: String = probe.run(cmd("INFO").arg(section));
    let (_, after) = text.split_once(name).unwrap_or_default();
    let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or_default()
}

fn connections(probe: &RedisProbe) -> u64 {
    info(probe, "stats", "total_connections_received:")
}

fn replicate(probe: &RedisProbe, host: &str, port: &str) {
    probe.run::<()>(cmd("REPLICAOF").arg(host).arg(port));
}

/// Closes the server side of the existing connections without closing the client's side. New
/// connections still work.
async fn swallow(proxy: &Proxy, probe: &RedisProbe) {
    proxy.half_open();
    let gone = || info(probe, "clients", "connected_clients:") == 1;
    wait::until_async("only the probe is left", LONG, gone).await;
}

/// The server becomes a read-only replica. Fails if the pool then replaces its connection again and
/// again without a pause.
#[tokio::test]
async fn a_demoted_master_is_not_flooded_with_reconnects() {
    let primary = ServerOptions::new().option("repl-diskless-sync-delay", &["0"]);
    let (primary, server) = (primary.start(), Server::start());
    let probe = server.probe();
    let pool = connect_patiently(&server.url()).await;
    replicate(&probe, "127.0.0.1", &primary.port().to_string());
    let follows = || {
        let text: String = probe.run(cmd("INFO").arg("replication"));
        text.contains("master_link_status:up")
    };
    wait::until_async("it follows its master", LONG, follows).await;

    let before = connections(&probe);
    let request = pool.lock("demoted").ttl(TTL).wait(Duration::from_secs(5));
    let error = request.acquire().await.expect_err("it is read-only");
    let opened = connections(&probe) - before;
    assert_eq!(code(&error), "READONLY", "{error}");
    assert!((1..100).contains(&opened), "{opened} connections in 5 s");

    replicate(&probe, "NO", "ONE");
    let guard = take(&pool, "promoted", LONG).await;
    guard.release().await.expect("still held");
}

/// A new connection leads to a replica that does not have the pool's lock, as when a name has the
/// addresses of both. Fails if the lease then ends, or if its release does not reach the master.
#[tokio::test]
async fn a_new_connection_to_a_stale_replica_ends_no_lease() {
    let (master, replica, nobody) = (Server::start(), Server::start(), Server::start());
    replicate(&replica.probe(), "127.0.0.1", &nobody.port().to_string());
    drop(nobody);
    let pipe = Pipe::start(master.address());
    let address = pipe.address();
    let pool = connect(&format!("redis://{address}/")).await;
    let request = pool.lock("k").ttl(LONG).watchdog();
    let guard = request.acquire().await.expect("free");
    drop(pipe);

    let pipe = Pipe::start_at(address, replica.address(), LONG);
    let tried = || 2 <= pipe.connections() || guard.check().is_err();
    wait::until_async("it tries again", LONG, tried).await;
    guard.check().expect("the master has it");
    drop(pipe);

    let _pipe = Pipe::start_at(address, master.address(), LONG);
    drop(take(&pool, "other", LONG).await);
    guard.release().await.expect("the master had it");
    assert!(
        !master.probe().namespace("lock:").exists("k"),
        "it is released"
    );
}

/// A call waits for a held lock. Its server becomes a read-only replica of another server, which
/// the Sentinel then names as the master. Fails if the call stays at the replica, which cannot add
/// the call to the queue.
#[tokio::test]
async fn a_waiting_call_leaves_a_demoted_master() {
    /// Longer than the test.
    const HELD: Duration = Duration::from_secs(600);
    const QUEUE: &str = "%leasehold:queue:lock:k";
    let start = || {
        let options = ServerOptions::new().option("repl-diskless-sync-delay", &["0"]);
        options.start()
    };
    let (old, new) = (start(), start());
    let probe = |server: &Server| server.probe().namespace("lock:");
    let (demoted, master) = (probe(&old), probe(&new));
    for server in [&demoted, &master] {
        assert!(server.set_nx("k", "theirs", HELD), "it is free");
    }
    let sentinels = Setup::new().start_naming_port(old.port());
    let pool = connect_patiently(&sentinels.url()).await;
    let waiting = tokio::spawn(pool.lock("k").ttl(LEASE).wait(HELD).acquire());
    let queued = |probe: &RedisProbe| probe.get(QUEUE).is_some();
    wait::until_async("it waits", LONG, || queued(&demoted)).await;

    let sentinel = sentinels.ports().next().expect("one runs");
    let sentinel = RedisProbe::connect(&format!("redis://127.0.0.1:{sentinel}/"));
    sentinel.run::<()>(cmd("SENTINEL").arg("REMOVE").arg(MASTER));
    let mut monitor = cmd("SENTINEL");
    monitor.arg("MONITOR").arg(MASTER).arg("127.0.0.1");
    sentinel.run::<()>(monitor.arg(new.port()).arg(1));
    replicate(&demoted, "127.0.0.1", &new.port().to_string());
    wait::until_async("it waits at the new master", LONG, || queued(&master)).await;
    master.delete("k");
    let guard = wait::within("it gets the lock", LONG, waiting).await;
    let guard = guard.expect("no panic").expect("it is free");
    guard.release().await.expect("still held");
}

/// Fails if a renewal waits until an earlier acquire on the same dead connection times out.
#[tokio::test]
async fn a_silent_connection_loses_no_lease() {
    let mut random = Random::seeded("swallowed connections");
    let lanes: Vec<_> = (0..6)
        .map(|lane| (lane, random.duration(TTL / 2)))
        .map(|(lane, phase)| tokio::spawn(a_lease_outlives_its_connection(lane, phase)))
        .collect();
    for lane in lanes {
        lane.await.expect("no lease was lost");
    }
}

async fn a_lease_outlives_its_connection(lane: u32, phase: Duration) {
    let server = Server::start();
    let (proxy, probe) = (Proxy::start(server.address()), server.probe());
    let pool = LockPool::builder().url(proxy.url()).io_timeout(LONG);
    let pool = wait::connected(pool).await;
    let request = pool.lock("held").ttl(TTL).watchdog();
    let held = request.acquire().await.expect("free");
    tokio::time::sleep(phase).await;
    swallow(&proxy, &probe).await;
    let other = take(&pool, "other", LONG).await;
    drop(other);
    // After this sleep, a lease without renewals has ended.
    tokio::time::sleep(TTL + Duration::from_secs(1)).await;
    held.release()
        .await
        .unwrap_or_else(|error| panic!("lane {lane}, swallowed after {phase:?}: {error}"));
}

/// Fails if requests on a silent connection are not repeated on the next connection.
#[tokio::test]
async fn requests_are_repeated_on_the_next_connection() {
    let server = Server::start();
    let (proxy, probe) = (Proxy::start(server.address()), server.probe());
    // A connection counts as silent if an acquire has no answer after a quarter of this timeout.
    let pool = LockPool::builder().url(proxy.url()).io_timeout(TTL);
    let pool = wait::connected(pool).await;
    for number in 0..5 {
        swallow(&proxy, &probe).await;
        let before = proxy.counts().connections;
        let guard = take(&pool, &format!("one-try-{number}"), Duration::ZERO).await;
        guard.release().await.expect("still held");
        assert!(proxy.counts().connections > before, "on a new connection");
    }
}

/// Fails if a dead idle connection is detected only by a call.
#[tokio::test]
async fn a_dead_idle_connection_is_detected_and_replaced() {
    let server = Server::start();
    let (proxy, probe) = (Proxy::start(server.address()), server.probe());
    let pool = LockPool::builder().url(proxy.url()).on_current_runtime();
    let pool = wait::connected(pool.io_timeout(Duration::from_secs(3))).await;
    take(&pool, "warm", Duration::ZERO)
        .await
        .release()
        .await
        .expect("held");
    let pings = || probe.calls("ping");
    let before = (pings(), proxy.counts().connections);
    pass_time(Duration::from_secs(16)).await;
    wait::until_async("it is asked", LONG, || pings() > before.0).await;
    assert_eq!(proxy.counts().connections, before.1, "it answered");

    swallow(&proxy, &probe).await;
    pass_time(Duration::from_secs(16)).await;
    let replaced = || proxy.counts().connections > before.1;
    wait::until_async("it is replaced", LONG, replaced).await;
    drop(pool);
}

/// Advances the clock of this runtime, which is also the clock of a pool with `on_current_runtime`.
async fn pass_time(span: Duration) {
    tokio::time::pause();
    tokio::time::advance(span).await;
    tokio::time::resume();
}

/// Fails if the pool accepts an `io_timeout` of zero, with which every call would fail. Also fails
/// if it accepts one beyond the range of the clock, which could cause a panic later.
#[tokio::test]
async fn an_invalid_timeout_is_refused() {
    for url in ["memory://", "redis://127.0.0.1:1/"] {
        for io_timeout in [Duration::MAX, Duration::ZERO] {
            let pool = LockPool::builder().url(url).io_timeout(io_timeout);
            let refused = wait::within("it is refused", LONG, pool.connect()).await;
            let error = refused.expect_err("no time-out");
            assert!(matches!(error, LockError::Config { .. }), "{error:?}");
            assert!(error.to_string().contains("`io_timeout`"), "{error}");
        }
    }
}

/// The user of the pool may no longer load scripts. Fails if the pool does not pause between its
/// attempts to load them, or if the error does not name the missing permission.
#[tokio::test]
async fn forbidden_scripts_are_retried_with_pauses() {
    let server = Server::start();
    let probe = server.probe();
    let allow = |rule: &str| {
        let mut user = cmd("ACL");
        user.arg("SETUSER").arg("app").arg("on").arg(">secret");
        probe.run::<()>(user.arg("~*").arg("&*").arg("+@all").arg(rule));
    };
    allow("+script|load");
    let url = format!("redis://app:secret@127.0.0.1:{}/", server.port());
    let pool = connect_patiently(&url).await;
    allow("-script|load");
    probe.run::<()>(cmd("SCRIPT").arg("FLUSH"));
    probe.run::<()>(cmd("CONFIG").arg("RESETSTAT"));

    // Calls are made for two seconds, so that attempts without pauses would exceed the limits
    // below.
    let end = Instant::now() + Duration::from_secs(2);
    while Instant::now() < end {
        let request = pool.lock("refused").ttl(TTL).wait(TTL);
        let error = request.acquire().await.expect_err("it cannot load");
        assert_eq!(code(&error), "NOPERM", "{error}");
        assert!(error.to_string().contains("script|load"), "{error}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let asked = probe.calls("evalsha");
    assert!((1..200).contains(&asked), "{asked} times in two seconds");
    let opened = connections(&probe);
    assert!(opened < 60, "{opened} connections in two seconds");

    // Until its next attempt to connect, the pool returns the error of its last attempt. So calls
    // may still fail for a while.
    allow("+script|load");
    let end = Instant::now() + LONG;
    while let Err(error) = pool.lock("allowed").ttl(TTL).wait(TTL).acquire().await {
        assert!(Instant::now() < end, "it may load them: {error}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Calls of one process wait for a lock at all times. Fails if another process then never gets this
/// lock.
#[tokio::test]
async fn a_busy_process_lets_other_processes_in() {
    let server = Server::start();
    let probe = server.probe();
    let job = Job {
        url: server.url(),
        key: "busy".to_owned(),
        ttl_ms: 20_000,
        wait_ms: 60_000,
        watchdog: false,
        scenario: Scenario::Busy {
            tasks: 4,
            stay_us: 1_000,
        },
    };
    let mut worker = Worker::spawn(env!("CARGO_BIN_EXE_worker"), &job);
    worker.wait_for("it is connected", LONG, |event| *event == Event::Ready);
    let pool = connect(&server.url()).await;
    let pid = worker.process().id().to_string();
    let busy = || {
        let owner = probe.value("lock:busy").map(|value| value.owner);
        owner.is_some_and(|owner| owner.contains(&pid))
    };
    for _ in 0..6 {
        wait::until_async("the other process is inside", LONG, busy).await;
        let guard = take(&pool, "busy", LONG).await;
        guard.release().await.expect("still held");
    }
}
