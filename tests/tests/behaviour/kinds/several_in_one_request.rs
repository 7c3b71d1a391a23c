//! Tests of several keys in one request. If one key is not available, the call takes none of the
//! other keys.

use std::time::Duration;

use leasehold::{Fence, LockError, LockPool};
use leasehold_tests::cluster::Setup;
use leasehold_tests::lateness::Excuse;
use leasehold_tests::probe::Probe;
use leasehold_tests::proxy::{After, Mode, Proxy};
use leasehold_tests::quorum::Quorum;
use leasehold_tests::redis_probe::RedisProbe;
use leasehold_tests::sentinel::Deployment;
use leasehold_tests::server::{Server, ServerOptions};
use leasehold_tests::stores::NO_OUTAGE;
use leasehold_tests::wait;
use redis::cmd;

const TTL: Duration = Duration::from_secs(20);
/// Time limit for one call. A call takes longer only if it hangs.
const HANG: Duration = Duration::from_secs(10);

/// Time after which a request or a release without an answer is sent again.
const AGAIN: Duration = Duration::from_secs(1);
/// Time for which a free lock stays reserved for the next process.
const CLAIM: Duration = Duration::from_secs(1);
/// The `io_timeout` of pools in tests with a missing answer or a missing confirmation by a replica.
/// A pool detects a missing answer after a quarter of this time, and a missing confirmation after
/// an eighth.
const PATIENCE: Duration = Duration::from_secs(5);

async fn connect(url: &str) -> LockPool {
    wait::connected(LockPool::builder().url(url).io_timeout(NO_OUTAGE)).await
}

async fn connect_with_patience(url: &str) -> LockPool {
    wait::connected(LockPool::builder().url(url).io_timeout(PATIENCE)).await
}

/// Returns the number of times that the server has run a command, including runs inside scripts.
fn calls(probe: &RedisProbe, command: &str) -> u64 {
    let stats: String = probe.run(cmd("INFO").arg("commandstats"));
    let Some((_, rest)) = stats.split_once(&format!("cmdstat_{command}:calls=")) else {
        return 0;
    };
    let digits = rest.find(',').expect("more follows");
    rest[..digits].parse().expect("a number")
}

/// Fails unless exactly `count` scripts run while `keys` are taken and released ten times.
async fn expect_scripts(count: u64, pool: &LockPool, probe: &RedisProbe, keys: &[&str]) {
    let (before, excuse) = (calls(probe, "evalsha"), Excuse::begin());
    for _ in 0..10 {
        let all = pool.lock_all(keys.iter().copied()).ttl(TTL).wait(HANG);
        let guard = all.acquire().await.expect("free");
        assert!(guard.fences().all(|(_, fence)| fence.is_some()));
        guard.release().await.expect("released");
    }
    let called = calls(probe, "evalsha") - before;
    let sent_again = count < called && AGAIN < excuse.so_far();
    assert!(called == count || sent_again, "{called} for {keys:?}");
}

/// Fails if the number of round trips grows with the number of keys. One script takes all keys, and
/// one script releases them.
#[tokio::test]
async fn an_acquire_and_release_of_many_keys_are_two_scripts() {
    let server = Server::start();
    let (pool, probe) = (connect(&server.url()).await, server.probe());
    let sixteen: Vec<String> = (0..16).map(|number| number.to_string()).collect();
    let sixteen: Vec<&str> = sixteen.iter().map(String::as_str).collect();
    for keys in [&["a", "b"][..], &["a", "b", "c"], &sixteen] {
        expect_scripts(20, &pool, &probe, keys).await;
    }
    let all_are_free = || probe.keys("lock:[^%]*").is_empty();
    wait::until_async("all are free", HANG, all_are_free).await;
}

/// Like the test above, but behind Sentinels.
#[tokio::test(flavor = "multi_thread")]
async fn several_keys_behind_sentinels_are_two_scripts() {
    let deployment = Deployment::start();
    let pool = connect(&deployment.url()).await;
    let probe = deployment.master().probe();
    expect_scripts(20, &pool, &probe, &["a", "b"]).await;
}

/// Fails if an acquire of keys of one slot needs more than one script, or if an acquire of keys of
/// several slots fails.
#[tokio::test(flavor = "multi_thread")]
async fn keys_of_one_cluster_slot_are_taken_in_one_script() {
    let cluster = Setup::new().start();
    let pool = connect(&cluster.url()).await;
    let probe = cluster.probe_of("lock:{t}:a");
    // A cluster gets the releases of the three keys in one pipeline, each as a separate script. So
    // ten rounds are 10 scripts for acquires and 30 for releases.
    let keys = ["{t}:a", "{t}:b", "{t}:c"];
    expect_scripts(40, &pool, probe, &keys).await;
    let all_are_free = || keys.iter().all(|key| !probe.exists(&format!("lock:{key}")));
    wait::until_async("all are free", HANG, all_are_free).await;
    let scattered = ["a", "b", "c"].map(|key| format!("{{{key}}}:k"));
    for _ in 0..2 {
        let all = pool.lock_all(scattered.clone()).ttl(TTL);
        let guard = all.acquire().await.expect("free");
        assert!(guard.fences().all(|(_, fence)| fence.is_some()));
        guard.release().await.expect("released");
    }
    // On a cluster, too, a call for several keys of one slot gets all of them or none.
    let held = pool.lock("{t}:b").ttl(TTL).acquire().await.expect("free");
    let other = connect(&cluster.url()).await;
    let error = other.lock_all(keys).ttl(TTL).acquire().await;
    assert!(error.expect_err("held").is_contention());
    assert!(!probe.exists("lock:{t}:a") && !probe.exists("lock:{t}:c"));
    held.release().await.expect("released");
}

/// Fails if a quorum, which cannot take several keys in one step, refuses them or leaves some of
/// them locked.
#[tokio::test(flavor = "multi_thread")]
async fn a_quorum_takes_several_keys_one_by_one() {
    let ttl = Duration::from_secs(6);
    let quorum = Quorum::older_than(3, ttl);
    let url = quorum.url_with("max_ttl=6s&node_timeout=1s");
    let pool = connect(&url).await;
    let probes = quorum.probes();
    let all = || pool.lock_all(["a", "b"]).ttl(ttl);
    let guard = all().acquire().await.expect("free");
    guard.release().await.expect("released");
    let other = connect(&url).await;
    let held = other.lock("b").ttl(ttl).watchdog().wait(HANG);
    let held = held.acquire().await.expect("free");
    let error = all().acquire().await.expect_err("held");
    assert!(error.is_contention(), "{error:?}");
    let gone = || probes.iter().all(|probe| !probe.exists("lock:a"));
    // This limit is shorter than the ttl, so only the call can have released the first key.
    wait::until_async("the first is free", ttl / 2, gone).await;
    drop(held);
}

/// Fails if the first keys are taken, even for a moment, although a later key is held.
#[tokio::test]
async fn a_refused_call_writes_nothing() {
    let server = Server::start();
    let (pool, probe) = (connect(&server.url()).await, server.probe());
    for held in ["a", "b", "c"] {
        let key = format!("lock:{held}");
        assert!(probe.set_nx(&key, "another", TTL));
        let (sets, scripts) = (calls(&probe, "set"), calls(&probe, "evalsha"));
        let excuse = Excuse::begin();
        let error = pool.lock_all(["a", "b", "c"]).ttl(TTL).acquire().await;
        match error.expect_err("one is held") {
            LockError::Contended {
                key, retry_after, ..
            } => {
                assert_eq!(key, held);
                assert!(retry_after.is_some_and(|left| TTL / 2 < left && left <= TTL));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(calls(&probe, "set"), sets, "something was set");
        let tries = calls(&probe, "evalsha") - scripts;
        assert!(tries == 1 || AGAIN < excuse.so_far(), "{tries} tries");
        assert_eq!(probe.get(&key).as_deref(), Some("another"));
        probe.delete(&key);
    }
}

/// Fails if a call for several keys overtakes calls that have waited longer for one of its keys.
/// Also fails if the call never gets its locks.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_for_several_keys_queues_behind_other_calls() {
    let server = Server::start();
    let [one, two, three] = [
        connect(&server.url()).await,
        connect(&server.url()).await,
        connect(&server.url()).await,
    ];
    let held = one.lock("b").ttl(TTL).acquire().await.expect("free");
    let (probe, excuse) = (server.probe(), Excuse::begin());
    let first = tokio::spawn(async move {
        let guard = two.lock("b").ttl(TTL).wait(HANG).acquire().await?;
        tokio::time::sleep(Duration::from_millis(20)).await;
        Ok::<_, LockError>(guard.fence())
    });
    let queued = || !probe.keys("lock:*queue*").is_empty();
    wait::until_async("the first queues", HANG, queued).await;
    let all = three.lock_all(["a", "b"]).ttl(TTL).wait(HANG).acquire();
    let all = tokio::spawn(async move { all.await.map(|guard| guard.fence_of("b")) });
    wait::until_async("the second queues", HANG, || probe.exists("lock:a")).await;
    held.release().await.expect("released");
    let fences: [Option<Fence>; 2] = [
        first.await.expect("no panic").expect("its turn"),
        all.await.expect("no panic").expect("its turn"),
    ];
    let in_order = fences[0] < fences[1];
    assert!(in_order || CLAIM < excuse.so_far(), "{fences:?}");
}

/// The answer to a request for two keys is lost, so the pool repeats the request. Fails if the
/// repeated request is refused because of the locks that the first one has taken, or leaves a key
/// locked.
#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_request_gets_its_own_locks() {
    const TIMES: u64 = 5;
    let server = Server::start();
    let proxy = Proxy::start(server.address());
    let probe = server.probe();
    let pool = connect_with_patience(&proxy.url()).await;
    for after in [After::Cut, After::Silence, After::Error("READONLY lost")] {
        let before = proxy.counts().lost;
        for _ in 0..TIMES {
            proxy.lose_replies("several", 1, after);
            let all = pool.lock_all(["several:a", "several:b"]).ttl(TTL);
            let guard = all.acquire().await;
            let guard = guard.unwrap_or_else(|error| panic!("{after:?}: {error}"));
            for (key, fence) in guard.fences() {
                let value = probe.get(&format!("lock:{key}")).expect("it is held");
                let fence = fence.expect("a fence").get().to_string();
                assert_eq!(value.split(':').nth(1), Some(&*fence), "{value}");
            }
            guard.release().await.expect("released");
            let gone = || probe.keys("lock:several*").is_empty();
            wait::until_async("all are free", HANG, gone).await;
        }
        let lost = proxy.counts().lost - before;
        assert!(TIMES / 2 < lost, "{after:?}: only {lost} answers were lost");
    }
}

/// A call is dropped after the server has set its keys, but before the answer arrives. Fails if the
/// pool does not remove all of these keys.
#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_call_leaves_nothing() {
    let server = Server::start();
    let proxy = Proxy::start(server.address());
    let probe = server.probe();
    let pool = connect(&proxy.url()).await;
    let keys = ["dropped:a", "dropped:b", "dropped:c"];
    for round in 0..20 {
        let late = Duration::from_millis(20);
        proxy.set(Mode::DelayReplies(late));
        let all = pool.lock_all(keys).ttl(TTL).acquire();
        let taken = async {
            let some = || probe.keys("lock:dropped*").len() == keys.len();
            wait::until_async("the server has taken them", HANG, some).await;
        };
        tokio::select! {
            biased;
            () = taken => {}
            early = all => assert!(early.is_ok(), "{early:?}"),
        }
        proxy.pass();
        let gone = || probe.keys("lock:dropped*").is_empty();
        wait::until_async("all are free", HANG, gone).await;
        let free = pool.lock_all(keys).ttl(TTL).acquire().await;
        let guard = free.unwrap_or_else(|error| panic!("round {round}: {error}"));
        guard.release().await.expect("released");
    }
}

/// One of a call's keys is forbidden, or has data of another type. Fails if the refused call leaves
/// its other keys locked.
#[tokio::test]
async fn an_unavailable_key_leaves_the_other_keys_free() {
    let server = Server::start();
    let probe = server.probe();
    let mut user = cmd("ACL");
    let (_, rule) = leasehold::__test::permissions();
    let rule = rule.replace("~lock:*", "~lock:mine:* ~lock:%leasehold:*");
    user.arg("SETUSER").arg("few").arg("on").arg(">few");
    user.arg(rule.split(' ').collect::<Vec<_>>());
    probe.run::<()>(&user);
    let url = format!("redis://few:few@127.0.0.1:{}/", server.port());
    let pool = connect(&url).await;
    probe.run::<()>(cmd("RPUSH").arg("lock:mine:list").arg("x"));
    for (other, code) in [("theirs", "NOPERM"), ("mine:list", "WRONGTYPE")] {
        for wait in [Duration::ZERO, HANG] {
            let all = pool.lock_all(["mine:a", other, "mine:z"]).ttl(TTL);
            match all.wait(wait).acquire().await.expect_err("not to be had") {
                LockError::Unavailable { source } => assert_eq!(source.code(), code),
                other => panic!("{other:?}"),
            }
            let free = || !probe.exists("lock:mine:a") && !probe.exists("lock:mine:z");
            wait::until_async("the other keys are free", HANG, free).await;
        }
    }
    let guard = pool.lock_all(["mine:a", "mine:z"]).ttl(TTL).acquire().await;
    guard.expect("free").release().await.expect("released");
}

/// A key gets data of another type while a process queues for it. Fails if a call for several keys
/// overwrites this data.
#[tokio::test]
async fn data_of_another_type_is_not_overwritten() {
    let server = Server::start();
    let (url, probe) = (server.url(), server.probe());
    let (holder, next, third) = (
        connect(&url).await,
        connect(&url).await,
        connect(&url).await,
    );
    let held = holder.lock("b").ttl(TTL).acquire().await.expect("free");
    let waiting = tokio::spawn(next.lock("b").ttl(TTL).wait(HANG).acquire());
    let queues = || !probe.keys("lock:*queue*").is_empty();
    wait::until_async("it queues", HANG, queues).await;
    probe.delete("lock:b");
    probe.run::<()>(cmd("RPUSH").arg("lock:b").arg("theirs"));
    let all = third.lock_all(["a", "b"]).ttl(TTL).acquire().await;
    match all.expect_err("it is no lock") {
        LockError::Unavailable { source } => assert_eq!(source.code(), "WRONGTYPE"),
        other => panic!("{other:?}"),
    }
    waiting.abort();
    drop(held);
    let list: Vec<String> = probe.run(cmd("LRANGE").arg("lock:b").arg(0).arg(-1));
    assert_eq!(list, ["theirs"]);
}

/// Fails if a call gets its locks although the replica has not confirmed them, or if these locks
/// stay on the server.
#[tokio::test(flavor = "multi_thread")]
async fn locks_without_replicas_do_not_count() {
    let master = ServerOptions::new()
        .option("repl-diskless-sync-delay", &["0"])
        .start();
    let replica = ServerOptions::new().replica_of(&master).start();
    let probe = master.probe();
    let in_step = || {
        let info: String = probe.run(cmd("INFO").arg("replication"));
        info.matches("state=online").count() == 1
    };
    wait::until("the replica is in step", 3 * HANG, in_step);
    let pool = connect_with_patience(&format!("{}?replicas=1", master.url())).await;
    let all = || pool.lock_all(["a", "b"]).ttl(TTL);
    let guard = all().acquire().await.expect("confirmed");
    guard.release().await.expect("released");
    replica.pause();
    match all().acquire().await.expect_err("not confirmed") {
        LockError::Unavailable { source } => assert_eq!(source.code(), "replicas"),
        other => panic!("{other:?}"),
    }
    let gone = || probe.keys("lock:[^%]*").is_empty();
    wait::until_async("all are free", HANG, gone).await;
}

/// Fails if a call is refused after the server has forgotten its scripts, or after an outage during
/// the call's wait.
#[tokio::test(flavor = "multi_thread")]
async fn forgotten_scripts_and_outages_refuse_no_call() {
    let mut server = Server::start();
    let pool = connect(&server.url()).await;
    let all = || pool.lock_all(["a", "b"]).ttl(TTL);
    server.probe().run::<()>(cmd("SCRIPT").arg("FLUSH"));
    let guard = all().acquire().await.expect("free");
    guard.release().await.expect("released");
    server.kill();
    let waiting = tokio::spawn(all().wait(3 * HANG).acquire());
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    server.restart();
    let guard = waiting.await.expect("no panic").expect("it is back");
    guard.check().expect("held");
}
