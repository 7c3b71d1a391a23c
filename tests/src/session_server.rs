//! A server whose locks belong to sessions: what tests ask of etcd and of ZooKeeper alike.

use std::net::SocketAddr;
use std::time::Duration;

use crate::probe::Probe;
use crate::process::Leashed;
use crate::wait;

/// How long a cluster may take to choose a leader.
const ELECTION: Duration = Duration::from_secs(60);

/// A running server, which is alone or a member of a cluster.
pub trait SessionServer: Sized + Send + Sync + 'static {
    /// What looks at its locks.
    type Probe: SessionProbe + 'static;

    /// What its URLs begin with, before `://`.
    const SCHEME: &'static str;

    /// The server of this program.
    fn shared() -> &'static Self;

    /// A server of a test's own, which is alone.
    ///
    /// # Panics
    ///
    /// When its program is missing or does not start; the text says what to do.
    fn start() -> Self;

    /// A cluster of so many servers.
    ///
    /// # Panics
    ///
    /// As [`start`](Self::start).
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

    /// A look at the locks under `prefix` whose keys begin with `namespace`.
    fn probe(&self, prefix: &str, namespace: &str) -> Self::Probe;

    /// Whether this server leads its cluster, as far as it knows. One that was replaced while it
    /// was paused believes so for a moment.
    fn leads(&self) -> bool;

    /// Its process.
    ///
    /// # Panics
    ///
    /// When it was killed.
    fn running(&self) -> &Leashed;

    /// Stops the process where it is; connections stay open and nothing answers.
    fn pause(&self) {
        self.running().pause();
    }

    /// Lets a paused server go on.
    fn resume(&self) {
        self.running().resume();
    }

    /// Kills the server (SIGKILL). What it has confirmed is in its files.
    fn kill(&mut self);

    /// Starts its process, which does not run.
    fn spawn(&mut self);

    /// Starts it again, without a wait: members that were killed together need each other.
    fn begin_restart(&mut self) {
        self.kill();
        self.spawn();
    }

    /// Waits until it serves clients.
    ///
    /// # Panics
    ///
    /// When it does not.
    fn serves(&mut self);

    /// Starts it again with the same files and port, after [`kill`](Self::kill) or instead of the
    /// running one.
    ///
    /// # Panics
    ///
    /// When it does not start.
    fn restart(&mut self) {
        self.begin_restart();
        self.serves();
    }
}

/// The addresses of members, as URLs and the clients of the servers' makers take them.
pub fn addresses(members: impl IntoIterator<Item = SocketAddr>) -> String {
    let members = members.into_iter().map(|member| member.to_string());
    members.collect::<Vec<_>>().join(",")
}

/// Which member leads a cluster, other than `before`. Waits until one does.
///
/// # Panics
///
/// When none does.
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
    /// The session that it ends with; 0 if it stays.
    pub session: i64,
}

/// A look at the nodes of locks and of sessions.
pub trait SessionProbe: Probe {
    /// The holder of a lock, and those that wait for it, in their order.
    fn nodes(&self, key: &str) -> Vec<Node>;

    /// The paths of all nodes of locks, without those of sessions.
    fn left(&self) -> Vec<String>;

    /// The paths of what tells sessions that nodes of theirs are wanted back.
    fn revocations(&self) -> Vec<String>;

    /// The path of the node that a session has for itself.
    fn own_node(&self, session: i64) -> String;

    /// Deletes a node. Returns whether it was there.
    fn delete(&self, path: &str) -> bool;
}
