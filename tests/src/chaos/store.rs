//! The store of the locks in a run.

/// The store of a run's locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Store {
    /// A dedicated `redis-server`.
    Redis,
    /// `memory://`.
    Memory,
    /// Three or five independent masters.
    Redlock,
    /// A master, two replicas and three Sentinels.
    Sentinel,
    /// Like `Sentinel`, but a lock is granted only after replicas have confirmed it.
    Replicas,
    /// A cluster of three masters and three replicas.
    Cluster,
    /// A dedicated PostgreSQL.
    Postgres,
    /// A cluster of three members of etcd, or one server if a requirement needs only one.
    Etcd,
    /// An ensemble of three servers of ZooKeeper, or one server if a requirement needs only one.
    Zookeeper,
}

/// All deployments except a single Redis and memory. The name of a deployment on the command line
/// is its variant in lower case.
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
    /// Returns the name of the store on the command line.
    pub fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}
