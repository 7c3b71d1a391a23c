//! What a server with sessions must be able to do.

use std::future::Future;
use std::time::Duration;

use crate::base::full_key::FullKey;
use crate::base::token::Token;
use crate::fence::Fence;
use crate::owner::Owner;
use crate::store::Failure;

/// A node in the directory of a key. No other node has its name while this one may be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) key: FullKey,
    pub(crate) name: Token,
    /// No other node of this process ever has its number.
    pub(crate) number: u64,
}

/// Why a server did not do what was asked.
#[derive(Debug, Clone)]
pub(crate) enum Trouble {
    /// The session is over, and all of its nodes are gone.
    Ended,
    Failed(Failure),
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// An answer of the server.
pub(crate) type Answer<T> = Result<T, Trouble>;

/// A node that is the first of its directory. It stays the first until it is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct First {
    pub(crate) fence: Fence,
    /// Whether further nodes wait behind it.
    pub(crate) others: bool,
}

/// What came of entering a key's directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Entered {
    First(First),
    /// The node is there, behind another, which has this owner if that is known.
    Behind {
        fence: Fence,
        owner: Option<Owner>,
    },
    /// There is no such node, because another is there and this one was not to queue.
    Held(Option<Owner>),
}

/// What came of entering several directories in one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EnteredAll {
    /// Each node is the first of its directory. Their fences, in the order of the nodes.
    First(Vec<Fence>),
    /// Nothing was made. The directory at this index has another node, with this owner if that is
    /// known.
    Held(usize, Option<Owner>),
    /// The server cannot take so many in one step.
    Apart,
}

/// Whether a node that waited is at the head of its directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    First(First),
    /// The node is not there any more.
    Gone,
}

/// How long a session is to last without a heartbeat, and how long it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Timeout(pub(crate) Duration);

impl Timeout {
    /// How long a heartbeat counts, from before it left: the server's clock may run 1 % fast.
    pub(crate) fn usable(self) -> Duration {
        let Self(lasts) = self;
        lasts.saturating_sub(lasts / 100 + Duration::from_millis(2))
    }
}

/// A server that keeps sessions. `patience` is how long it gets for an answer.
pub(crate) trait Service: Send + Sync + 'static {
    /// A session, as the server knows it.
    type Session: Send + Sync + 'static;

    /// How the server is called in URLs, such as `etcd`.
    const NAME: &'static str;

    /// How long sessions can be asked to last, the shortest first.
    fn classes(&self) -> Vec<Timeout>;

    /// The longest ttl that such a session serves: between two heartbeats it is confirmed for so
    /// long.
    fn serves(&self, timeout: Timeout) -> Duration {
        timeout.usable()
    }

    /// How long a heartbeat may take beside the time that its requests take.
    fn confirmed_within(&self) -> Duration {
        Duration::ZERO
    }

    /// Whether the server cannot be reached now, as far as is known.
    fn is_away(&self) -> bool;

    /// Opens a session that lasts as long as `timeout`, or as long as the server says.
    fn open(
        &self,
        timeout: Timeout,
        patience: Duration,
    ) -> impl Future<Output = Result<(Self::Session, Timeout), Failure>> + Send;

    /// Keeps the session alive. It is confirmed when this succeeds, and then counted from before
    /// this was called.
    fn heartbeat(
        &self,
        session: &Self::Session,
        patience: Duration,
    ) -> impl Future<Output = Answer<()>> + Send;

    /// Waits until the session may be over, which the next heartbeat finds out. Where it is over
    /// for certain, the answer is [`Trouble::Ended`]. Meanwhile tells `revoked` each node that
    /// another process wants back by force, by its name and fence. A node may be told again.
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

    /// The name of a new node with this number. None stands for a random one, which no other node
    /// ever has.
    fn name(&self, _session: &Self::Session, _key: &FullKey, _number: u64) -> Option<Token> {
        None
    }

    /// Makes `node` if it is not there: behind the other nodes if it is to `queue`, and otherwise
    /// only in an empty directory. Asked again, it finds the node.
    fn enter(
        &self,
        session: &Self::Session,
        node: &Node,
        queue: bool,
        function: &'static str,
        patience: Duration,
    ) -> impl Future<Output = Answer<Entered>> + Send;

    /// Makes all of `nodes` as the first of their directories, or none. Asked again, it finds
    /// them.
    fn enter_all(
        &self,
        session: &Self::Session,
        nodes: &[Node],
        function: &'static str,
        patience: Duration,
    ) -> impl Future<Output = Answer<EnteredAll>> + Send;

    /// Whether each node is still there, as the session made it.
    fn present(
        &self,
        session: &Self::Session,
        nodes: &[(Node, Fence)],
        patience: Duration,
    ) -> impl Future<Output = Answer<Vec<bool>>> + Send;

    /// Removes `node`, and returns whether it was there. When this succeeds, no earlier request
    /// makes the node any more.
    fn remove(
        &self,
        session: &Self::Session,
        node: &Node,
        patience: Duration,
    ) -> impl Future<Output = Answer<bool>> + Send;

    /// Lets `node` stay for `keep` whatever becomes of the session, and returns whether it was
    /// there. It may stay a little longer.
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
