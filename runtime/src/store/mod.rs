//! Lock stores: the one interface that a store implements, and the stores.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::base::full_key::FullKey;
use crate::base::token::Token;
use crate::error::LockError;
use crate::fence::Fence;

#[cfg(feature = "redis")]
mod background;
#[cfg(feature = "redis")]
pub(crate) mod cluster;
pub(crate) mod memory;
pub(crate) mod options;
#[cfg(feature = "redis")]
pub(crate) mod redis;
#[cfg(feature = "redis")]
pub(crate) mod redlock;
pub(crate) mod target;

/// Where locks are kept.
///
/// The engine is its only caller. `submit` hands over requests, `poll_event` takes what came back;
/// neither blocks. Any thread may call them, one at a time, in the context of the runtime that the
/// store was connected in. The engine keeps its own time-outs, so a reply may come late, and a store never has to give
/// up on a request; it answers each request at most once.
///
/// What a store must keep:
/// - *Order.* Requests reach the server in the order of submission as long as one connection lasts.
/// - *Idempotence.* An acquire that finds its own token succeeds again, with the same fence and the full ttl.
/// - *All or none.* Of keys that are asked for together nothing is taken unless all are, in one step that nobody sees the middle of.
/// - *Ownership.* Renew and release touch the key only where it carries the token; renewal never creates it.
/// - *Fences* grow with every new acquisition of a key, and no fence that was kept in reserve is given again.
///
/// What a store may offer: a queue of processes for each key, first come first served. It then answers
/// [`Reply::Held`] with `queued`, hands a key that comes free to the first process in its queue for a short time
/// ([`CLAIM`]), and tells that process with [`StoreEvent::Turn`]. The process confirms by asking again. An entry that shows no
/// sign of life for [`FORGOTTEN`] is passed over.
pub(crate) trait LockStore: Send {
    /// Hands requests to the transport, all of them, in order. [`poll_event`](Self::poll_event) is called next, and nothing need happen
    /// before.
    fn submit(&mut self, batch: &mut Vec<Request>);

    /// The next thing that happened, and a wake-up when there is more.
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<StoreEvent>;

    /// The sockets that answers come on, if they have changed since this was last called. Any
    /// thread may then hear of answers; without sockets the engine's own runtime does.
    fn sockets(&mut self) -> Option<Vec<Arc<dyn Socket>>> {
        None
    }
}

/// A store that is being connected.
pub(crate) type Connecting =
    Pin<Box<dyn Future<Output = Result<Box<dyn LockStore>, LockError>> + Send>>;

/// A socket that answers come on.
pub(crate) trait Socket: Send + Sync {
    /// Hears of what comes, on the runtime that this is called in. Panics where that has no I/O
    /// driver.
    fn listen(&self) -> io::Result<Box<dyn Listen>>;

    /// From now on a listener hears of what comes, and not the engine's runtime; or the reverse.
    fn leave_to_listener(&self, listener: bool);

    /// Something may have come: the thread that polls the store next reads it. Where a listener
    /// hears of what comes, no thread reads before that.
    fn heard(&self);
}

/// Hears of what comes on a socket.
pub(crate) trait Listen: Send {
    /// Calls `read` when something may have come, or the socket is closed. `read` reads all there
    /// is.
    fn poll_heard(&mut self, cx: &mut Context<'_>, read: &mut dyn FnMut()) -> Poll<io::Result<()>>;
}

/// Names a request, to match its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct OpId(pub(crate) u64);

/// One request to the store.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) id: OpId,
    pub(crate) op: Op,
    /// After this long without an answer the engine tries again, and a connection that has not answered
    /// anything since should be replaced.
    pub(crate) patience: Duration,
}

/// What a store can be asked.
#[derive(Debug, Clone)]
pub(crate) enum Op {
    /// Take `key` if it is free, was handed to this process, or carries `token`.
    Acquire {
        key: FullKey,
        token: Token,
        ttl: Duration,
        /// The annotated function that asks, for people who look at the key.
        function: &'static str,
        /// Whether this process wants a place in the key's queue if another has the key.
        queue: bool,
        /// So many fences after the first are kept for calls to which the key is passed on.
        reserved_fences: u32,
    },
    /// Take all of these keys or none, each as [`Op::Acquire`] does: without a place in its queue, and with no fences kept. Answered
    /// with [`Reply::AcquiredAll`], [`Reply::HeldAmong`] or [`Reply::Apart`].
    AcquireAll {
        /// Each key once, with its token.
        keys: Vec<(FullKey, Token)>,
        ttl: Duration,
        function: &'static str,
    },
    /// Let each key live its ttl from now if it carries its token.
    Renew(Vec<Renewal>),
    /// Remove `key` if it carries `token`, or let it expire.
    Release {
        key: FullKey,
        token: Token,
        /// Let the key stay for so long instead. It is not handed on; the first process in its queue is told to look.
        keep: Option<Duration>,
        /// Leave the key free for [`PAUSE`], although processes queue for it, where there may be
        /// clients that know no queue.
        makes_way: bool,
        /// Acquires with this token whose outcome is not known; see [`Reply::Released::ordered`].
        after: Vec<OpId>,
    },
    /// Take a share of `key` if it is free, was handed to this process, or is shared and has room, or if `token` has a share.
    Join {
        key: FullKey,
        token: Token,
        ttl: Duration,
        /// How many shares there may be at most; 0 for no bound. Bounded and unbounded shares exclude each other.
        limit: u32,
        /// As for [`Op::Acquire`].
        queue: bool,
    },
    /// Let each share live its ttl from now if its token has one that has not ended. A token that has the whole lock has a share
    /// of it from then on, unbounded.
    Stay(Vec<Renewal>),
    /// Give up the share of `key` that `token` has, or the lock where it has not become a share yet.
    Part {
        key: FullKey,
        token: Token,
        /// Joins with this token whose outcome is not known; see [`Reply::Released::ordered`].
        after: Vec<OpId>,
    },
    /// This process wants no place in the queue of `key` any more; if the key was handed to it, the next gets it.
    Leave { key: FullKey },
}

impl Op {
    /// What an acquire or a release asks for beside lock and token. Those that agree on it are put in fewer words.
    #[cfg(feature = "redis")]
    pub(crate) fn conditions(&self) -> Conditions {
        let (time, function, flag, reserved_fences) = match self {
            Self::Acquire {
                ttl,
                function,
                queue,
                reserved_fences,
                ..
            } => (Some(*ttl), *function, *queue, *reserved_fences),
            Self::Release {
                keep, makes_way, ..
            } => (*keep, "", *makes_way, 0),
            _ => (None, "", false, 0),
        };
        Conditions {
            time,
            function,
            flag,
            reserved_fences,
        }
    }
}

/// What a request asks for beside lock and token; see [`Op::conditions`].
#[cfg(feature = "redis")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Conditions {
    time: Option<Duration>,
    function: &'static str,
    /// Whether an acquire queues, or a release makes way.
    flag: bool,
    reserved_fences: u32,
}

/// For so long a key is left free for clients that know no queue. One that tries every 250 ms finds
/// it so, with time to spare for its way to the server.
pub(crate) const PAUSE: Duration = Duration::from_millis(300);

/// For so long a key that was handed to a process waits for it to confirm.
pub(crate) const CLAIM: Duration = Duration::from_secs(1);

/// A process in a queue that has not asked for so long is passed over.
pub(crate) const FORGOTTEN: Duration = Duration::from_secs(3);

/// One key of a batch of renewals.
#[derive(Debug, Clone)]
pub(crate) struct Renewal {
    pub(crate) key: FullKey,
    pub(crate) token: Token,
    pub(crate) ttl: Duration,
}

/// What a store answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reply {
    /// The lock was taken. No fence where the store promises none.
    Acquired {
        fence: Option<Fence>,
        /// So many fences after it are kept for this token.
        reserved_fences: u32,
        /// Whether other processes queue for the key, where the store has queues.
        wanted: Option<bool>,
    },
    /// Another token has the key.
    Held {
        /// For so long at most, where that is known.
        left: Option<Duration>,
        /// Whether this process has a place in the key's queue and will be told when its turn comes.
        queued: bool,
    },
    /// All keys were taken: a [`Reply::Acquired`] for each, in their order.
    AcquiredAll(Vec<Reply>),
    /// Nothing was taken, because another token has the key at this place, or is the first to get it.
    HeldAmong {
        at: usize,
        /// As for [`Reply::Held`].
        left: Option<Duration>,
    },
    /// Nothing was taken, because the store can take these keys only one by one.
    Apart,
    /// Per key, whether it still carried its token.
    Renewed(Vec<bool>),
    /// The same, where nothing certain can be said of some keys.
    #[cfg(feature = "redis")]
    RenewedInPart(Vec<Option<bool>>),
    /// The key does not carry the token now.
    Released {
        /// Whether it did, or may have. False is certain: of a quorum, so many nodes did not have
        /// the key that no majority can have had it.
        found: bool,
        /// Whether every acquire listed in `after` went before this on the same connection, so that none
        /// of them can still take the key.
        ordered: bool,
    },
    /// Others share the key and count up to so many, which is more than was asked for.
    Limited(u32),
    /// The process has no place in the queue now.
    Left,
}

/// Why a request was not answered.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    pub(crate) error: LockError,
    pub(crate) retry: Retry,
    /// Whether the server may have carried the request out, or may yet.
    pub(crate) executed: bool,
}

impl Failure {
    /// The code of the store's error.
    pub(crate) fn code(&self) -> &'static str {
        match &self.error {
            LockError::Unavailable { source } => source.code(),
            _ => "",
        }
    }

    /// What happened, without the words that every unavailable store is told with.
    #[cfg(feature = "redis")]
    pub(crate) fn text(&self) -> String {
        match &self.error {
            LockError::Unavailable { source } => source.to_string(),
            error => error.to_string(),
        }
    }
}

/// Whether another try makes sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Retry {
    /// At once: the request was not carried out for a reason that is gone.
    Now,
    /// After a pause: the store is away, loading, or changing hands.
    Later,
    /// Not by itself: somebody must change something first.
    Never,
}

/// What happens at a store.
#[derive(Debug)]
pub(crate) enum StoreEvent {
    /// The outcome of a request.
    Reply(OpId, Result<Reply, Failure>),
    /// The store can be reached again: what waits for it need not wait longer.
    Connected,
    /// The key was handed to this process, for [`CLAIM`]; or something has changed about it, and this process is the first to
    /// ask again.
    Turn(FullKey),
    /// Another process has begun to queue for a key that this one holds.
    Wanted(FullKey),
}
