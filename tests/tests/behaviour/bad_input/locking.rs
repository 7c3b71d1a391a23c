//! Tests of locks that cannot be taken.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use leasehold::{LockError, LockPool, distributed_lock};
use leasehold_tests::proxy::{After, Mode, Proxy};
use leasehold_tests::server::{Server, ServerOptions};
use leasehold_tests::stores::NO_OUTAGE;
use leasehold_tests::wait;
use redis::cmd;

use super::{Began, expect};

const TTL: Duration = Duration::from_secs(20);

async fn connect(url: &str) -> LockPool {
    wait::connected(LockPool::builder().url(url).io_timeout(NO_OUTAGE)).await
}

async fn refusal(pool: &LockPool, key: &str) -> LockError {
    let refused = pool.lock(key).ttl(TTL).acquire().await;
    refused.expect_err("it cannot be locked")
}

/// Number of bodies of `order` and `expression` that have run. A refused call must not run its
/// body.
static RUNS: AtomicU32 = AtomicU32::new(0);

#[distributed_lock(key = "order:<id>", ttl = "20s", pool = pool)]
async fn order(pool: &LockPool, id: &str) -> Result<(), LockError> {
    RUNS.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

#[distributed_lock(key = id, ttl = "20s", pool = pool)]
async fn expression(pool: &LockPool, id: &str) -> Result<(), LockError> {
    RUNS.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

#[distributed_lock(key = "encoded:<id>", ttl = "20s", pool = pool)]
async fn encoded(pool: &LockPool, id: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "order:<id>", ttl = ttl, pool = pool)]
async fn lasting(pool: &LockPool, id: u32, ttl: Duration) -> Result<(), LockError> {
    Ok(())
}

/// Fails if an empty value in a key is accepted, because all calls with an empty value would share
/// one lock. Also fails if an empty, too long or reserved key is accepted.
#[tokio::test]
async fn keys() {
    let started = Began::now();
    let pool = connect("memory://keys").await;
    let long = "x".repeat(600);
    let cases: [(&str, Result<(), LockError>, &[&str]); 7] = [
        (
            "an empty value",
            order(&pool, "").await,
            &["`<id>` is empty", "check it"],
        ),
        (
            "a long value",
            order(&pool, &long).await,
            &["more than 512 bytes", "hash"],
        ),
        (
            "a value that grows when encoded",
            order(&pool, &":".repeat(200)).await,
            &["more than 512 bytes"],
        ),
        (
            "an empty key",
            expression(&pool, "").await,
            &["empty", "order:42"],
        ),
        (
            "a long key",
            expression(&pool, &long).await,
            &["more than 512 bytes", "512"],
        ),
        (
            "a key of ours",
            expression(&pool, "%leasehold:x").await,
            &["%leasehold"],
        ),
        (
            "an empty key by hand",
            Err(refusal(&pool, "").await),
            &["empty"],
        ),
    ];
    for (what, ended, expected) in cases {
        let error = ended.expect_err(what);
        expect(what, &error, &["InvalidKey"], expected, started);
        assert!(
            error.to_string().len() < 300,
            "{what}: shows all of it: {error}"
        );
    }
    assert_eq!(RUNS.load(Ordering::Relaxed), 0);
    order(&pool, &"x".repeat(506))
        .await
        .expect("512 bytes are fine");
}

/// Fails if a call can lock a key that leasehold uses internally. Such a call could overwrite a
/// fence counter, or delete a lock.
#[tokio::test]
async fn reserved_keys_are_refused() {
    let server = Server::start();
    let bare = wait::connected(LockPool::builder().url(server.url()).namespace("")).await;
    let named = connect(&server.url()).await;
    let before = server.probe().size();
    let started = Began::now();
    for (pool, key) in [
        (&bare, "%leasehold:fence"),
        (&bare, "lock:%leasehold:fence"),
        (&bare, "lock:%leasehold:queue:lock:order:42"),
        (&bare, "{1a2b}:{shop}:%leasehold:{1a2b}:queue:{shop}:a"),
        (&named, "shop:%leasehold:fence"),
        (&named, "%leasehold:shares:lock:a"),
    ] {
        let error = refusal(pool, key).await;
        expect(
            key,
            &error,
            &["InvalidKey"],
            &["%leasehold", "another name"],
            started,
        );
        let several = pool.lock_all(["fine", key]).ttl(TTL).acquire().await;
        assert!(
            matches!(several, Err(LockError::InvalidKey { .. })),
            "{key}"
        );
        let error = expression(pool, key).await.expect_err("its own");
        assert!(matches!(error, LockError::InvalidKey { .. }), "{key}");
    }
    assert_eq!(server.probe().size(), before, "something was sent");
    encoded(&named, "%leasehold:fence")
        .await
        .expect("a value is encoded");

    for namespace in ["%leasehold", "lock:%leasehold:queue", "{1a2b}:%leasehold"] {
        for url in [server.url(), "memory://own".to_owned()] {
            let builder = LockPool::builder().url(url).namespace(namespace);
            let error = builder.connect().await.expect_err("its own");
            expect(
                namespace,
                &error,
                &["Config"],
                &[namespace, "leave it out"],
                started,
            );
        }
    }
}

/// The proxy replaces the server's answer to an acquire by an answer without a fence. Fails if the
/// call still gets the lock, because every lock on this store has a fence.
#[tokio::test]
async fn a_grant_without_a_fence_is_refused() {
    let server = Server::start();
    let proxy = Proxy::start(server.address());
    let pool = connect(&proxy.url()).await;
    let answers = [
        ":1\r\n",
        "+OK\r\n",
        "*4\r\n:1\r\n$-1\r\n:0\r\n:0\r\n",
        "*4\r\n:1\r\n$0\r\n\r\n:0\r\n:0\r\n",
    ];
    for (number, answer) in answers.into_iter().enumerate() {
        for kind in ["alone", "share"] {
            // Each case has a separate key, because the removal of the previous key may still be on
            // its way to the server.
            let key = format!("{kind}{number}");
            proxy.lose_replies(&format!("lock:{key}"), 1, After::Instead(answer));
            let started = Began::now();
            let request = pool.lock(&key).ttl(TTL);
            let request = if kind == "share" {
                request.shared()
            } else {
                request
            };
            let error = request.acquire().await.expect_err("no grant");
            let variants = &["Unavailable/protocol"];
            expect(answer, &error, variants, &["Redis"], started);
            // The server did set a lock, although the proxy replaced its answer. The pool must
            // remove that lock.
            let again = pool.lock(&key).ttl(TTL).wait(TTL / 2).acquire().await;
            again.expect("free").release().await.expect("held");
        }
    }
    let all = After::Instead("*2\r\n:1\r\n*2\r\n:1\r\n:1\r\n");
    proxy.lose_replies("lock:one", 1, all);
    let all = pool.lock_all(["one", "two"]).ttl(TTL).acquire().await;
    assert!(all.is_err(), "{all:?}");
}

/// Fails if an invalid duration is accepted, or if the error does not name the option.
#[tokio::test]
async fn durations() {
    let started = Began::now();
    let pool = connect("memory://durations").await;
    ttls(&pool, started).await;
    let request = || pool.lock("k").ttl(TTL);
    for (what, ended, expected) in [
        (
            "no ttl",
            pool.lock("k").acquire().await,
            &["ttl", ".ttl("][..],
        ),
        (
            "no interval",
            request().watchdog_every(Duration::ZERO).acquire().await,
            &["interval"],
        ),
        (
            "late interval",
            request().watchdog_every(TTL).acquire().await,
            &["interval", "less than"],
        ),
        (
            "a bound without watchdog",
            request().max_hold(TTL).acquire().await,
            &[".watchdog()"],
        ),
        (
            "a bound below the ttl",
            request().watchdog().max_hold(TTL / 2).acquire().await,
            &["max_hold", "ttl"],
        ),
    ] {
        expect(
            what,
            &ended.expect_err(what),
            &["Config"],
            expected,
            started,
        );
    }
    // The longest possible `wait` is valid.
    request()
        .wait(Duration::MAX)
        .acquire()
        .await
        .expect("free")
        .release()
        .await
        .expect("held");
}

async fn ttls(pool: &LockPool, started: Began) {
    let day = Duration::from_secs(24 * 60 * 60);
    for ttl in [
        Duration::ZERO,
        Duration::from_nanos(1),
        Duration::from_millis(99),
        day + Duration::from_millis(1),
        Duration::MAX,
    ] {
        let error = lasting(pool, 1, ttl).await.expect_err("out of range");
        expect(
            "ttl",
            &error,
            &["Config"],
            &["ttl", "100 ms", "24 h"],
            started,
        );
    }
    let least = wait::begun(|| lasting(pool, 1, Duration::from_millis(100))).await;
    least.expect("the least");
    lasting(pool, 2, day).await.expect("the most");
}

/// Fails if a call overwrites or deletes data of another application.
#[tokio::test]
async fn a_key_with_other_data_is_left_unchanged() {
    let server = Server::start();
    let probe = server.probe();
    let pool = connect(&server.url()).await;
    probe.run::<()>(cmd("RPUSH").arg("lock:list").arg("a"));
    probe.run::<()>(cmd("HSET").arg("lock:hash").arg("f").arg("v"));
    for key in ["list", "hash"] {
        let started = Began::now();
        let error = refusal(&pool, key).await;
        let variants = &["Unavailable/WRONGTYPE"];
        expect(
            key,
            &error,
            variants,
            &["another key or namespace"],
            started,
        );
        assert_eq!(probe.kind(&format!("lock:{key}")), key);
    }
    // A string without a ttl looks like a lock that never expires. So the call is refused as
    // contended, and gets no `retry_after`.
    probe.run::<()>(cmd("SET").arg("lock:string").arg("v"));
    let error = refusal(&pool, "string").await;
    assert!(matches!(error, LockError::Contended { .. }), "{error:?}");
    assert_eq!(error.retry_after(), None);
    assert_eq!(probe.get("lock:string").as_deref(), Some("v"));
}

#[tokio::test]
async fn a_full_server_refuses_a_lock() {
    let server = Server::start();
    let pool = connect(&server.url()).await;
    let mut full = cmd("CONFIG");
    server
        .probe()
        .run::<()>(full.arg("SET").arg("maxmemory").arg(1));
    let started = Began::now();
    let error = refusal(&pool, "full").await;
    expect(
        "full",
        &error,
        &["Unavailable/OOM"],
        &["maxmemory"],
        started,
    );
}

#[tokio::test]
async fn a_replica_refuses_a_lock() {
    let primary = Server::start();
    let replica = ServerOptions::new().replica_of(&primary).start();
    let started = Began::now();
    let pool = match LockPool::connect(&replica.url()).await {
        Ok(pool) => pool,
        Err(error) => {
            expect(
                "at connect",
                &error,
                &["Config", "Unavailable/READONLY"],
                &["master"],
                started,
            );
            return;
        }
    };
    let started = Began::now();
    let error = refusal(&pool, "replica").await;
    expect(
        "replica",
        &error,
        &["Unavailable/READONLY"],
        &["replica", "master"],
        started,
    );
}

/// The proxy replaces the server's answers by bytes that the protocol of Redis does not allow.
/// Fails if the pool accepts such an answer, or if it cannot take the lock afterwards.
#[tokio::test]
async fn the_pool_recovers_from_garbled_answers() {
    let server = Server::start();
    let proxy = Proxy::start(server.address());
    let pool = connect(&proxy.url()).await;
    proxy.set(Mode::Garble);
    let started = Began::now();
    let error = refusal(&pool, "nonsense").await;
    expect(
        "nonsense",
        &error,
        &["Unavailable/protocol"],
        &["Redis"],
        started,
    );
    proxy.pass();
    let request = pool.lock("nonsense").ttl(TTL).wait(TTL / 2);
    let guard = request.acquire().await.expect("sense again, and no orphan");
    guard.release().await.expect("still held");
}

/// The proxy replaces an answer by 80,000 bytes of a line that does not end. Fails if the call
/// waits for the end of the line, or if the pool cannot take the lock afterwards.
#[tokio::test]
async fn the_pool_recovers_from_an_endless_answer() {
    let server = Server::start();
    let proxy = Proxy::start(server.address());
    let pool = LockPool::builder().url(proxy.url()).io_timeout(TTL);
    let pool = wait::connected(pool).await;
    let line: &'static str = "+endless".repeat(10_000).leak();
    proxy.lose_replies("lock:line", 1, After::Instead(line));
    let started = Began::now();
    let error = refusal(&pool, "line").await;
    let variants = &["Unavailable/protocol"];
    expect(
        "a line",
        &error,
        variants,
        &["begins with `+endless"],
        started,
    );
    let request = pool.lock("line").ttl(TTL).wait(TTL / 2);
    let guard = request.acquire().await.expect("sense again, and no orphan");
    guard.release().await.expect("still held");
}

/// The key contains data of another application, so each request fails with the same error. Fails
/// if the call repeats its request until its `wait` is over.
#[tokio::test]
async fn permanent_errors_are_not_retried() {
    let server = Server::start();
    let probe = server.probe();
    let pool = connect(&server.url()).await;
    probe.run::<()>(cmd("RPUSH").arg("lock:list").arg("a"));
    let started = Began::now();
    let request = pool.lock("list").ttl(TTL).wait(Duration::from_secs(30));
    let error = request.acquire().await.expect_err("other data");
    expect("waiting", &error, &["Unavailable/WRONGTYPE"], &[], started);
}
