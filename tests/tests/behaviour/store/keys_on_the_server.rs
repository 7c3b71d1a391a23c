//! Tests of keys on the server. A lock is an expiring string, as usual in Redis. No lock leaves a
//! separate key behind.

use std::collections::HashSet;
use std::time::Duration;

use leasehold::{LockError, LockPool, distributed_lock};
use leasehold_tests::lateness::Excuse;
use leasehold_tests::redis_probe::RedisProbe;
use leasehold_tests::server::Server;
use leasehold_tests::stores::NO_OUTAGE;
use leasehold_tests::wait;

const TTL: Duration = Duration::from_secs(20);

/// Prefix of leasehold's own keys.
const OWN: &str = "lock:%leasehold";

/// Returns leasehold's internal keys, which are not locks. The result omits the short-lived key
/// with which a connecting pool tests its scripts.
fn own_keys(probe: &RedisProbe) -> Vec<String> {
    let mut keys = probe.keys(&format!("{OWN}*"));
    keys.retain(|key| !key.starts_with(&format!("{OWN}:check:")));
    keys
}

async fn connect(url: &str) -> LockPool {
    wait::connected(LockPool::builder().url(url).io_timeout(NO_OUTAGE)).await
}

async fn in_namespace(server: &Server, namespace: &str) -> LockPool {
    let pool = LockPool::builder().url(server.url()).namespace(namespace);
    wait::connected(pool.io_timeout(NO_OUTAGE)).await
}

/// Fails if a lock is not an expiring string at the expected key. Other clients that use `SET NX`
/// would then not treat the lock as held.
#[tokio::test]
async fn a_lock_is_an_expiring_string_in_its_namespace() {
    let server = Server::start();
    let probe = server.probe();
    for (pool, wire) in [
        (connect(&server.url()).await, "lock:order:42"),
        (in_namespace(&server, "shop").await, "shop:order:42"),
        (in_namespace(&server, "").await, "order:42"),
    ] {
        let excuse = Excuse::begin();
        let guard = pool
            .lock("order:42")
            .ttl(TTL)
            .acquire()
            .await
            .expect("free");
        assert_eq!(guard.key(), "order:42");
        assert_eq!(probe.kind(wire), "string");
        let left = probe.ttl(wire).expect("it expires");
        let least = TTL * 9 / 10;
        assert!(left <= TTL && left + excuse.so_far() > least, "{left:?}");
        let value = probe.value(wire).expect("it is locked");
        assert_eq!(Some(value.fence), guard.fence().map(u64::from));
        let process = std::process::id().to_string();
        assert!(
            value.owner.contains(&process),
            "names its holder: {value:?}"
        );
        guard.release().await.expect("still held");
        let is_free = || probe.get(wire).is_none();
        wait::until_async("it is free", TTL / 2, is_free).await;
    }
}

/// Fails if tokens repeat. One holder could then release another holder's lock.
#[tokio::test]
async fn each_acquisition_has_its_own_token_and_a_greater_fence() {
    let server = Server::start();
    let probe = server.probe();
    let pool = connect(&server.url()).await;
    let mut tokens = HashSet::new();
    let mut last = None;
    for _ in 0..200 {
        let guard = pool.lock("again").ttl(TTL).acquire().await.expect("free");
        let value = probe.value("lock:again").expect("it is locked");
        assert!(tokens.insert(value.token), "a token came twice");
        assert!(guard.fence() > last, "{:?} after {last:?}", guard.fence());
        last = guard.fence();
        guard.release().await.expect("still held");
    }
}

/// Fails if the fence depends only on a counter in the server's memory, which each restart resets.
#[tokio::test]
async fn the_fence_grows_over_restarts_without_persistence() {
    let mut server = Server::start();
    let pool = connect(&server.url()).await;
    let mut last = None;
    for restart in 0..20 {
        for _ in 0..50 {
            let request = pool.lock("fenced").ttl(TTL).wait(TTL);
            let guard = request.acquire().await.expect("the server is back");
            assert!(
                guard.fence() > last,
                "restart {restart}: {:?} after {last:?}",
                guard.fence()
            );
            last = guard.fence();
            guard.release().await.expect("still held");
        }
        server.restart();
    }
}

/// Fails if the fence depends only on the server's clock, because a clock can be set back.
#[tokio::test]
async fn the_fence_grows_while_the_clock_goes_back() {
    // A time in the year 2112, in microseconds since 1970. The fence counter has this value if the
    // clock once showed this time by mistake, and was then corrected.
    const AHEAD: u64 = 4_481_000_000_000_000;
    let server = Server::start();
    let probe = server.probe();
    let pool = connect(&server.url()).await;
    let acquire = async || {
        let guard = pool.lock("ahead").ttl(TTL).acquire().await.expect("free");
        let fence = guard.fence().expect("Redis gives fences").get();
        guard.release().await.expect("still held");
        fence
    };
    let now = acquire().await;
    let counters = own_keys(&probe);
    assert_eq!(counters.len(), 1, "one for all keys: {counters:?}");
    assert_eq!(probe.get(&counters[0]), Some(now.to_string()));
    probe.run::<()>(redis::cmd("SET").arg(&counters[0]).arg(AHEAD));
    assert_eq!(acquire().await, AHEAD + 1);
    assert_eq!(acquire().await, AHEAD + 2);
}

/// Fails if each lock leaves a counter, or any other key, behind.
#[tokio::test]
async fn locks_do_not_fill_the_database() {
    const KEYS: u32 = 4_000;
    let server = Server::start();
    let probe = server.probe();
    let pool = connect(&server.url()).await;
    let mut tasks = tokio::task::JoinSet::new();
    for lane in 0..40 {
        let pool = pool.clone();
        tasks.spawn(async move {
            for number in 0..KEYS / 40 {
                let key = format!("distinct-{lane}-{number}");
                let guard = pool.lock(key).ttl(TTL).acquire().await.expect("free");
                guard.release().await.expect("still held");
            }
        });
    }
    while let Some(task) = tasks.join_next().await {
        task.expect("no panic");
    }
    let released = || probe.keys("lock:distinct*").is_empty();
    wait::until_async("all are released", TTL / 2, released).await;
    let left = probe.size();
    assert!(left <= 100, "{left} keys are left after {KEYS} locks");
}

#[distributed_lock(key = "order:<tenant>:<id>", ttl = "20s", pool = pool)]
async fn plain(
    pool: &LockPool,
    tenant: &str,
    id: &str,
    inside: impl FnOnce(),
) -> Result<(), LockError> {
    inside();
    Ok(())
}

#[distributed_lock(key = "{<tenant>}:order:<id>", ttl = "20s", pool = pool)]
async fn tagged(
    pool: &LockPool,
    tenant: &str,
    id: u64,
    inside: impl FnOnce(),
) -> Result<(), LockError> {
    inside();
    Ok(())
}

#[distributed_lock(key = format!("free:{id}"), ttl = "20s", pool = pool)]
async fn expression(pool: &LockPool, id: &str, inside: impl FnOnce()) -> Result<(), LockError> {
    inside();
    Ok(())
}

/// Fails if a value inserted into a key's template can imitate a part of the template, such as the
/// separator `:`.
#[tokio::test]
async fn only_inserted_values_are_encoded() {
    let server = Server::start();
    let probe = server.probe();
    let pool = connect(&server.url()).await;
    let locked = || {
        let mut keys = probe.keys("lock:*");
        keys.retain(|key| !key.starts_with(OWN));
        keys
    };
    let sees = |wire: &'static str| move || assert_eq!(locked(), [wire]);
    let all_free = async || {
        let is_free = || locked().is_empty();
        wait::until_async("the last is released", TTL / 2, is_free).await;
    };
    for (tenant, id, wire) in [
        ("a", "1", "lock:order:a:1"),
        ("a:1", "x", "lock:order:a%3A1:x"),
        ("a", "1:x", "lock:order:a:1%3Ax"),
        ("{a}", "50%", "lock:order:%7Ba%7D:50%25"),
        ("two words", "a\nb\0", "lock:order:two%20words:a%0Ab%00"),
        ("Zürich", "日本", "lock:order:Zürich:日本"),
        ("nb\u{a0}sp", "-", "lock:order:nb%C2%A0sp:-"),
    ] {
        let ended = plain(&pool, tenant, id, sees(wire)).await;
        ended.unwrap_or_else(|error| panic!("{wire}: {error}"));
        all_free().await;
    }
    let ended = tagged(&pool, "a}b", 7, sees("lock:{a%7Db}:order:7")).await;
    ended.expect("free");
    all_free().await;
    let ended = expression(&pool, "a:b{c}", sees("lock:free:a:b{c}")).await;
    ended.expect("free");
}
