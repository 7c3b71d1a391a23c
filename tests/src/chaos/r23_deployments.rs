//! Requirement 23 for several servers: a wrong configuration of one server is reported when the
//! pool connects.

use std::time::Duration;

use leasehold::LockPool;
use redis::cmd;

use super::canary;
use super::ground::{Ground, Requirement, local_runtime};
use super::sheet::Sheet;
use super::store::Store;
use crate::cluster::Setup;
use crate::quorum::{self, Quorum};
use crate::sentinel::{Deployment, MASTER};
use crate::server::{Server, ServerOptions};
use crate::wait;

pub(super) const REQUIREMENT: Requirement = Requirement {
    number: 23,
    what: "misconfiguration of one of several servers is reported at connect",
    stores: &[Store::Redlock, Store::Sentinel, Store::Cluster],
    run,
};

fn run(ground: &Ground, sheet: &Sheet) {
    canary::listen();
    let (reported, wanted) = match ground.store {
        Store::Redlock => (quorum(sheet), 5),
        Store::Cluster => (cluster(sheet), 5),
        _ => (sentinel(sheet), 3),
    };
    sheet.reached("mistakes reported", reported, wanted);
}

fn quorum(sheet: &Sheet) -> u64 {
    let nodes = Quorum::young(2);
    let [one, two] = [&nodes.servers[0], &nodes.servers[1]];
    let with = |third: &Server| {
        let all = [one.address(), two.address(), third.address()];
        quorum::url(all, "max_ttl=100ms")
    };
    let evicting = ServerOptions::new()
        .option("maxmemory", &["100mb"])
        .option("maxmemory-policy", &["volatile-ttl"])
        .start();
    let replica = ServerOptions::new().replica_of(one).start();
    let member = ServerOptions::new()
        .option("cluster-enabled", &["yes"])
        .start();
    let about = evicting.address().to_string();
    count(
        &[
            ("eviction", with(&evicting), "volatile-ttl"),
            ("no log of writes", with(&evicting), "appendonly"),
            ("a replica", with(&replica), "replica"),
            ("a member of a cluster", with(&member), "cluster"),
            ("a server twice", with(two), "twice"),
        ],
        &about,
        sheet,
    )
}

fn sentinel(sheet: &Sheet) -> u64 {
    let deployment = Deployment::start();
    let probe = deployment.master().probe();
    let url = deployment.url();
    probe.run::<()>(&evicting());
    let unknown = url.replace(&format!("/{MASTER}"), "/stock");
    let unused = "redis-sentinel://127.0.0.1:1,127.0.0.1:2/shop".to_owned();
    let first = deployment.ports().next().expect("a Sentinel runs");
    let about = format!("127.0.0.1:{first}");
    count(
        &[
            ("eviction", url, "allkeys-lru"),
            ("an unknown master", unknown, "the master `stock`"),
            ("no Sentinel there", unused, "no Sentinel answered"),
        ],
        &about,
        sheet,
    )
}

fn cluster(sheet: &Sheet) -> u64 {
    let cluster = Setup::new().start();
    let node = cluster.server(0);
    let about = node.address().to_string();
    cluster.probe(0).run::<()>(&evicting());
    let alone = Server::start();
    let unused = "redis-cluster://127.0.0.1:1,127.0.0.1:2".to_owned();
    let url = |server: &Server| format!("redis-cluster://{}", server.address());
    count(
        &[
            ("eviction", cluster.url(), "allkeys-lru"),
            ("no replica of a master", cluster.url(), "no replica"),
            ("one node for all", node.url(), "redis-cluster://"),
            ("not a cluster node", url(&alone), "redis://host:port"),
            ("no server there", unused, "127.0.0.1"),
        ],
        &about,
        sheet,
    )
}

fn evicting() -> redis::Cmd {
    let mut set = cmd("CONFIG");
    set.arg(&[
        "SET",
        "maxmemory",
        "100mb",
        "maxmemory-policy",
        "allkeys-lru",
    ]);
    set
}

/// Connects with each wrong configuration, and returns the number of reported mistakes. Each
/// mistake must be reported. A logged warning counts only if it names the address `about`.
fn count(cases: &[(&str, String, &str)], about: &str, sheet: &Sheet) -> u64 {
    let mut count = 0;
    for (what, url, word) in cases {
        let reported = reported(url, about, word);
        sheet.check(reported, || format!("nothing was reported about {what}"));
        count += u64::from(reported);
    }
    count
}

/// True if connecting to `url` fails with a text that contains `word`, or logs such a warning about
/// the address `about`.
fn reported(url: &str, about: &str, word: &str) -> bool {
    if let Err(error) = local_runtime().block_on(LockPool::connect(url)) {
        return error.to_string().contains(word);
    }
    let printed = || {
        let (_, lines) = canary::scan(&[about.to_owned()]);
        lines.iter().any(|line| line.contains(word))
    };
    wait::try_until(Duration::from_secs(1), printed).is_some()
}
