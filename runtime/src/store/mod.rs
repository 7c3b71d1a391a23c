//! Lock stores: the interface that each store implements, and the stores.
//!
//! [`LockStore`] is the interface, with its requests ([`Op`]), answers ([`Reply`]) and events
//! ([`StoreEvent`]). `target_url` reads which store a URL names, and [`target`] connects it.
//! [`options`] holds what applies to every store.
//!
//! - [`memory`] keeps locks in this process.
//! - `redis` keeps locks on one Redis or Valkey master.
//! - `cluster` sends each request to the master that has the key's slot, over `redis`.
//! - `redlock` asks several independent masters and counts their votes, over `redis`.
//! - `postgres` keeps locks in a table of a PostgreSQL database.
//! - `socket` is a socket of a connection, which any thread may read. [`source`] looks at locks
//!   apart from the engine. [`kept`] is a result that a store keeps beside a lock.
//! - `session` keeps locks at servers with sessions: `etcd` and `zookeeper`.
//! - `url_options` reads a URL's options, and `background` runs a check on a thread of its own.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use self::kept::{Kept, Record};
use crate::base::full_key::FullKey;
use crate::base::token::Token;
use crate::error::LockError;
use crate::fence::Fence;
use crate::owner::Owner;
use crate::store::memory::space::Space;

#[cfg(feature = "__remote")]
mod background;
#[cfg(feature = "redis")]
pub(crate) mod cluster;
#[cfg(feature = "etcd")]
pub(crate) mod etcd;
pub(crate) mod kept;
pub(crate) mod memory;
pub(crate) mod options;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
#[cfg(feature = "redis")]
pub(crate) mod redis;
#[cfg(feature = "redis")]
pub(crate) mod redlock;
#[cfg(feature = "__session")]
pub(crate) mod session;
#[cfg(any(feature = "redis", feature = "postgres"))]
pub(crate) mod socket;
pub(crate) mod source;
pub(crate) mod target;
mod target_url;
#[cfg(feature = "tls")]
pub(crate) mod tls;
#[cfg(feature = "__remote")]
mod url_options;
#[cfg(feature = "zookeeper")]
pub(crate) mod zookeeper;

/// Where locks are kept.
///
/// The engine is the store's only caller. `submit` gives the store requests, and `poll_event`
/// returns answers and events. Neither blocks. Any thread may call them, one thread at a time, in
/// the context of the runtime that the store was connected in. A store answers each request at most
/// once. The engine keeps its own time-outs. So an answer may come late, and a store never has to
/// give up a request.
///
/// What a store must keep:
/// - *Order.* Requests reach the server in the order of submission while one connection lasts.
/// - *Idempotence.* An acquire that finds its own token succeeds again, with the same fence and the
///   full ttl.
/// - *All or none.* [`Op::AcquireAll`] takes all of its keys or none. It takes them in one step, so
///   that no client sees only some of them taken.
/// - *Ownership.* Renew and release touch a key only where it carries the token. Renewal never
///   creates a key.
/// - *Fences* grow with every new acquisition of a key. The store never gives a reserved fence to
///   another acquisition.
/// - *Results.* [`Op::Record`] stores its result and releases in one step, and only if the key
///   carries the token. From then on [`Op::Recall`] answers with that result and takes nothing,
///   until the result's time is over or [`Op::Forget`] removes it.
///
/// A store may offer a queue of processes for each key, first come first served. The store then
/// answers [`Reply::Held`] with `queued`. It gives a key that comes free to the first process in
/// the queue for a short time ([`CLAIM`]). It tells that process with [`StoreEvent::Turn`], and the
/// process confirms by asking again. The store skips a process that has not asked again for
/// [`FORGOTTEN`].
pub(crate) trait LockStore: Send {
    /// Takes all requests out of `batch`, in order. The engine calls
    /// [`poll_event`](Self::poll_event) next, so the store may wait for that call before it sends
    /// them.
    fn submit(&mut self, batch: &mut Vec<Request>);

    /// The next event. While there is none, wakes `cx` when the next one comes.
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<StoreEvent>;

    /// Whether the store cannot be reached now, as far as it knows. Asked after each poll.
    fn is_away(&self) -> bool {
        false
    }

    /// The sockets that answers come on, if they have changed since the last call. A listener on
    /// any thread can then wait for answers. Without sockets the engine's own runtime waits.
    fn sockets(&mut self) -> Option<Vec<Arc<dyn Socket>>> {
        None
    }

    /// True if a transaction can hold a lock by its fence (`leasehold.verify`). If the program has
    /// read the fence, only the store can give the lock to the next call.
    fn verifies(&self) -> bool {
        false
    }

    /// The locks of this process. A [`Source`](source::Source) looks at all others.
    fn local(&self) -> Option<Arc<Space>> {
        None
    }
}

/// A store that is being connected.
pub(crate) type Connecting =
    Pin<Box<dyn Future<Output = Result<Box<dyn LockStore>, LockError>> + Send>>;

/// A socket that answers come on.
pub(crate) trait Socket: Send + Sync {
    /// A listener on the runtime of the calling thread. Panics if that runtime has no I/O driver.
    fn listen(&self) -> io::Result<Box<dyn Listen>>;

    /// With `listener`, a listener waits for answers from now on, and not the engine's runtime.
    /// Without it, the engine's runtime waits again.
    fn leave_to_listener(&self, listener: bool);

    /// The listener saw that bytes may have come. The thread that polls the store next reads them.
    /// While a listener waits, no thread reads before this call.
    fn heard(&self);
}

/// Waits for bytes on a socket.
pub(crate) trait Listen: Send {
    /// Calls `read` when bytes may have come, or when the socket is closed. `read` reads all bytes
    /// that are there.
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
    /// After this long without an answer the engine tries again. The store should then replace the
    /// connection if it has answered nothing since.
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
        /// The annotated function that asks. It is written into the key's value, for operators.
        function: &'static str,
        /// Whether the store queues this process if another process has the key.
        queue: bool,
        /// How many fences after the first the store reserves, for calls of this process that the
        /// key is handed over to.
        reserved_fences: u32,
    },
    /// Take all of these keys or none, each as [`Op::Acquire`] does, but without a queue and
    /// without reserved fences. The store answers with [`Reply::AcquiredAll`], [`Reply::HeldAmong`]
    /// or [`Reply::Apart`].
    AcquireAll {
        /// Each key once, with its token.
        keys: Vec<(FullKey, Token)>,
        ttl: Duration,
        function: &'static str,
    },
    /// Set the time to live of each key that carries its token to its full ttl.
    Renew(Vec<Renewal>),
    /// Remove `key` if it carries `token`, or let it expire.
    Release {
        key: FullKey,
        token: Token,
        /// Keep the key for this long instead of removing it. The store does not give it to the
        /// first process in the queue, but tells that process to ask again.
        keep: Option<Duration>,
        /// Leave the key free for [`PAUSE`], although processes queue for it, so that clients that
        /// know no queue can take it.
        makes_way: bool,
        /// Acquires with this token that have no known outcome; see [`Reply::Released::ordered`].
        after: Vec<OpId>,
    },
    /// Take a share of `key`, or succeed again if `token` has one. A share is to be had if the key
    /// is free, was handed to this process, or is shared and has room.
    Join {
        key: FullKey,
        token: Token,
        ttl: Duration,
        /// As for [`Op::Acquire`].
        function: &'static str,
        /// The most shares that there may be, with this one; 0 for no bound. Calls with other
        /// bounds share the key too. Bounded and unbounded shares exclude each other.
        limit: u32,
        /// As for [`Op::Acquire`].
        queue: bool,
    },
    /// Let each share live its full ttl from now, if its token has one that has not ended. A token
    /// that has the whole lock has an unbounded share from then on.
    Stay(Vec<Renewal>),
    /// Give up the share of `key` that `token` has, or the whole lock.
    Part {
        key: FullKey,
        token: Token,
        /// Let the share, or the whole lock, end after this long instead of now, whatever was left
        /// of it. The token does not have it any more.
        keep: Option<Duration>,
        /// Joins with this token that have no known outcome; see [`Reply::Released::ordered`].
        after: Vec<OpId>,
    },
    /// Take this process out of the queue of `key`. If the key was handed to this process, the
    /// store gives it to the next process in the queue.
    Leave { key: FullKey },
    /// Answer with the result that is kept for `key` and `function`. If there is none, take `key`
    /// as [`Op::Acquire`] does, without reserved fences. A result is the answer although the key is
    /// held, or was handed to this process: it changes nothing.
    Recall {
        key: FullKey,
        token: Token,
        ttl: Duration,
        function: &'static str,
        queue: bool,
    },
    /// As [`Op::Release`]. If `key` carries `token`, the store keeps the record in the same step.
    Record {
        key: FullKey,
        token: Token,
        keep: Option<Duration>,
        makes_way: bool,
        after: Vec<OpId>,
        record: Arc<Record>,
    },
    /// Remove the results of all functions that are kept for `key`.
    Forget { key: FullKey },
    /// Give `key` the token `token` in the place of `from`, and its full ttl, if it carries one of
    /// the two. Its fence stays. The store answers [`Reply::Acquired`] or [`Reply::Gone`].
    Adopt {
        key: FullKey,
        from: Token,
        token: Token,
        ttl: Duration,
        function: &'static str,
    },
}

impl Op {
    /// What an acquire or a release asks for beside key and token. A script names these conditions
    /// once for all requests that have them in common.
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

/// What a request asks for beside key and token; see [`Op::conditions`].
#[cfg(feature = "redis")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Conditions {
    time: Option<Duration>,
    function: &'static str,
    /// Whether an acquire queues, or a release makes way.
    flag: bool,
    reserved_fences: u32,
}

/// How long a key is left free for clients that know no queue. A client that tries every 250 ms
/// finds the key free, with 50 ms to spare for the way to the server.
pub(crate) const PAUSE: Duration = Duration::from_millis(300);

/// How long a key that was handed to a process waits for the process to confirm.
pub(crate) const CLAIM: Duration = Duration::from_secs(1);

/// After this long without a request the store skips a process in a queue.
pub(crate) const FORGOTTEN: Duration = Duration::from_secs(3);

/// Limit of a lock that was taken away by force: its holder's body ends before another begins.
pub(crate) const GRACE: Duration = Duration::from_secs(3);

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
    /// The lock was taken. There is no fence where the store promises none.
    Acquired {
        fence: Option<Fence>,
        /// How many fences after `fence` are reserved for this token.
        reserved_fences: u32,
        /// Whether other processes queue for the key, where the store has queues.
        wanted: Option<bool>,
    },
    /// Another token has the key.
    Held {
        /// How long at most, where that is known.
        left: Option<Duration>,
        /// Whether this process is in the key's queue, and gets a [`StoreEvent::Turn`] later.
        queued: bool,
        /// The owner, if one token has the lock alone and the store knows it.
        owner: Option<Arc<Owner>>,
    },
    /// All keys were taken: a [`Reply::Acquired`] for each, in their order.
    AcquiredAll(Vec<Reply>),
    /// Nothing was taken, because another token has the key at index `at`, or is to get it first.
    HeldAmong {
        at: usize,
        /// As for [`Reply::Held`].
        left: Option<Duration>,
        /// As for [`Reply::Held`].
        owner: Option<Arc<Owner>>,
    },
    /// Nothing was taken, because the store can take these keys only individually.
    Apart,
    /// For each key, whether it still carried its token.
    Renewed(Vec<bool>),
    /// The same. `None` stands for a key of which nothing certain is known.
    #[cfg(feature = "__remote")]
    RenewedInPart(Vec<Option<bool>>),
    /// The key does not carry the token now.
    Released {
        /// Whether the key carried the token, or may have. False is certain. For a quorum it means
        /// that so many nodes did not have the key that no majority can have had it.
        found: bool,
        /// Whether every acquire in `after` went before this release on the same connection. Then
        /// none of them can still take the key.
        ordered: bool,
    },
    /// The process is not in the queue now.
    Left,
    /// Nothing was taken: this result is kept for the key.
    Recalled(Arc<Kept>),
    /// No result is kept for the key now. Whether there was one.
    Forgotten(bool),
    /// The key carries neither of the tokens.
    Gone,
}

/// Why a request was not answered.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    pub(crate) error: LockError,
    pub(crate) retry: Retry,
    /// Whether the server may have carried the request out, or may still do so.
    pub(crate) executed: bool,
}

impl Failure {
    /// The store cannot serve the request.
    #[cfg(feature = "__remote")]
    pub(crate) fn unavailable(
        code: &'static str,
        message: String,
        retry: Retry,
        executed: bool,
    ) -> Self {
        Self {
            error: LockError::unavailable(code, message),
            retry,
            executed,
        }
    }

    /// The code of the store's error.
    pub(crate) fn code(&self) -> &'static str {
        match &self.error {
            LockError::Unavailable { source } => source.code(),
            _ => "",
        }
    }

    /// The store's error, without the text that [`LockError::Unavailable`] puts before it.
    #[cfg(feature = "__remote")]
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
    /// At once: the reason why the request was not carried out is gone.
    Now,
    /// After a pause: the store is away, loading, or failing over.
    Later,
    /// Only after an operator has changed something.
    Never,
}

/// What happens at a store.
#[derive(Debug)]
pub(crate) enum StoreEvent {
    /// The outcome of a request.
    Reply(OpId, Result<Reply, Failure>),
    /// The store can be reached again. Requests that wait for a retry can go out at once.
    Connected,
    /// The key was handed to this process for [`CLAIM`]. Or the key's state has changed, and this
    /// process is the first in the queue to ask again.
    Turn(FullKey),
    /// Another process has begun to queue for a key that this one holds.
    Wanted(FullKey),
    /// The key was taken away by force from the token with this [half](Token::half).
    Revoked { key: FullKey, lease: u64 },
    /// The store does not have these locks any more, and nothing was asked: their session is over.
    #[cfg(feature = "__session")]
    Lost(Vec<(FullKey, Token)>),
}
