//! Several independent Redis servers, the nodes of a `redlock://` store. A newly started node may
//! have forgotten locks that it granted earlier. So its vote counts only after the node has run for
//! longer than the longest ttl.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use crate::probe::Probe;
use crate::proxy::Proxy;
use crate::redis_probe::RedisProbe;
use crate::server::{Server, ServerOptions};
use crate::server_clock::ServerClock;
use crate::wait;

/// Time that a node waits in addition to the longest ttl before it begins to vote.
const SLACK: Duration = Duration::from_secs(2);

const DAY: Duration = Duration::from_secs(86_400);

/// Independent Redis servers, the nodes of a `redlock://` store.
#[derive(Debug)]
pub struct Quorum {
    /// The nodes.
    pub servers: Vec<Server>,
}

impl Quorum {
    /// Starts `count` servers. They do not vote yet, because they have just been started.
    ///
    /// # Panics
    ///
    /// Panics if a server does not start.
    pub fn young(count: usize) -> Self {
        Self::start(count, &ServerOptions::new())
    }

    /// Starts `count` servers that vote at once on locks of any ttl. After the start, their clocks
    /// are set forward, so the servers report an uptime of more than one day, the largest allowed
    /// ttl.
    ///
    /// # Panics
    ///
    /// Panics if a server does not start.
    pub fn old(count: usize) -> Self {
        Self::old_with(count, &ServerOptions::new())
    }

    /// Like [`old`](Self::old), with this configuration of each server.
    ///
    /// # Panics
    ///
    /// Panics if a server does not start.
    pub fn old_with(count: usize, options: &ServerOptions) -> Self {
        let clock = ServerClock::new();
        let nodes = Self::start(count, &options.clone().clock(&clock));
        let seconds = i64::try_from((DAY + SLACK * 5).as_secs());
        clock.set(seconds.expect("it is short"));
        nodes.grow_older_than(DAY);
        nodes
    }

    fn start(count: usize, options: &ServerOptions) -> Self {
        let start = || {
            let options = options.clone();
            thread::spawn(move || options.start())
        };
        let starting: Vec<_> = (0..count).map(|_| start()).collect();
        let started = starting.into_iter().map(thread::JoinHandle::join);
        Self {
            servers: started.map(|server| server.expect("it starts")).collect(),
        }
    }

    /// Starts `count` servers, and waits until they vote on locks with a ttl of up to `ttl`.
    pub fn older_than(count: usize, ttl: Duration) -> Self {
        let nodes = Self::young(count);
        nodes.grow_older_than(ttl);
        nodes
    }

    /// Waits until all servers have run for long enough to vote on a lock of `ttl`.
    ///
    /// # Panics
    ///
    /// Panics if a server does not answer.
    pub fn grow_older_than(&self, ttl: Duration) {
        let enough = (ttl + SLACK).as_secs_f64().ceil();
        let mut info = redis::cmd("INFO");
        info.arg("server");
        for server in &self.servers {
            let probe = server.probe();
            wait::until("the node is old enough", ttl + SLACK * 5, || {
                let printed: String = probe.run(&info);
                let mut lines = printed.lines();
                let uptime = lines.find_map(|line| line.strip_prefix("uptime_in_seconds:"));
                let uptime = uptime.and_then(|uptime| uptime.trim().parse::<f64>().ok());
                uptime.is_some_and(|uptime| uptime >= enough)
            });
        }
    }

    /// The URL of the nodes. A node votes once it is older than `max_ttl` and all ttls in use. This
    /// URL has a short `max_ttl`, so only the ttls of the test matter.
    pub fn url(&self) -> String {
        self.url_with("max_ttl=100ms")
    }

    /// The URL of the nodes with these options, which replace the short `max_ttl` of
    /// [`url`](Self::url).
    pub fn url_with(&self, options: &str) -> String {
        url(self.servers.iter().map(Server::address), options)
    }

    /// Starts a proxy in front of each node.
    pub fn proxies(&self) -> Vec<Proxy> {
        let servers = self.servers.iter();
        servers
            .map(|server| Proxy::start(server.address()))
            .collect()
    }

    /// Connects a probe to each node.
    pub fn probes(&self) -> Vec<RedisProbe> {
        let servers = self.servers.iter();
        servers
            .map(|server| server.probe().namespace("lock:"))
            .collect()
    }
}

/// The URL of the nodes at these addresses.
pub fn url(addresses: impl IntoIterator<Item = SocketAddr>, options: &str) -> String {
    let nodes = addresses.into_iter().map(|address| address.to_string());
    format!(
        "redlock://{}/?{options}",
        nodes.collect::<Vec<_>>().join(",")
    )
}

/// Number of nodes that have `key`.
pub fn count(probes: &[RedisProbe], key: &str) -> usize {
    let there = probes.iter().filter(|probe| probe.get(key).is_some());
    there.count()
}

/// The keys that remain on any node and begin with `lock:` and `prefix`. Leasehold's internal keys
/// (`lock:%…`) are left out.
pub fn left(probes: &[RedisProbe], prefix: &str) -> Vec<String> {
    let pattern = format!("lock:{prefix}*");
    let keys = probes.iter().flat_map(|probe| probe.keys(&pattern));
    keys.filter(|key| !key.starts_with("lock:%")).collect()
}

/// A probe for keys with one prefix on all nodes of a quorum. For the probe, a lock is held if most
/// nodes have its key. The probe can act as another holder.
#[derive(Debug)]
pub struct QuorumProbe {
    nodes: Vec<RedisProbe>,
}

impl QuorumProbe {
    /// A probe for the keys with this prefix.
    pub fn new(quorum: &Quorum, prefix: &str) -> Self {
        let nodes = quorum.servers.iter();
        Self {
            nodes: nodes.map(|node| node.probe().namespace(prefix)).collect(),
        }
    }

    fn majority(&self, holds: impl Fn(&RedisProbe) -> bool) -> bool {
        let count = self.nodes.iter().filter(|node| holds(node)).count();
        self.nodes.len() < 2 * count
    }
}

impl Probe for QuorumProbe {
    fn exists(&self, key: &str) -> bool {
        self.majority(|node| node.exists(key))
    }

    fn take(&self, key: &str, ttl: Duration) -> bool {
        let taken = self.majority(|node| node.take(key, ttl));
        if !taken {
            self.give_back(key);
        }
        taken
    }

    fn untouched(&self, key: &str) -> bool {
        self.majority(|node| node.untouched(key))
    }

    fn steal(&self, key: &str, ttl: Duration) {
        for node in &self.nodes {
            node.steal(key, ttl);
        }
    }

    fn give_back(&self, key: &str) {
        for node in &self.nodes {
            node.give_back(key);
        }
    }
}
