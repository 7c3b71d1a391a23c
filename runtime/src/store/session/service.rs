//! The interface of a server with sessions.

use std::future::Future;
use std::time::Duration;

use super::outage::Outage;
use crate::base::full_key::FullKey;
use crate::base::token::Token;
use crate::fence::Fence;
use crate::owner::Owner;
use crate::store::Failure;

/// A node in the directory of a key. While it may exist, no other node in the directory has its
/// name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) key: FullKey,
    pub(crate) name: Token,
    /// A number that no other node of this process has or had.
    pub(crate) number: u64,
}

/// The reason why a request to a server has failed.
#[derive(Debug, Clone)]
pub(crate) enum Trouble {
    /// This process must no longer use the session. The session's nodes may exist until the server
    /// closes the session, or until the session expires.
    Ended,
    Failed(Failure),
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

pub(crate) type Answer<T> = Result<T, Trouble>;

/// The first node of a directory. It stays the first until it is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct First {
    pub(crate) fence: Fence,
    /// True if further nodes wait behind it.
    pub(crate) others: bool,
}

/// Result of creating a node in a key's directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Entered {
    First(First),
    /// The node exists, but is not the first. Contains the owner of the first node, if known.
    Behind {
        fence: Fence,
        owner: Option<Owner>,
    },
    /// No node was created: the directory has another node, and the request must not queue.
    /// Contains the owner of the other node, if known.
    Held(Option<Owner>),
}

/// Result of creating a node in each of several directories, in one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EnteredAll {
    /// Each node is the first of its directory. Contains the nodes' fences, in the same order.
    First(Vec<Fence>),
    /// No node was created. The directory at this index has another node, with this owner if known.
    Held(usize, Option<Owner>),
    /// The server cannot create so many nodes in one step.
    Apart,
}

/// Result of waiting until a node is the first of its directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    First(First),
    /// The node no longer exists.
    Gone,
}

/// Time that a session lasts without a heartbeat, as requested or as granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Timeout(pub(crate) Duration);

impl Timeout {
    /// Returns the time for which a heartbeat confirms the session, counted from the sending of the
    /// heartbeat. This is shorter than the lifetime, because the server's clock may run 1 % fast.
    pub(crate) fn usable(self) -> Duration {
        let Self(lasts) = self;
        lasts.saturating_sub(lasts / 100 + Duration::from_millis(2))
    }
}

/// A server with sessions. The `patience` of its methods limits the time for an answer.
pub(crate) trait Service: Send + Sync + 'static {
    /// A session, as the server knows it.
    type Session: Send + Sync + 'static;

    /// The server's name in URLs, such as `etcd`.
    const NAME: &'static str;

    /// Returns the lifetimes that can be requested for sessions, the shortest first.
    fn classes(&self) -> Vec<Timeout>;

    /// Returns the longest ttl of the leases that a session with this lifetime serves. By default,
    /// this is the time for which a heartbeat confirms the session.
    fn serves(&self, timeout: Timeout) -> Duration {
        timeout.usable()
    }

    /// Returns the time for which to wait for a confirmation in addition to the `patience`. It is
    /// zero, unless a heartbeat consists of several requests with pauses between them.
    fn confirmed_within(&self) -> Duration {
        Duration::ZERO
    }

    /// Returns the record of the server's outage.
    fn outage(&self) -> &Outage;

    /// Tries once to reach the server, and records a failure in the [`outage`](Self::outage).
    /// Returns true if the server has answered.
    fn reach_again(&self) -> impl Future<Output = bool> + Send;

    /// Opens a session. Requests the lifetime `timeout`, and returns the lifetime that the server
    /// grants.
    fn open(
        &self,
        timeout: Timeout,
        patience: Duration,
    ) -> impl Future<Output = Result<(Self::Session, Timeout), Failure>> + Send;

    /// Keeps the session alive. On success, the session is confirmed for its `usable` time, counted
    /// from the start of this call.
    fn heartbeat(
        &self,
        session: &Self::Session,
        patience: Duration,
    ) -> impl Future<Output = Answer<()>> + Send;

    /// Waits until the session may be over; the next heartbeat then shows if it is. Returns
    /// [`Trouble::Ended`] if the session is over for certain, or is given up. Meanwhile calls
    /// `revoked` with the name and the fence of each node that another process takes away by force.
    /// May report the same node several times.
    fn ended(
        &self,
        session: &Self::Session,
        revoked: impl Fn(Token, Fence) + Send + Sync,
    ) -> impl Future<Output = Answer<()>> + Send;

    /// Ends the session with all of its nodes.
    fn close(
        &self,
        session: &Self::Session,
        patience: Duration,
    ) -> impl Future<Output = Answer<()>> + Send;

    /// Returns the name of a new node with this number. With `None`, which is the default, the
    /// caller chooses a random name.
    fn name(&self, _session: &Self::Session, _key: &FullKey, _number: u64) -> Option<Token> {
        None
    }

    /// Creates `node` if it does not exist: with `queue` behind the other nodes, and otherwise only
    /// in an empty directory. A repeated request finds the node that the first request has created.
    fn enter(
        &self,
        session: &Self::Session,
        node: &Node,
        queue: bool,
        function: &'static str,
        patience: Duration,
    ) -> impl Future<Output = Answer<Entered>> + Send;

    /// Creates all of `nodes` as the first of their directories, or none. A repeated request finds
    /// the nodes that the first request has created.
    fn enter_all(
        &self,
        session: &Self::Session,
        nodes: &[Node],
        function: &'static str,
        patience: Duration,
    ) -> impl Future<Output = Answer<EnteredAll>> + Send;

    /// Returns true for each node that still exists and was created by this session.
    fn present(
        &self,
        session: &Self::Session,
        nodes: &[(Node, Fence)],
        patience: Duration,
    ) -> impl Future<Output = Answer<Vec<bool>>> + Send;

    /// Removes `node`. Returns true if it existed. Once this succeeds, no earlier request can
    /// create the node.
    fn remove(
        &self,
        session: &Self::Session,
        node: &Node,
        patience: Duration,
    ) -> impl Future<Output = Answer<bool>> + Send;

    /// Keeps `node` for the time `keep`, even if the session ends. Returns true if the node
    /// existed. The node may stay a little longer.
    fn keep(
        &self,
        session: &Self::Session,
        node: &Node,
        fence: Fence,
        keep: Duration,
        patience: Duration,
    ) -> impl Future<Output = Answer<bool>> + Send;

    /// Waits until `node` is the first of its directory, or is gone.
    fn turn(
        &self,
        session: &Self::Session,
        node: &Node,
    ) -> impl Future<Output = Answer<Turn>> + Send;
}
