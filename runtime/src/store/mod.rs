//! Lock stores: the interface that each store implements, and the stores.
//!
//! [`LockStore`] is the interface, with its requests ([`Op`]), answers ([`Reply`]) and events
//! ([`StoreEvent`]). [`backend`] describes a store before a pool connects to it. `schemes` chooses
//! the backend for a URL.
//!
//! - [`memory`] keeps locks in this process.
//! - `redis` keeps locks on one Redis or Valkey master.
//! - `cluster` sends each request to the master of a Redis cluster that has the key's slot. It uses
//!   `redis`.
//! - `redlock` asks several independent masters and counts their votes. It uses `redis`.
//! - `postgres` keeps locks in a table of a PostgreSQL database.
//! - `etcd` and `zookeeper` tie locks to a session on the server. They share `session`.
//! - `link` replaces a broken connection. `socket` is a socket that any thread may read.
//! - [`source`] inspects locks without the engine. [`kept`] is a result that a store keeps beside a
//!   lock.
//! - [`options`] are a pool's options for its store. `url_options` reads the options in a URL.
//! - `background` runs a check of a store on a separate thread.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

pub(crate) use self::failure::{Failure, NO_CREDENTIALS, Retry};
use self::kept::Kept;
pub(crate) use self::request::{Give, GiveKind, Op, OpId, Renewal, Request, Take, TakeKind};
use crate::base::full_key::FullKey;
#[cfg(feature = "__session")]
use crate::base::token::Token;
use crate::error::LockError;
use crate::fence::Fence;
use crate::owner::Owner;
use crate::store::memory::space::Space;

pub(crate) mod backend;
mod background;
#[cfg(feature = "redis")]
pub(crate) mod cluster;
pub(crate) mod credentials;
#[cfg(feature = "etcd")]
pub(crate) mod etcd;
mod failure;
pub(crate) mod kept;
#[cfg(feature = "__remote")]
pub(crate) mod lazy;
#[cfg(feature = "__remote")]
mod link;
pub(crate) mod login;
pub(crate) mod memory;
pub(crate) mod options;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
#[cfg(feature = "redis")]
pub(crate) mod redis;
#[cfg(feature = "redis")]
pub(crate) mod redlock;
mod request;
mod schemes;
#[cfg(feature = "__session")]
pub(crate) mod session;
#[cfg(any(feature = "redis", feature = "postgres"))]
pub(crate) mod socket;
pub(crate) mod source;
pub(crate) mod tls;
mod url_options;
#[cfg(feature = "zookeeper")]
pub(crate) mod zookeeper;

/// A store of locks.
///
/// The engine is the store's only caller. `submit` gives the store requests, and `poll_event`
/// returns answers and events. Neither blocks. Any thread may call them, but only one thread at a
/// time, in the context of the runtime that the store was connected in. A store answers each
/// request at most once. It may answer late and never has to give up a request, because the engine
/// has its own time-outs.
///
/// Every store must keep these promises:
/// - *Order.* While one connection lasts, requests reach the server in the order of submission.
/// - *Idempotence.* An acquire whose token already has the key succeeds again, with the same fence
///   and the full ttl.
/// - *All or none.* [`Op::TakeAll`] takes either all of its keys or none. It takes them in one
///   step, so no client ever sees only some of them taken.
/// - *Ownership.* Renew and release touch a key only if it carries the token. Renewal never creates
///   a key.
/// - *Fences* grow with every new acquisition of a key. The store never gives a reserved fence to
///   another acquisition.
/// - *Results.* [`GiveKind::Record`] stores a result and releases the lock in one step, and only if
///   the key carries the token. After that, [`TakeKind::Recall`] answers with the result and takes
///   nothing, until the result expires or [`Op::Forget`] removes it.
///
/// A store may offer a queue of processes for each key, first come first served. The answer to a
/// queued request is [`Reply::Held`] with `queued`. When the key becomes free, the store *hands* it
/// to the first process: for a short time ([`CLAIM`]), only this process can take the key.
/// [`StoreEvent::Turn`] notifies the process, which must then repeat its request. The store skips a
/// process that has sent no request for [`FORGOTTEN`].
pub(crate) trait LockStore: Send {
    /// Takes all requests out of `batch`, in order. The store may delay sending them until the next
    /// [`poll_event`](Self::poll_event), which the engine calls right afterwards.
    fn submit(&mut self, batch: &mut Vec<Request>);

    /// Returns the next event. If there is none, wakes `cx` when one arrives.
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<StoreEvent>;

    /// True if the store has lost its server and not yet reached it again, even if no attempt to
    /// connect has failed yet. The engine calls this after each poll.
    fn is_away(&self) -> bool {
        false
    }

    /// Returns the error of a call that needs `key` now, if an attempt to connect has failed since
    /// the last answer. A lost connection alone is not an absence, because the next attempt to
    /// connect usually succeeds within milliseconds.
    fn absence(&self, _key: &FullKey) -> Option<LockError> {
        None
    }

    /// Returns the sockets that answers arrive on, if they have changed since the last call of this
    /// function. A listener on any thread can then wait for answers. If a store has no sockets, the
    /// engine's own runtime waits for answers.
    fn sockets(&mut self) -> Option<Vec<Arc<dyn Socket>>> {
        None
    }

    /// True if a database transaction that checks the fence (`leasehold.verify`) keeps the lock
    /// taken until the transaction ends. After the program has read the fence, there may be such a
    /// transaction. Then the engine must release the lock to the store instead of giving it
    /// directly to the next call.
    fn verifies(&self) -> bool {
        false
    }

    /// Returns the locks, if the store keeps them in this process. The locks of other stores are
    /// inspected through a [`Source`](source::Source).
    fn local(&self) -> Option<Arc<Space>> {
        None
    }
}

/// Future that connects a store.
pub(crate) type Connecting =
    Pin<Box<dyn Future<Output = Result<Box<dyn LockStore>, LockError>> + Send>>;

/// A socket on which answers arrive.
pub(crate) trait Socket: Send + Sync {
    /// Returns a listener on the runtime of the calling thread. Panics if that runtime has no I/O
    /// driver.
    fn listen(&self) -> io::Result<Box<dyn Listen>>;

    /// Sets who waits for answers on this socket: a listener if `listener` is true, otherwise the
    /// engine's runtime.
    fn leave_to_listener(&self, listener: bool);

    /// Records that a listener has found the socket readable. The next thread that polls the store
    /// reads the bytes. While the socket is left to a listener, no thread reads it before this
    /// function is called.
    fn received(&self);
}

/// Waits for bytes on a socket.
pub(crate) trait Listen: Send {
    /// Calls `read` when bytes may have arrived, or when the socket is closed. `read` reads all
    /// available bytes.
    fn poll_received(
        &mut self,
        cx: &mut Context<'_>,
        read: &mut dyn FnMut(),
    ) -> Poll<io::Result<()>>;
}

/// Time for which the store leaves a key free for clients that do not use its queue. A client that
/// tries every 250 ms finds the key free, with 50 ms to spare for the network.
pub(crate) const PAUSE: Duration = Duration::from_millis(300);

/// Time for which the store reserves a free key for the first process in its queue.
pub(crate) const CLAIM: Duration = Duration::from_secs(1);

/// Time without a request after which the store skips a process in a queue.
pub(crate) const FORGOTTEN: Duration = Duration::from_secs(3);

/// Longest time that a lock stays unavailable after an operator has taken it away by force. During
/// this time, the holder's body can end before another body begins.
pub(crate) const GRACE: Duration = Duration::from_secs(3);

/// A store's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reply {
    /// The lock was taken. `fence` is `None` if the store provides no fences.
    Acquired {
        fence: Option<Fence>,
        /// Number of fences after `fence` that the store reserves for this token.
        reserved_fences: u32,
        /// True if other processes queue for the key. `None` if the store has no queues.
        wanted: Option<bool>,
    },
    /// Another token has the key.
    Held {
        /// Time after which the request can succeed, if known: usually the remaining lease of the
        /// lock. While permits are held, the time until enough of them have ended.
        left: Option<Duration>,
        /// True if this process is in the key's queue. It gets a [`StoreEvent::Turn`] later.
        queued: bool,
        /// The owner, if it is known and a single token has the whole lock.
        owner: Option<Arc<Owner>>,
    },
    /// All keys were taken. There is a [`Reply::Acquired`] for each, in the order of the request.
    AcquiredAll(Vec<Reply>),
    /// Nothing was taken: another token has the key at index `at`, or a process that already waits
    /// for this key comes first.
    HeldAmong {
        at: usize,
        /// See [`Reply::Held`].
        left: Option<Duration>,
        /// See [`Reply::Held`].
        owner: Option<Arc<Owner>>,
    },
    /// Nothing was taken: the store cannot take these keys together. Each needs its own request.
    Apart,
    /// For each key, true if it still carried its token.
    Renewed(Vec<bool>),
    /// Like `Renewed`, but `None` for a key whose outcome is unknown.
    RenewedInPart(Vec<Option<bool>>),
    /// The key does not carry the token now.
    Released {
        /// True if the key carried the token, or may have carried it. On a quorum: true if the key
        /// may have carried the token on a majority of the nodes.
        found: bool,
        /// True if every request in `Give::after` reached the server before this release, on the
        /// same connection. None of them can then take the key after the release.
        ordered: bool,
    },
    /// The process is not in the queue now.
    Left,
    /// Nothing was taken, because this result is kept for the key.
    Recalled(Arc<Kept>),
    /// No result is kept for the key now. True if there was one before.
    Forgotten(bool),
    /// The key carries neither token of the `Op::Adopt`.
    Gone,
}

/// An event at a store.
#[derive(Debug)]
pub(crate) enum StoreEvent {
    /// The outcome of a request.
    Reply(OpId, Result<Reply, Failure>),
    /// The store can be reached again. Requests that wait for a retry can go out at once.
    Connected,
    /// The store, or a part of it, cannot be reached: [`LockStore::absence`] now returns an error
    /// that it did not return before.
    Away,
    /// The key was handed to this process for [`CLAIM`]. Or the key's state has changed, and this
    /// process, the first in the queue, must repeat its request.
    Turn(FullKey),
    /// Another process has begun to queue for a key that this process holds.
    Wanted(FullKey),
    /// The key was taken away by force. `lease` identifies the lost lease: it is one
    /// [half](Token::half) of the token that held the key.
    Revoked { key: FullKey, lease: u64 },
    /// The store no longer has these locks, because their session has ended. This event answers no
    /// request.
    #[cfg(feature = "__session")]
    Lost(Vec<(FullKey, Token)>),
}
