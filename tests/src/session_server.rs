//! A server whose locks belong to sessions: the common interface of etcd and ZooKeeper for tests.

use std::net::SocketAddr;
use std::time::Duration;

use crate::probe::Probe;
use crate::process::Leashed;
use crate::wait;

/// Time limit for a cluster to choose a leader.
const ELECTION: Duration = Duration::from_secs(60);

/// A running server, alone or in a cluster.
pub trait SessionServer: Sized + Send + Sync + 'static {
    /// The type of the probe for the server's locks.
    type Probe: SessionProbe + 'static;

    /// The scheme of the server's URLs, without `://`.
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

    /// The URL of locks under `prefix` on the cluster members at these addresses.
    fn url_of_all(members: impl IntoIterator<Item = SocketAddr>, prefix: &str) -> String;

    /// The URL of locks under `prefix` on a whole cluster.
    fn url_of(servers: &[Self], prefix: &str) -> String {
        Self::url_of_all(servers.iter().map(Self::address), prefix)
    }

    /// The URL of locks under `prefix` on this server.
    fn url(&self, prefix: &str) -> String {
        Self::url_of_all([self.address()], prefix)
    }

    /// Bytes that are only in a client's request to remove the node at `path`, for [`Pipe::hold`].
    ///
    /// [`Pipe::hold`]: crate::pipe::Pipe::hold
    fn removal(path: &str) -> Vec<u8>;

    /// The server's address for clients.
    fn address(&self) -> SocketAddr;

    /// Connects a probe for the locks under `prefix`. The probe adds `namespace` to the beginning
    /// of each key.
    fn probe(&self, prefix: &str, namespace: &str) -> Self::Probe;

    /// True if this server considers itself the leader of its cluster. If a leader is replaced
    /// while it is paused, it still considers itself the leader for a moment after it resumes.
    fn leads(&self) -> bool;

    /// The server's process.
    ///
    /// # Panics
    ///
    /// Panics if the process was killed.
    fn running(&self) -> &Leashed;

    /// Stops the process (SIGSTOP). Connections stay open, and nothing answers.
    fn pause(&self) {
        self.running().pause();
    }

    /// Lets a paused server run again.
    fn resume(&self) {
        self.running().resume();
    }

    /// Kills the server (SIGKILL). Everything that the server has confirmed remains in its files.
    fn kill(&mut self);

    /// Starts the server's process, which must not be running.
    fn spawn(&mut self);

    /// Kills the server if it runs, and starts it again without waiting for its first answer. This
    /// is for members that were killed together, because none answers before most run again.
    fn begin_restart(&mut self) {
        self.kill();
        self.spawn();
    }

    /// Waits until the server answers clients.
    ///
    /// # Panics
    ///
    /// Panics if the server does not answer in time.
    fn serves(&mut self);

    /// Kills the server if it runs, and starts it again with the same files and port.
    ///
    /// # Panics
    ///
    /// Panics if the server does not start.
    fn restart(&mut self) {
        self.begin_restart();
        self.serves();
    }
}

/// Joins the addresses of members with commas, as in leasehold's URLs and in the configuration of
/// other clients.
pub fn addresses(members: impl IntoIterator<Item = SocketAddr>) -> String {
    let members = members.into_iter().map(|member| member.to_string());
    members.collect::<Vec<_>>().join(",")
}

/// Waits until a member other than `before` leads the cluster, and returns its index.
///
/// # Panics
///
/// Panics if no such member leads in time.
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
    /// The path of the node: in etcd, its key.
    pub path: String,
    /// The session whose end deletes the node; 0 for a persistent node.
    pub session: i64,
}

/// A probe that also reads the nodes of locks and of sessions.
pub trait SessionProbe: Probe {
    /// The nodes of a lock's holder and of its waiting calls, in the order of the queue.
    fn nodes(&self, key: &str) -> Vec<Node>;

    /// The paths of all nodes of locks, without the nodes that represent sessions.
    fn left(&self) -> Vec<String>;

    /// The paths of revocations: nodes with which a process asks another session to remove its node
    /// from a lock's directory.
    fn revocations(&self) -> Vec<String>;

    /// The path of the node that represents a session.
    fn own_node(&self, session: i64) -> String;

    /// Deletes a node. Returns `true` if it existed.
    fn delete(&self, path: &str) -> bool;
}
