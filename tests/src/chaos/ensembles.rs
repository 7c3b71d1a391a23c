//! Clusters of etcd or ZooKeeper, whose locks belong to sessions, as targets of faults.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::store::Store;
use crate::etcd::Etcd;
use crate::pipe::{Flow, Pipe};
use crate::probe::Probe;
use crate::session_server::{SessionProbe, SessionServer};
use crate::zookeeper::{Network, Settings, Zookeeper};

/// Prefix of the keys (in etcd) or paths (in ZooKeeper) of all locks.
const PREFIX: &str = "chaos";

/// The longest session that a single server of ZooKeeper is configured to grant. It suffices for
/// the longest ttl of the requirements.
const LONGEST: Duration = Duration::from_secs(120);

/// A cluster whose members can be made to fail.
pub(super) enum Ensemble {
    Etcd(Vec<Etcd>),
    /// The servers, and the proxies between them if there are several servers.
    Zookeeper(Vec<Zookeeper>, Option<Network>),
}

/// Durations that follow from the sessions of a cluster.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    /// Duration of the session for a ttl of four seconds.
    pub(super) session: Duration,
    /// Longest time between the end of a session and its detection by the leader.
    pub(super) noticed: Duration,
    /// The longest time for which the lock of a dropped call may remain, with a ttl of one second
    /// and a failing network.
    pub(super) orphan: Duration,
}

impl Ensemble {
    /// Starts a cluster of `members` servers. Several servers reach each other through proxies.
    pub(super) fn start(store: Store, members: usize) -> Self {
        match (store, members) {
            (Store::Zookeeper, 1) => {
                let server = Settings::new().longest_session(LONGEST).start();
                Self::Zookeeper(vec![server], None)
            }
            (Store::Zookeeper, _) => {
                let (servers, network) = Settings::new().ensemble_with_network(members);
                Self::Zookeeper(servers, Some(network))
            }
            (_, 1) => Self::Etcd(vec![Etcd::start()]),
            _ => Self::Etcd(Etcd::cluster_with_networks(members)),
        }
    }

    pub(super) fn times(&self) -> Times {
        match self {
            Self::Etcd(_) => Times {
                session: Duration::from_secs(6),
                noticed: Duration::from_secs(1),
                // The dropped call's lock disappears in one of two ways. Without heartbeats, its
                // session ends after 2 s, and the leader detects this within a second. Otherwise,
                // the client is connected, and repeats the removal of the lock each second. Both
                // ways take less time than this.
                orphan: Duration::from_millis(4_200),
            },
            Self::Zookeeper(..) => Times {
                session: Duration::from_secs(8),
                noticed: Duration::from_secs(1),
                // The dropped call's lock disappears in one of two ways. Without heartbeats, its
                // session ends after 2.5 s, and the leader detects this within half a second.
                // Otherwise, the client opens another connection after a second of silence, and
                // removes the lock. Both ways take less time than this.
                orphan: Duration::from_secs(6),
            },
        }
    }

    pub(super) fn members(&self) -> usize {
        match self {
            Self::Etcd(servers) => servers.len(),
            Self::Zookeeper(servers, _) => servers.len(),
        }
    }

    /// Starts one proxy (a `Pipe`) to each member, for the traffic of one client.
    pub(super) fn pipes(&self) -> Vec<Pipe> {
        let members = 0..self.members();
        members
            .map(|member| Pipe::start(self.address(member)))
            .collect()
    }

    fn address(&self, member: usize) -> SocketAddr {
        match self {
            Self::Etcd(servers) => servers[member].address(),
            Self::Zookeeper(servers, _) => servers[member].address(),
        }
    }

    /// Returns the URL of the locks for a client that connects through these pipes.
    pub(super) fn url_over(&self, pipes: &[Pipe]) -> String {
        let addresses = pipes.iter().map(Pipe::address);
        match self {
            Self::Etcd(_) => Etcd::url_of_all(addresses, PREFIX),
            Self::Zookeeper(..) => Zookeeper::url_of_all(addresses, PREFIX),
        }
    }

    pub(super) fn url(&self) -> String {
        match self {
            Self::Etcd(servers) => Etcd::url_of(servers, PREFIX),
            Self::Zookeeper(servers, _) => Zookeeper::url_of(servers, PREFIX),
        }
    }

    pub(super) fn probe(&self) -> Arc<dyn Probe> {
        match self {
            Self::Etcd(servers) => Arc::new(servers[0].probe(PREFIX, "lock:")),
            Self::Zookeeper(servers, _) => Arc::new(servers[0].probe(PREFIX, "lock:")),
        }
    }

    /// Returns the nodes that sessions have left in the directories of all locks.
    pub(super) fn left(&self) -> Vec<String> {
        match self {
            Self::Etcd(servers) => servers[0].probe(PREFIX, "lock:").left(),
            Self::Zookeeper(servers, _) => servers[0].probe(PREFIX, "lock:").left(),
        }
    }

    pub(super) fn leads(&self, member: usize) -> bool {
        match self {
            Self::Etcd(servers) => servers[member].leads(),
            Self::Zookeeper(servers, _) => servers[member].leads(),
        }
    }

    pub(super) fn kill(&mut self, member: usize) {
        match self {
            Self::Etcd(servers) => servers[member].kill(),
            Self::Zookeeper(servers, _) => servers[member].kill(),
        }
    }

    /// Starts these killed members again.
    pub(super) fn restart(&mut self, members: &[usize]) {
        for member in members {
            match self {
                Self::Etcd(servers) => servers[*member].restart(),
                Self::Zookeeper(servers, _) => servers[*member].begin_restart(),
            }
        }
        if let Self::Zookeeper(servers, _) = self {
            for member in members {
                servers[*member].serves();
            }
        }
    }

    pub(super) fn pause(&self, member: usize) {
        match self {
            Self::Etcd(servers) => servers[member].pause(),
            Self::Zookeeper(servers, _) => servers[member].pause(),
        }
    }

    pub(super) fn resume(&self, member: usize) {
        match self {
            Self::Etcd(servers) => servers[member].resume(),
            Self::Zookeeper(servers, _) => servers[member].resume(),
        }
    }

    /// Drops everything that the other members send to this member. So this member answers none of
    /// their requests, although clients still reach it.
    pub(super) fn cut_off(&self, member: usize) {
        match self {
            Self::Etcd(servers) => servers[member].network().set(Flow::BlackHole),
            Self::Zookeeper(_, network) => {
                let network = network.as_ref().expect("there are other members");
                network.set(member, Flow::BlackHole);
            }
        }
    }

    /// Lets the other members reach this member again.
    pub(super) fn heal(&self, member: usize) {
        match self {
            Self::Etcd(servers) => {
                servers[member].network().set(Flow::Pass);
                servers[member].network().cut();
            }
            Self::Zookeeper(_, network) => {
                let network = network.as_ref().expect("there are other members");
                network.set(member, Flow::Pass);
                network.cut(member);
            }
        }
    }
}
