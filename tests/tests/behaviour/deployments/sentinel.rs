//! Tests of `redis-sentinel://`. The pool must find the master, follow a fail-over, and never use a
//! replica as the master.

use std::time::{Duration, Instant};

use leasehold::{LockError, LockPool};
use leasehold_tests::lateness::Excuse;
use leasehold_tests::load::Load;
use leasehold_tests::proxy::Proxy;
use leasehold_tests::random::Random;
use leasehold_tests::redis_probe::RedisProbe;
use leasehold_tests::sentinel::{Deployment, MASTER, Setup};
use leasehold_tests::server::{Server, ServerOptions};
use leasehold_tests::wait;
use redis::cmd;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::drop_calls;

/// The ttl of most locks. It is longer than any step of a test takes, even on a busy machine.
const TTL: Duration = Duration::from_secs(20);
const PATIENCE: Duration = Duration::from_secs(60);

/// Time limit for an answer. It is long, because a busy machine may delay each thread that handles
/// a call by up to two seconds.
const IO_TIMEOUT: Duration = Duration::from_secs(4);

async fn connect(url: &str) -> LockPool {
    wait::connected(LockPool::builder().url(url).io_timeout(IO_TIMEOUT)).await
}

/// Takes and releases a lock. The pool may need a moment to find the new master.
async fn works(pool: &LockPool, key: &str) {
    let acquired = pool.lock(key).ttl(TTL).wait(PATIENCE).acquire().await;
    let guard = acquired.unwrap_or_else(|error| panic!("{key}: {error}"));
    guard.release().await.expect("it is released");
}

async fn refused(url: &str) -> (String, String) {
    let builder = LockPool::builder().url(url).io_timeout(IO_TIMEOUT);
    match builder.connect().await {
        Ok(pool) => panic!("connected: {pool:?}"),
        Err(LockError::Unavailable { source }) => (source.code().to_owned(), source.to_string()),
        Err(error) => panic!("{error:?}"),
    }
}

/// Sets the Sentinels' timeout so high that they do not replace a master delayed by a busy machine.
fn is_patient(deployment: &Deployment, url: &str) {
    let password = url.split_once("sentinel_password=");
    let password = password.map_or(String::new(), |(_, password)| format!(":{password}@"));
    let mut patient = cmd("SENTINEL");
    patient.arg("SET").arg(MASTER);
    patient.arg("down-after-milliseconds").arg(60_000);
    for port in deployment.ports() {
        let sentinel = RedisProbe::connect(&format!("redis://{password}127.0.0.1:{port}/"));
        sentinel.run::<()>(&patient);
    }
}

/// Fails if the lock is not on the master. Also fails if the Sentinels get the servers'
/// credentials, or if the servers get the Sentinels' credentials.
#[tokio::test(flavor = "multi_thread")]
async fn the_master_named_by_the_sentinels_is_used() {
    for setup in [Setup::new(), Setup::new().passwords("pass-1", "pass-2")] {
        let deployment = setup.start();
        let url = deployment.url();
        is_patient(&deployment, &url);
        let pool = connect(&url).await;
        let guard = pool.lock("k").ttl(TTL).acquire().await.expect("free");
        let probe = deployment.master().probe();
        assert!(probe.value("lock:k").is_some(), "the master has the key");
        guard.release().await.expect("released");
        let gone = || probe.get("lock:k").is_none();
        wait::until_async("the key is removed", TTL / 2, gone).await;
        let shown = format!("{pool:?}");
        assert!(
            shown.contains(MASTER) && !shown.contains("pass-"),
            "{shown}"
        );
        leasehold::__test::conformance(&url).await;
    }
}

/// Fails if the pool stays with the killed master, if a body outlives its lease, or if fences run
/// backwards. Simultaneous holders of one lock are only counted: replication is asynchronous, so a
/// lock that has not reached a replica is lost with the master.
#[tokio::test(flavor = "multi_thread")]
async fn a_fail_over_is_followed_under_load() {
    let mut random = Random::seeded("fail-over under load");
    let mut deployment = Deployment::start();
    let url = deployment.url();
    let pools = [connect(&url).await, connect(&url).await];
    let longest = Duration::from_millis(400);
    let load = Load::start(&pools, 8, 4, longest, &mut random);
    wait::until_async("sections before", PATIENCE, || load.sections() > 20).await;
    let dead = deployment.fail_over();
    let before = load.sections();
    wait::until_async("sections after", PATIENCE, || load.sections() > before + 40).await;
    // The old master is started again as a replica, and must not be used as the master.
    deployment.bring_back(dead);
    let before = load.sections();
    wait::until_async("sections after", PATIENCE, || load.sections() > before + 20).await;
    let ended = load.stop().await;
    ended.overlaps("a fail-over under load");
}

/// The master hangs, and the Sentinels promote a replica. Fails if the pool does not switch to the
/// new master. Also fails if the pool uses the old master again after the old master resumes.
#[tokio::test(flavor = "multi_thread")]
async fn a_hanging_master_is_abandoned() {
    let deployment = Deployment::start();
    let pool = connect(&deployment.url()).await;
    works(&pool, "before").await;
    let old = deployment.named();
    let hung = deployment.master();
    hung.pause();
    deployment.wait_for_fail_over(old);
    works(&pool, "meanwhile").await;
    let guard = pool.lock("k").ttl(TTL).acquire().await.expect("free");
    assert!(deployment.master().probe().value("lock:k").is_some());
    hung.resume();
    guard.release().await.expect("released where it was taken");
    works(&pool, "afterwards").await;
}

/// Fails if the pool stays with a running master after the Sentinels have demoted it.
#[tokio::test(flavor = "multi_thread")]
async fn a_demoted_master_is_abandoned() {
    let deployment = Deployment::start();
    let pool = connect(&deployment.url()).await;
    works(&pool, "before").await;
    let old = deployment.named();
    let sentinel = deployment.ports().next().expect("a Sentinel runs");
    let sentinel = RedisProbe::connect(&format!("redis://127.0.0.1:{sentinel}/"));
    sentinel.run::<()>(cmd("SENTINEL").arg("FAILOVER").arg(MASTER));
    deployment.wait_for_fail_over(old);
    // Until its demotion the old master still accepts locks. These locks are lost.
    let is_replica = |server: &Server| server.role().as_deref() == Some("slave");
    let demoted = || deployment.replicas().all(is_replica);
    wait::until_async("the old master is demoted", PATIENCE, demoted).await;
    let guard = pool.lock("k").ttl(TTL).wait(PATIENCE).acquire().await;
    let guard = guard.unwrap_or_else(|error| panic!("{error}"));
    let has_it = || deployment.master().probe().value("lock:k").is_some();
    assert!(has_it(), "the lock is on the new master");
    guard.release().await.expect("released");
}

/// Fails if a dead Sentinel, or a hanging Sentinel that accepts connections, prevents the pool from
/// connecting or from following a fail-over.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_sentinel_is_survived() {
    let mut deployment = Deployment::start();
    let all = deployment.url();
    let early = connect(&all).await;
    deployment.kill_sentinel();
    works(&connect(&all).await, "one dead").await;
    let dead = deployment.fail_over();
    works(&early, "one dead, after a fail-over").await;
    deployment.bring_back(dead);
    deployment.pause_sentinel();
    works(&connect(&all).await, "one dead and one hung").await;
}

/// Starts a false Sentinel. It answers that the master has the port `names` and the configuration
/// epoch `epoch`. Returns the Sentinel's port.
async fn liar(names: u16, epoch: u64) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let text = |text: &str| format!("${}\r\n{text}\r\n", text.len());
    let address = format!("*2\r\n{}{}", text("127.0.0.1"), text(&names.to_string()));
    let state = format!("*2\r\n{}{}", text("config-epoch"), text(&epoch.to_string()));
    let answers = format!("{address}{state}*0\r\n");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let answers = answers.clone();
            tokio::spawn(async move {
                let mut request = [0; 4096];
                while let Ok(read) = stream.read(&mut request).await {
                    let asked = request[..read].windows(8).any(|part| part == b"SENTINEL");
                    // Before its queries, the client sends the names of its process and its
                    // library. These commands are answered with `OK`.
                    let answer = if asked {
                        answers.as_str()
                    } else {
                        "+OK\r\n+OK\r\n+OK\r\n"
                    };
                    if read == 0 || stream.write_all(answer.as_bytes()).await.is_err() {
                        break;
                    }
                }
            });
        }
    });
    port
}

/// Fails if the pool uses a replica as the master because a Sentinel names it, even if the replica
/// accepts writes.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_named_as_master_is_refused() {
    let master = Server::start();
    for read_only in ["yes", "no"] {
        let replica = ServerOptions::new()
            .replica_of(&master)
            .option("replica-read-only", &[read_only])
            .start();
        let sentinel = liar(replica.port(), 1).await;
        let (code, text) = refused(&format!("redis-sentinel://127.0.0.1:{sentinel}/shop")).await;
        assert_eq!(code, "READONLY");
        assert!(text.contains("is a replica"), "{text}");
    }
}

/// Two Sentinels name the old master, with an old configuration epoch. A third Sentinel names the
/// new master, with a newer epoch. Fails if the pool uses the old master.
#[tokio::test(flavor = "multi_thread")]
async fn the_newest_configuration_counts() {
    let (old, new) = (Server::start(), Server::start());
    let early = [liar(old.port(), 6).await, liar(old.port(), 6).await];
    let late = liar(new.port(), 7).await;
    for hosts in [
        [early[0], early[1], late],
        [late, early[0], early[1]],
        [early[0], late, early[1]],
    ] {
        let hosts = hosts.map(|port| format!("127.0.0.1:{port}")).join(",");
        let pool = connect(&format!("redis-sentinel://{hosts}/shop")).await;
        works(&pool, "k").await;
    }
    assert_eq!(
        old.probe().size(),
        0,
        "nothing was written to the old master"
    );
    assert!(
        new.probe().size() > 0,
        "the fence counter is on the new one"
    );
}

/// Fails if a dropped call leaves its lock or its place in a queue on the master.
#[tokio::test(flavor = "multi_thread")]
async fn dropped_calls_leave_nothing() {
    let server = Server::start();
    let (probe, network) = (server.probe(), Proxy::start(server.address()));
    let deployment = Setup::new().start_naming_port(network.address().port());
    let url = deployment.url();
    let pools = [connect(&url).await, connect(&url).await];
    drop_calls(&pools, &[network], || probe.keys("lock:*")).await;
}

/// Fails if the error for a wrong URL or password does not name the remedy, or shows a password.
#[tokio::test(flavor = "multi_thread")]
async fn mistakes_are_reported() {
    let deployment = Setup::new().passwords("pass-1", "pass-2").start();
    let url = deployment.url();
    let server = deployment.master().port();
    let cases = [
        (
            "another name",
            url.replace("/shop", "/stock"),
            "sentinel",
            vec!["the master `stock`", "shop"],
        ),
        (
            "nobody there",
            "redis-sentinel://127.0.0.1:1,127.0.0.1:2/shop".to_owned(),
            "sentinel",
            vec!["no Sentinel answered", "127.0.0.1:1", "is up"],
        ),
        (
            "no password for the Sentinels",
            url.replace("?sentinel_password=pass-2", ""),
            "NOAUTH",
            vec!["sentinel_password"],
        ),
        (
            "a wrong password for the Sentinels",
            url.replace("pass-2", "pass-3"),
            "WRONGPASS",
            vec!["Sentinel", "sentinel_password"],
        ),
        (
            "a wrong password for the master",
            url.replace(":pass-1@", ":pass-3@"),
            "WRONGPASS",
            vec!["password"],
        ),
        (
            "a server instead of a Sentinel",
            format!("redis-sentinel://127.0.0.1:{server}/shop?sentinel_password=pass-1"),
            "protocol",
            vec!["26379"],
        ),
    ];
    for (what, url, code, expected) in cases {
        let (started, excuse) = (Instant::now(), Excuse::begin());
        let (found, text) = refused(&url).await;
        assert_eq!(found, code, "{what}: {text}");
        for fragment in expected {
            assert!(
                text.contains(fragment),
                "{what}: no {fragment:?} in {text:?}"
            );
        }
        assert!(!text.contains("pass-"), "{what} shows a password: {text}");
        let took = started.elapsed();
        let most = Duration::from_secs(10) + excuse.so_far();
        assert!(took < most, "{what}: {took:?}");
    }
}
