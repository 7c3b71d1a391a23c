//! Names of a pool's connections, as operators see them in `CLIENT LIST`.

use std::time::Duration;

use leasehold::LockPool;
use leasehold_tests::cluster::Setup;
use leasehold_tests::quorum::Quorum;
use leasehold_tests::redis_probe::RedisProbe;
use leasehold_tests::server::ServerOptions;
use leasehold_tests::wait;
use redis::cmd;

const LONG: Duration = Duration::from_secs(20);

/// Returns the names of all connections that have a name.
fn names(probe: &RedisProbe) -> Vec<String> {
    let list: String = probe.run(cmd("CLIENT").arg("LIST"));
    let names = list.lines().filter_map(|line| {
        let mut words = line.split(' ');
        words.find_map(|word| word.strip_prefix("name="))
    });
    let names = names.filter(|name| !name.is_empty());
    names.map(str::to_owned).collect()
}

fn is_ours(name: &str) -> bool {
    let end = format!(":{}", std::process::id());
    name.starts_with("leasehold:") && name.ends_with(&end) && name.matches(':').count() == 2
}

/// Fails unless the server of each probe has `count` connections with a name, all of them
/// connections of leasehold.
#[track_caller]
fn expect<'a>(probes: impl IntoIterator<Item = &'a RedisProbe>, count: usize) {
    for probe in probes {
        let mut seen = Vec::new();
        let named = wait::try_until(LONG, || {
            seen = names(probe);
            seen.len() == count && seen.iter().all(|name| is_ours(name))
        });
        assert!(named.is_some(), "{seen:?}");
    }
}

/// Fails if a connection or its replacement has no name, or if the name shows the password.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_connections_of_a_pool_have_a_name() {
    let server = ServerOptions::new().password("hunter2").start();
    let probe = server.probe();
    let url = format!("redis://:hunter2@127.0.0.1:{}/", server.port());
    let pool = wait::connected(LockPool::builder().url(&url)).await;
    expect([&probe], 1);
    let mut kill = cmd("CLIENT");
    kill.arg("KILL")
        .arg("TYPE")
        .arg("normal")
        .arg("SKIPME")
        .arg("yes");
    probe.run::<u64>(&kill);
    kill = cmd("CLIENT");
    kill.arg("KILL").arg("TYPE").arg("pubsub");
    probe.run::<u64>(&kill);
    let again = pool.lock("k").ttl(LONG).wait(LONG).acquire().await;
    again
        .expect("connected again")
        .release()
        .await
        .expect("held");
    expect([&probe], 1);
    let list: String = probe.run(cmd("CLIENT").arg("LIST"));
    assert!(!list.contains("hunter2"));
}

/// Fails if the connection to a node of a quorum or of a cluster has no name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_to_quorums_and_clusters_have_a_name() {
    let quorum = Quorum::young(3);
    let pool = wait::connected(LockPool::builder().url(quorum.url())).await;
    expect(&quorum.probes(), 1);
    drop(pool);
    let cluster = Setup::new().start();
    let pool = wait::connected(LockPool::builder().url(cluster.url())).await;
    expect((0..3).map(|node| cluster.probe(node)), 1);
    drop(pool);
}

/// Fails if the pool cannot use a server without the command `CLIENT`.
#[tokio::test]
async fn a_server_without_client_names_is_usable() {
    let server = ServerOptions::new()
        .option("rename-command", &["CLIENT", "NOTHERE"])
        .start();
    let pool = LockPool::builder().url(server.url()).io_timeout(LONG);
    let pool = wait::connected(pool).await;
    let guard = pool.lock("k").ttl(LONG).acquire().await.expect("free");
    guard.release().await.expect("held");
    let list: String = server.probe().run(cmd("NOTHERE").arg("LIST"));
    assert!(!list.contains("leasehold"), "{list}");
}
