//! A server whose locks belong to sessions: the common interface of etcd and ZooKeeper for tests.

use std::net::SocketAddr;
use std::time::Duration;

use crate::probe::Probe;
use crate::process::Leashed;
use crate::wait;

/// Limit for a cluster to choose a leader.
const ELECTION: Duration = Duration::from_secs(60);

/// A running server, alone or in a cluster.
pub trait SessionServer: Sized + Send + Sync + 'static {
    /// The probe for its locks.
    type Probe: SessionProbe + 'static;

    /// The scheme of its URLs, without `://`.
    const SCHEME: &'static str;

    /// The server that all tests of this program share.
    fn shared() -> &'static Self;

    /// Starts a separate server for one test, outside any cluster.
    ///
    /// # Panics
    ///
    /// Panics if the server's program is missing or does not start. The message explains what to
    /// do.
    fn start() -> Self;

    /// Starts a cluster of `members` servers.
    ///
    /// # Panics
    ///
    /// Panics like [`start`](Self::start).
    fn cluster(members: usize) -> Vec<Self>;

    /// The URL of locks under `prefix` on members with these addresses.
    fn url_of_all(members: impl IntoIterator<Item = SocketAddr>, prefix: &str) -> String;

    /// The URL of locks under `prefix` on a whole cluster.
    fn url_of(servers: &[Self], prefix: &str) -> String {
        Self::url_of_all(servers.iter().map(Self::address), prefix)
    }

    /// The URL of locks under `prefix` on this server.
    fn url(&self, prefix: &str) -> String {
        Self::url_of_all([self.address()], prefix)
    }

    /// Its address for clients.
    fn address(&self) -> SocketAddr;

    /// Connects a probe for the locks under `prefix` whose keys begin with `namespace`.
    fn probe(&self, prefix: &str, namespace: &str) -> Self::Probe;

    /// True if this server considers itself the leader of its cluster. A leader replaced while
    /// paused still does so for a moment.
    fn leads(&self) -> bool;

    /// Its process.
    ///
    /// # Panics
    ///
    /// Panics if it was killed.
    fn running(&self) -> &Leashed;

    /// Stops the process where it is; connections stay open and nothing answers.
    fn pause(&self) {
        self.running().pause();
    }

    /// Lets a paused server go on.
    fn resume(&self) {
        self.running().resume();
    }

    /// Kills the server (SIGKILL). Everything that it has confirmed is in its files.
    fn kill(&mut self);

    /// Starts its process, which must not be running.
    fn spawn(&mut self);

    /// Starts the server again without waiting for it: members that were killed together need each
    /// other.
    fn begin_restart(&mut self) {
        self.kill();
        self.spawn();
    }

    /// Waits until it serves clients.
    ///
    /// # Panics
    ///
    /// Panics if it does not.
    fn serves(&mut self);

    /// Starts the server again with the same files and port, after [`kill`](Self::kill) or instead
    /// of the running one.
    ///
    /// # Panics
    ///
    /// Panics if it does not start.
    fn restart(&mut self) {
        self.begin_restart();
        self.serves();
    }
}

/// Joins the addresses of members with commas, as in URLs and for the clients of the servers'
/// makers.
pub fn addresses(members: impl IntoIterator<Item = SocketAddr>) -> String {
    let members = members.into_iter().map(|member| member.to_string());
    members.collect::<Vec<_>>().join(",")
}

/// Waits until a member other than `before` leads the cluster, and returns its index.
///
/// # Panics
///
/// Panics if none does.
pub fn leader<S: SessionServer>(servers: &[S], before: Option<usize>) -> usize {
    let mut leader = None;
    let took = wait::until("there is a leader", ELECTION, || {
        let mut all = servers.iter().enumerate();
        leader = all.position(|(at, server)| Some(at) != before && server.leads());
        leader.is_some()
    });
    let leader = leader.expect("one leads");
    println!("{leader} leads after {took:?}");
    leader
}

/// A node in the directory of a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its path: in etcd, its key.
    pub path: String,
    /// The session whose end deletes the node; 0 for a persistent node.
    pub session: i64,
}

/// Looks at the nodes of locks and of sessions.
pub trait SessionProbe: Probe {
    /// The nodes of a lock's holder and of its waiters, in their order.
    fn nodes(&self, key: &str) -> Vec<Node>;

    /// The paths of all nodes of locks, without those of sessions.
    fn left(&self) -> Vec<String>;

    /// The paths of revocations, which ask sessions to give nodes back.
    fn revocations(&self) -> Vec<String>;

    /// The path of a session's own node.
    fn own_node(&self, session: i64) -> String;

    /// Deletes a node. Returns `true` if it existed.
    fn delete(&self, path: &str) -> bool;
}
