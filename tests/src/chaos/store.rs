//! The store of the locks in a run.

/// Where the locks of a run are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Store {
    /// A `redis-server` of the run's own.
    Redis,
    /// `memory://`.
    Memory,
    /// Independent masters, three and five.
    Redlock,
    /// A master, two replicas and three Sentinels.
    Sentinel,
    /// The same, with locks that count once replicas have them.
    Replicas,
    /// A cluster of three masters and three replicas.
    Cluster,
    /// A PostgreSQL of the run's own.
    Postgres,
    /// A cluster of three members of etcd; one where a requirement needs one server.
    Etcd,
    /// An ensemble of three servers of ZooKeeper; one where a requirement needs one server.
    Zookeeper,
}

/// The deployments beside one Redis. Each one's name is its variant in small letters.
pub const DEPLOYMENTS: [Store; 7] = [
    Store::Redlock,
    Store::Sentinel,
    Store::Replicas,
    Store::Cluster,
    Store::Postgres,
    Store::Etcd,
    Store::Zookeeper,
];

impl Store {
    /// Its name on the command line.
    pub fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}
