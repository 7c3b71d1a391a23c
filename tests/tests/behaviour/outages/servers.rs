//! The servers of one store, which a test kills and restarts.

use leasehold_tests::cluster::{Cluster, MASTERS, Setup};
use leasehold_tests::etcd::Etcd;
use leasehold_tests::postgres::{Database, Postgres};
use leasehold_tests::quorum::Quorum;
use leasehold_tests::sentinel::{Deployment, Setup as Sentinels};
use leasehold_tests::server::Server;
use leasehold_tests::session_server::{SessionProbe as _, SessionServer as _};
use leasehold_tests::zookeeper::Zookeeper;

/// The prefix of all locks on etcd and ZooKeeper.
const PREFIX: &str = "outages";

pub(super) enum Servers {
    Redis(Server),
    /// The Sentinels, and the master that they name.
    Sentinel(Deployment, Server),
    Cluster(Cluster),
    Redlock(Quorum),
    Postgres(Postgres, Database),
    Etcd(Etcd),
    Zookeeper(Zookeeper),
}

impl Servers {
    pub(super) fn redis() -> Self {
        Self::Redis(Server::start())
    }

    pub(super) fn sentinel() -> Self {
        let master = Server::start();
        let sentinels = Sentinels::new().start_naming_port(master.port());
        Self::Sentinel(sentinels, master)
    }

    pub(super) fn cluster() -> Self {
        Self::Cluster(Setup::new().start())
    }

    pub(super) fn redlock() -> Self {
        Self::Redlock(Quorum::old(3))
    }

    pub(super) fn postgres() -> Self {
        let server = Postgres::start();
        let database = server.migrated();
        Self::Postgres(server, database)
    }

    pub(super) fn etcd() -> Self {
        Self::Etcd(Etcd::start())
    }

    pub(super) fn zookeeper() -> Self {
        Self::Zookeeper(Zookeeper::start())
    }

    pub(super) fn url(&self) -> String {
        match self {
            Self::Redis(server) => server.url(),
            Self::Sentinel(deployment, _) => deployment.url(),
            Self::Cluster(cluster) => cluster.url(),
            Self::Redlock(quorum) => quorum.url_with("max_ttl=100ms&node_timeout=1s"),
            Self::Postgres(_, database) => database.url(),
            Self::Etcd(server) => server.url(PREFIX),
            Self::Zookeeper(server) => server.url(PREFIX),
        }
    }

    /// Kills all servers that store locks (not the Sentinels).
    pub(super) fn kill(&mut self) {
        match self {
            Self::Redis(server) => server.kill(),
            Self::Sentinel(_, master) => master.kill(),
            Self::Cluster(cluster) => (0..MASTERS).for_each(|node| cluster.kill(node)),
            Self::Redlock(quorum) => quorum.servers.iter_mut().for_each(Server::kill),
            Self::Postgres(server, _) => server.kill(),
            Self::Etcd(server) => server.kill(),
            Self::Zookeeper(server) => server.kill(),
        }
    }

    /// The keys of locks, or the paths of their nodes, that contain `part`.
    pub(super) fn keys_with(&self, part: &str) -> Vec<String> {
        let mut keys: Vec<String> = match self {
            Self::Redis(server) | Self::Sentinel(_, server) => server.probe().keys("*"),
            Self::Cluster(cluster) => cluster.keys(),
            Self::Redlock(quorum) => {
                let probes = quorum.probes();
                probes.iter().flat_map(|probe| probe.keys("*")).collect()
            }
            Self::Postgres(_, database) => {
                let probe = database.probe("");
                // The rows of free locks would stay for a minute.
                probe.value("SELECT leasehold.sweep('0 seconds')");
                let keys = probe.value("SELECT string_agg(key, ' ') FROM leasehold.locks");
                keys.split_whitespace().map(str::to_owned).collect()
            }
            Self::Etcd(server) => server.probe(PREFIX, "").left(),
            Self::Zookeeper(server) => server.probe(PREFIX, "").left(),
        };
        keys.retain(|key| key.contains(part));
        keys
    }

    /// The number of sessions on the servers. Zero on a store without sessions.
    pub(super) fn sessions(&self) -> usize {
        match self {
            Self::Etcd(server) => server.gateway().list(&format!("{PREFIX}/%/")).len(),
            Self::Zookeeper(server) => {
                let names = server.client().names(&format!("/{PREFIX}/%"));
                names.iter().filter(|name| !name.contains('-')).count()
            }
            _ => 0,
        }
    }

    /// Starts the killed servers again.
    pub(super) fn restart(&mut self) {
        match self {
            Self::Redis(server) => server.restart(),
            Self::Sentinel(_, master) => master.restart(),
            Self::Cluster(cluster) => (0..MASTERS).for_each(|node| cluster.restart(node)),
            Self::Redlock(quorum) => quorum.servers.iter_mut().for_each(Server::restart),
            Self::Postgres(server, _) => server.restart(),
            Self::Etcd(server) => server.restart(),
            Self::Zookeeper(server) => server.restart(),
        }
    }
}
