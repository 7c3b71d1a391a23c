//! Tests that the pool reconnects automatically, and still holds its locks.

use std::slice;
use std::time::{Duration, Instant};

use leasehold::__test::deadline;
use leasehold::{LockError, LockGuard, LockPool};
use leasehold_tests::lateness::Excuse;
use leasehold_tests::probe::Probe;
use leasehold_tests::proxy::{Mode, Proxy};
use leasehold_tests::random::Random;
use leasehold_tests::redis_probe::RedisProbe;
use leasehold_tests::server::{Server, ServerOptions};
use leasehold_tests::wait;
use redis::cmd;

use crate::deployments::all_are_renewed;

/// The ttl of a renewed lease.
const TTL: Duration = Duration::from_secs(6);
/// The ttl of a lease without renewals, and of a lease that outlasts restarts.
const LEASE: Duration = Duration::from_secs(20);
const PATIENCE: Duration = Duration::from_secs(30);

async fn connect(url: &str) -> LockPool {
    wait::connected(LockPool::builder().url(url)).await
}

/// Takes and releases a lock. The pool may need a moment to reconnect.
async fn works(pool: &LockPool, key: &str) {
    let request = pool.lock(key).ttl(LEASE).wait(PATIENCE);
    let acquired = request.acquire().await;
    let guard = acquired.unwrap_or_else(|error| panic!("{key}: {error}"));
    let released = guard.release().await;
    released.unwrap_or_else(|error| panic!("{key}: {error}"));
}

/// Takes a lock with a watchdog.
async fn hold(pool: &LockPool, key: &str, ttl: Duration) -> LockGuard {
    let request = pool.lock(key).ttl(ttl).watchdog().wait(PATIENCE);
    request.acquire().await.expect("free")
}

/// Releases the lock. Fails if it was lost.
async fn leave(held: LockGuard, what: &str) {
    let ended = held.check().and(held.release().await);
    assert_eq!(ended, Ok(()), "{what}");
}

/// Kills all connections except the probe's. Before that, waits until the pool is connected,
/// because the pool may still be replacing its previous connection.
async fn kill_all(probe: &RedisProbe) {
    let killed = || kill_clients(probe) >= 1;
    wait::until_async("the pool is connected", PATIENCE, killed).await;
}

fn kill_clients(probe: &RedisProbe) -> u32 {
    // The connection of a pool that listens for messages has the type `PUBSUB` instead of `NORMAL`.
    let kill = |kind: &str| -> u32 {
        let mut kill = cmd("CLIENT");
        kill.arg("KILL").arg("TYPE").arg(kind);
        probe.run(kill.arg("SKIPME").arg("YES"))
    };
    kill("NORMAL") + kill("PUBSUB")
}

/// Fails if the pool keeps a broken connection, or if a call fails although it has time for another
/// attempt. Also fails if a lease is not renewed over the new connections.
#[tokio::test]
async fn killed_connections_are_replaced() {
    let server = Server::start();
    let probe = server.probe();
    let pool = connect(&server.url()).await;
    let held = hold(&pool, "held", TTL).await;
    let (first, mut number) = (deadline(&held.handle()), 0);
    // The loop runs at least 40 times, and until the lease is renewed or lost.
    while number < 40 || deadline(&held.handle()) == first {
        kill_all(&probe).await;
        works(&pool, &format!("killed-{number}")).await;
        number += 1;
    }
    leave(held, "killed connections").await;
}

/// Ttl of each lease in the next test. If the delays of the machine are too long for this ttl, the
/// test repeats the outage with the doubled ttl.
const SHORT: Duration = Duration::from_secs(2);

/// Time after which the pool starts another attempt to connect while one attempt hangs: a quarter
/// of the `io_timeout`.
const NEXT_ATTEMPT: Duration = Duration::from_millis(250);

/// Fails if a lease is lost because of a short outage.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_survives_an_outage_of_two_fifths_of_its_ttl() {
    let mut random = Random::seeded("outages");
    let server = Server::start();
    let lanes = (0..12).map(|lane| {
        let (address, mut random) = (server.address(), random.fork());
        tokio::spawn(async move {
            let proxy = Proxy::start(address);
            let pool = LockPool::builder().url(proxy.url());
            let pool = wait::connected(pool.io_timeout(NEXT_ATTEMPT * 4)).await;
            for round in 0..3 {
                let kind = (lane + round) % 6;
                let mut ttl = SHORT;
                loop {
                    let key = format!("outage-{lane}-{round}-{}", ttl.as_secs());
                    let phase = random.duration(ttl);
                    if outage(&pool, &proxy, &key, ttl, phase, kind).await {
                        break;
                    }
                    ttl *= 2;
                }
            }
        })
    });
    let lanes: Vec<_> = lanes.collect();
    for lane in lanes {
        lane.await.expect("no lease was lost");
    }
}

/// Holds a lock during one outage. Returns true if the machine was quiet enough for a valid result.
async fn outage(
    pool: &LockPool,
    proxy: &Proxy,
    key: &str,
    ttl: Duration,
    phase: Duration,
    kind: u64,
) -> bool {
    let length = ttl * 2 / 5;
    let (started, excuse) = (Instant::now(), Excuse::begin());
    let held = hold(pool, key, ttl).await;
    // The lease starts when its request is sent, at most this long before the call gets the lock.
    let asked_before = started.elapsed();
    tokio::time::sleep(phase).await;
    let began = Instant::now();
    begin_outage(proxy, kind);
    tokio::time::sleep(length).await;
    proxy.pass();
    let longer = began.elapsed().saturating_sub(length);
    // After this sleep, a lease without renewals has ended.
    tokio::time::sleep(ttl).await;
    // The lease must survive if the sum below is shorter than the ttl. The outage may begin just
    // before a renewal, and two renewals are a third of the ttl apart. A new connection and a
    // renewal need some twenty wake-ups of threads. On a busy machine, only few of them have the
    // longest delay, so this delay is added eight times.
    let planned = ttl / 3 + length + NEXT_ATTEMPT;
    let judged = planned + asked_before + longer + excuse.longest() * 8 < ttl;
    if judged {
        let what = format!("{key}: outage {kind} after {phase:?} of a ttl of {ttl:?}");
        leave(held, &what).await;
    } else {
        // The lock may be lost, so the result is ignored.
        let _ = held.release().await;
    }
    judged
}

fn begin_outage(proxy: &Proxy, kind: u64) {
    match kind {
        0 => proxy.set(Mode::Stall),
        1 => proxy.set(Mode::BlackHole),
        2 => proxy.set(Mode::SwallowReplies),
        3 => proxy.set(Mode::Garble),
        4 => proxy.half_open(),
        _ => {
            proxy.set(Mode::Refuse);
            proxy.cut();
        }
    }
}

/// In each restart of the server, a renewal becomes due. Fails if the pool cannot be used
/// afterwards. Also fails if the lease is lost although the server has stored the lock on disk.
#[tokio::test]
async fn the_pool_reconnects_to_a_restarted_server() {
    const RENEWED: Duration = Duration::from_millis(700);
    let mut server = ServerOptions::new().append_only().start();
    let pool = connect(&server.url()).await;
    let request = pool.lock("kept-on-disk").ttl(LEASE).wait(PATIENCE);
    let request = request.watchdog_every(RENEWED);
    let held = request.acquire().await.expect("free");
    for number in 0..5 {
        server.kill();
        tokio::time::sleep(RENEWED).await;
        server.restart();
        works(&pool, &format!("restarted-{number}")).await;
        all_are_renewed(slice::from_ref(&held)).await;
    }
    leave(held, "restarts").await;
    server.kill();
    let (started, excuse) = (Instant::now(), Excuse::begin());
    let error = pool
        .lock("down")
        .ttl(TTL)
        .acquire()
        .await
        .expect_err("it is down");
    assert!(error.is_unavailable(), "{error:?}");
    assert!(started.elapsed() < Duration::from_secs(2) + excuse.so_far());
    server.restart();
    works(&pool, "up-again").await;
}

/// Fails if a lock that the server has lost in a restart still counts as held, or is set again.
#[tokio::test]
async fn a_lock_forgotten_by_the_server_is_lost() {
    let mut server = Server::start();
    let pool = connect(&server.url()).await;
    let held = hold(&pool, "forgotten", TTL).await;
    server.restart();
    let probe = server.probe().namespace("lock:");
    wait::within("the loss is reported", PATIENCE, Box::pin(held.lost())).await;
    let ended = held.check();
    assert!(matches!(ended, Err(LockError::Lost { .. })), "{ended:?}");
    assert!(!probe.exists("forgotten"), "a renewal made it anew");
}

/// Another client flushes the server's scripts before almost every request, so the pool must load
/// them again. Fails if a call fails, or if a lease is lost.
#[tokio::test]
async fn flushed_scripts_are_loaded_again() {
    let server = Server::start();
    let probe = server.probe();
    let pool = LockPool::builder().url(server.url()).io_timeout(LEASE);
    let pool = wait::connected(pool).await;
    let flush = || probe.run::<()>(cmd("SCRIPT").arg("FLUSH"));
    let held = hold(&pool, "held", TTL).await;
    for number in 0..20 {
        flush();
        let request = pool.lock(format!("flushed-{number}")).ttl(LEASE);
        let guard = request.acquire().await.expect("one try is enough");
        flush();
        guard.release().await.expect("one try is enough");
    }
    for _ in 0..70 {
        flush();
        tokio::time::sleep(TTL / 60).await;
    }
    leave(held, "flushed scripts").await;
    let is_free = || probe.get("lock:held").is_none();
    wait::until_async("it is released", TTL / 2, is_free).await;
}

/// Fails if a paused server blocks a call for longer than its `wait`. Also fails if the pool then
/// does not work again, or leaves the lock of this call behind.
#[tokio::test]
async fn a_paused_server_delays_calls_at_most_by_their_budget() {
    let server = Server::start();
    let pool = connect(&server.url()).await;
    works(&pool, "before").await;
    server.pause();
    let (started, excuse) = (Instant::now(), Excuse::begin());
    let request = pool
        .lock("paused")
        .ttl(PATIENCE * 2)
        .wait(Duration::from_millis(600));
    let error = request.acquire().await.expect_err("no server answers");
    let took = started.elapsed();
    server.resume();
    assert!(error.is_unavailable(), "{error:?}");
    let most = Duration::from_millis(850) + excuse.so_far();
    assert!(took < most, "{took:?}");
    works(&pool, "after").await;
    let probe = server.probe().namespace("lock:");
    // This limit is shorter than the ttl, so only the pool can have removed the lock.
    wait::until_async("nothing is left", PATIENCE, || !probe.exists("paused")).await;
}

/// The server has no command `HELLO`, so it supports only RESP2. Fails if the pool cannot use this
/// server.
#[tokio::test]
async fn an_old_server_without_hello_is_usable() {
    let server = ServerOptions::new()
        .option("rename-command", &["HELLO", "OLDHELLO"])
        .start();
    let probe = server.probe();
    let pool = connect(&server.url()).await;
    let held = hold(&pool, "held", TTL).await;
    for number in 0..5 {
        kill_clients(&probe);
        works(&pool, &format!("old-{number}")).await;
    }
    leave(held, "an old server").await;
}

/// Fails if a new connection does not use the password, the database or the socket of the first
/// connection.
#[tokio::test]
async fn a_new_connection_uses_the_original_settings() {
    let guarded = ServerOptions::new().password("p@ss/wörd").databases(4);
    let old = guarded.clone();
    let old = old.option("rename-command", &["HELLO", "OLDHELLO"]).start();
    let (server, socket) = (guarded.start(), Server::start());
    let [in_database, in_old] = [&server, &old].map(|server| format!("{}3", server.url()));
    for (url, probe) in [
        (&in_database, RedisProbe::connect(&in_database)),
        (&in_old, RedisProbe::connect(&in_old)),
        (&socket.socket_url(), socket.probe()),
    ] {
        let pool = connect(url).await;
        for number in 0..3 {
            let key = format!("again-{number}");
            let request = pool.lock(&*key).ttl(LEASE).wait(PATIENCE);
            let guard = request.acquire().await.expect("free");
            assert!(probe.exists(&format!("lock:{key}")), "in this database");
            guard.release().await.expect("still held");
            kill_all(&probe).await;
        }
    }
}
