//! Several independent servers.

use std::thread;
use std::time::{Duration, Instant};

use leasehold::{LockPool, LockPoolBuilder};
use leasehold_tests::redis_probe::{RedisProbe, Value};
use leasehold_tests::server::Server;

/// The ttl of most scenes; the nodes must be older than it before they vote.
pub(crate) const TTL: Duration = Duration::from_secs(1);
/// What the store adds to the longest ttl, and what a server's own count of its age can be short of.
const SLACK: Duration = Duration::from_millis(3_100);

/// Independent masters.
pub(crate) struct Nodes {
    pub(crate) servers: Vec<Server>,
    started: Instant,
}

impl Nodes {
    /// As many new servers, too young to vote.
    pub(crate) fn young(count: usize) -> Self {
        let starting: Vec<_> = (0..count).map(|_| thread::spawn(Server::start)).collect();
        let started = starting.into_iter().map(|server| server.join());
        Self {
            servers: started.map(|server| server.expect("it starts")).collect(),
            started: Instant::now(),
        }
    }

    /// As many servers that vote on locks of [`TTL`] and below.
    pub(crate) fn start(count: usize) -> Self {
        Self::older_than(count, TTL)
    }

    /// As many servers that vote on locks of `ttl` and below.
    pub(crate) fn older_than(count: usize, ttl: Duration) -> Self {
        let nodes = Self::young(count);
        nodes.grow_older_than(ttl);
        nodes
    }

    pub(crate) fn grow_older_than(&self, ttl: Duration) {
        thread::sleep((ttl + SLACK).saturating_sub(self.started.elapsed()));
    }

    /// Their URL. Nobody uses a longer ttl than what each test asks for.
    pub(crate) fn url(&self) -> String {
        self.url_with("max_ttl=100ms")
    }

    pub(crate) fn url_with(&self, options: &str) -> String {
        let addresses: Vec<_> = self
            .servers
            .iter()
            .map(|server| server.address().to_string())
            .collect();
        format!("redlock://{}/?{options}", addresses.join(","))
    }

    pub(crate) fn builder(&self) -> LockPoolBuilder {
        LockPool::builder().url(self.url())
    }

    pub(crate) async fn pool(&self) -> LockPool {
        self.builder().connect().await.expect("the nodes answer")
    }

    pub(crate) fn probes(&self) -> Vec<RedisProbe> {
        let servers = self.servers.iter();
        servers
            .map(|server| server.probe().namespace("lock:"))
            .collect()
    }
}

/// What each node has for `key`.
pub(crate) fn values(probes: &[RedisProbe], key: &str) -> Vec<Option<Value>> {
    probes.iter().map(|probe| probe.value(key)).collect()
}

/// On how many nodes `key` is.
pub(crate) fn count(probes: &[RedisProbe], key: &str) -> usize {
    probes
        .iter()
        .filter(|probe| probe.get(key).is_some())
        .count()
}

/// The locks that are left on the nodes, whatever their keys.
pub(crate) fn left(probes: &[RedisProbe]) -> Vec<String> {
    let keys = probes.iter().flat_map(|probe| probe.keys("lock:*"));
    keys.filter(|key| !key.starts_with("lock:%")).collect()
}
