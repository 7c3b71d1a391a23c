//! Requirement 19: if too few replicas confirm a lock, the call always gets an error, and no key is
//! left. After a fail-over, one replica is the master, so too few replicas confirm a lock.

use std::time::Duration;

use leasehold::{LockError, LockGuard, LockPool};
use tokio::runtime::Runtime;

use super::ground::{Ground, Requirement, connect, runtime};
use super::sheet::Sheet;
use super::store::Store;
use crate::cluster::{Cluster, Setup};
use crate::sentinel::Deployment;
use crate::server::Server;
use crate::wait;

pub(super) const REQUIREMENT: Requirement = Requirement {
    number: 19,
    what: "a fail-over and a lock with `replicas = n` unmet: an error",
    stores: &[Store::Sentinel, Store::Replicas, Store::Cluster],
    run,
};

const TTL: Duration = Duration::from_secs(20);
const LIMIT: Duration = Duration::from_secs(60);

fn run(ground: &Ground, sheet: &Sheet) {
    match ground.store {
        Store::Cluster => on::<Part>(ground, sheet),
        _ => on::<Watched>(ground, sheet),
    }
}

/// A master with replicas. One replica can be stopped, and the master can be killed.
trait Master {
    /// Number of the master's replicas, as the text for the option `replicas` in a URL.
    const REPLICAS: &str;

    fn start() -> Self;

    /// Returns the URL for a pool, without options.
    fn url(&self) -> String;

    /// Returns `name` as part of a key that belongs to this master.
    fn key(&self, name: &str) -> String;

    /// Returns the existing keys that begin with `name`, a key from [`key`](Self::key).
    fn left(&self, name: &str) -> Vec<String>;

    fn stop_a_replica(&mut self);

    /// Resumes the stopped replica.
    fn resume(&mut self);

    /// Kills the master and waits until a replica has replaced it.
    fn fail_over(&mut self);

    /// Starts the killed master again, as a replica.
    fn bring_back(&mut self);
}

fn on<M: Master>(ground: &Ground, sheet: &Sheet) {
    let each = ground.count(500, 20);
    let mut master = M::start();
    let runtime = runtime(2);
    let base = master.url();
    let pool = |replicas| runtime.block_on(connect(&format!("{base}?replicas={replicas}")));
    let wanted = [M::REPLICAS, "all"].map(|replicas| (replicas, pool(replicas)));
    sheet.faults("SIGSTOP of a replica", 1);
    master.stop_a_replica();
    for (replicas, pool) in &wanted {
        let name = master.key(&format!("stopped-{replicas}"));
        refused(&runtime, pool, &name, each, sheet);
    }
    nothing_is_left(&master, "stopped-", sheet);
    master.resume();
    // After the fail-over, too few replicas can confirm a lock, because one of them has become the
    // master.
    sheet.faults("SIGKILL of the master", 1);
    master.fail_over();
    for (replicas, pool) in &wanted {
        let name = master.key(&format!("after-{replicas}"));
        refused(&runtime, pool, &name, each, sheet);
    }
    nothing_is_left(&master, "after-", sheet);
    master.bring_back();
    for (replicas, pool) in &wanted {
        let key = master.key(&format!("back-{replicas}"));
        let back = pool.lock(key).ttl(TTL).wait(LIMIT);
        let back = runtime.block_on(back.acquire());
        sheet.check(back.is_ok(), || {
            format!("replicas = {replicas}: all are back, and {back:?}")
        });
    }
    sheet.reached("acquisitions without enough replicas", 4 * each, 2_000);
}

fn refused(runtime: &Runtime, pool: &LockPool, name: &str, times: u64, sheet: &Sheet) {
    runtime.block_on(async {
        let mut calls = tokio::task::JoinSet::new();
        for number in 0..times {
            calls.spawn(pool.lock(format!("{name}-{number}")).ttl(TTL).acquire());
        }
        for ended in calls.join_all().await {
            judge(name, ended, sheet);
        }
    });
}

/// Fails if keys of refused calls stay. The limit is shorter than the ttl, so only the pools can
/// have removed the keys.
fn nothing_is_left<M: Master>(master: &M, name: &str, sheet: &Sheet) {
    let left = || master.left(&master.key(name));
    let clean = wait::try_until(TTL / 2, || left().is_empty());
    sheet.check(clean.is_some(), || format!("left: {:?}", left()));
}

fn judge(name: &str, ended: Result<LockGuard, LockError>, sheet: &Sheet) {
    match ended {
        Err(LockError::Unavailable { .. }) => {}
        Err(error) => sheet.fail(format!("{name}: {error:?}")),
        Ok(_) => sheet.overlap(format!(
            "{name}: a lock counts that a replica does not have"
        )),
    }
}

/// The master of a Sentinel deployment.
struct Watched {
    deployment: Deployment,
    stopped: Option<u16>,
    dead: Option<Server>,
}

impl Master for Watched {
    const REPLICAS: &str = "2";

    fn start() -> Self {
        Self {
            deployment: Deployment::start(),
            stopped: None,
            dead: None,
        }
    }

    fn url(&self) -> String {
        self.deployment.url()
    }

    fn key(&self, name: &str) -> String {
        name.to_owned()
    }

    fn left(&self, name: &str) -> Vec<String> {
        let probe = self.deployment.master().probe();
        probe.keys(&format!("lock:{name}*"))
    }

    fn stop_a_replica(&mut self) {
        let replica = self.deployment.replicas().next().expect("there are two");
        replica.pause();
        self.stopped = Some(replica.port());
    }

    fn resume(&mut self) {
        if let Some(stopped) = self.stopped.take() {
            self.deployment.resume(stopped);
        }
    }

    fn fail_over(&mut self) {
        self.dead = Some(self.deployment.fail_over());
    }

    fn bring_back(&mut self) {
        if let Some(dead) = self.dead.take() {
            self.deployment.bring_back(dead);
        }
    }
}

/// One master of a cluster, with its slots.
struct Part {
    cluster: Cluster,
    /// A hash tag that puts keys into a slot of this master.
    tag: String,
    /// Index of the replica that replaces the master.
    successor: usize,
    master: usize,
}

impl Master for Part {
    const REPLICAS: &str = "1";

    fn start() -> Self {
        let cluster = Setup::new().with_replicas().start();
        let tag = "{part}".to_owned();
        let master = cluster.owner(cluster.slot(&tag));
        Self {
            successor: cluster.replica_of(master),
            cluster,
            tag,
            master,
        }
    }

    fn url(&self) -> String {
        format!("{}/", self.cluster.url())
    }

    fn key(&self, name: &str) -> String {
        format!("{}{name}", self.tag)
    }

    fn left(&self, name: &str) -> Vec<String> {
        let mut keys = self.cluster.keys();
        keys.retain(|key| key.starts_with(&format!("lock:{name}")));
        keys
    }

    fn stop_a_replica(&mut self) {
        self.cluster.pause(self.successor);
    }

    fn resume(&mut self) {
        self.cluster.resume(self.successor);
        self.cluster.wait_until_whole();
    }

    fn fail_over(&mut self) {
        self.cluster.kill(self.master);
        self.cluster.wait_until_taken_over(self.successor);
    }

    fn bring_back(&mut self) {
        self.cluster.restart(self.master);
        self.cluster.wait_until_whole();
    }
}
