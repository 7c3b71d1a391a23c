//! Several independent servers.

use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use leasehold::{LockPool, LockPoolBuilder};
use leasehold_tests::redis_probe::{RedisProbe, Value};
use leasehold_tests::server::Server;
use leasehold_tests::wait;

/// The ttl of most scenes; the nodes must be older than it before they vote.
pub(crate) const TTL: Duration = Duration::from_secs(1);
/// What the store adds to the longest ttl.
const SLACK: Duration = Duration::from_secs(2);

/// Independent masters.
pub(crate) struct Nodes {
    pub(crate) servers: Vec<Server>,
}

impl Nodes {
    /// As many new servers, too young to vote.
    pub(crate) fn young(count: usize) -> Self {
        let starting: Vec<_> = (0..count).map(|_| thread::spawn(Server::start)).collect();
        let started = starting.into_iter().map(|server| server.join());
        Self {
            servers: started.map(|server| server.expect("it starts")).collect(),
        }
    }

    /// As many servers that vote on locks of [`TTL`] and below.
    pub(crate) fn start(count: usize) -> Self {
        Self::older_than(count, TTL)
    }

    /// Three or five nodes for all scenes that break nothing and use keys of their own, which vote on locks of `ttl` and below.
    pub(crate) fn shared(count: usize, ttl: Duration) -> &'static Self {
        static THREE: OnceLock<Nodes> = OnceLock::new();
        static FIVE: OnceLock<Nodes> = OnceLock::new();
        let shared = if count == 3 { &THREE } else { &FIVE };
        let nodes = shared.get_or_init(|| Self::young(count));
        nodes.grow_older_than(ttl);
        nodes
    }

    /// As many servers that vote on locks of `ttl` and below.
    pub(crate) fn older_than(count: usize, ttl: Duration) -> Self {
        let nodes = Self::young(count);
        nodes.grow_older_than(ttl);
        nodes
    }

    /// Waits until all are older than a lock of `ttl` can be, by their own count.
    pub(crate) fn grow_older_than(&self, ttl: Duration) {
        let enough = (ttl + SLACK).as_secs_f64().ceil();
        let mut info = redis::cmd("INFO");
        info.arg("server");
        for server in &self.servers {
            let probe = server.probe();
            wait::until("the node is old enough", ttl + SLACK * 5, || {
                let told: String = probe.run(&info);
                let mut lines = told.lines();
                let uptime = lines.find_map(|line| line.strip_prefix("uptime_in_seconds:"));
                let uptime = uptime.and_then(|uptime| uptime.trim().parse::<f64>().ok());
                thread::sleep(Duration::from_millis(20));
                uptime.is_some_and(|uptime| uptime >= enough)
            });
        }
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

/// The locks that are left on the nodes with keys that begin like this.
pub(crate) fn left(probes: &[RedisProbe], prefix: &str) -> Vec<String> {
    let pattern = format!("lock:{prefix}*");
    probes
        .iter()
        .flat_map(|probe| probe.keys(&pattern))
        .collect()
}
