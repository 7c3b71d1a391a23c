//! Lock stores: the one interface that a store implements, and the stores.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::token::Token;
use crate::{Fence, LockError};

pub(crate) mod memory;
#[cfg(feature = "redis")]
pub(crate) mod redis;
#[cfg(feature = "redis")]
pub(crate) mod redlock;

mod target;

#[cfg(any(test, feature = "__test"))]
pub(crate) mod conformance;
#[cfg(feature = "__test")]
pub(crate) mod interleave;

pub(crate) use target::{Options, Target};

/// Where locks are kept.
///
/// The engine is its only caller. `submit` hands over requests, `poll_event` takes what came back; neither
/// blocks. The engine keeps its own time-outs, so a reply may come late, and a store never has to give
/// up on a request; it answers each request at most once.
///
/// What a store must keep:
/// - *Order.* Requests reach the server in the order of submission as long as one connection lasts.
/// - *Idempotence.* An acquire that finds its own token succeeds again, with the same fence and the full ttl.
/// - *Ownership.* Renew and release touch the key only where it carries the token; renewal never creates it.
/// - *Fences* grow with every new acquisition of a key.
pub(crate) trait LockStore: Send {
    /// Hands requests to the transport, in order.
    fn submit(&mut self, batch: Vec<Request>);

    /// The next thing that happened, and a wake-up when there is more.
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<StoreEvent>;
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
    /// Take `key` if it is free or carries `token`.
    Acquire {
        key: Arc<str>,
        token: Token,
        ttl: Duration,
        owner: Arc<str>,
    },
    /// Let each key live its ttl from now if it carries its token.
    Renew(Vec<Renewal>),
    /// Remove `key` if it carries `token`.
    Release {
        key: Arc<str>,
        token: Token,
        /// Acquires with this token whose outcome is not known; see [`Reply::Released::ordered`].
        after: Vec<OpId>,
    },
}

/// One key of a batch of renewals.
#[derive(Debug, Clone)]
pub(crate) struct Renewal {
    pub(crate) key: Arc<str>,
    pub(crate) token: Token,
    pub(crate) ttl: Duration,
}

/// What a store answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reply {
    /// The lock was taken. No fence where the store promises none.
    Acquired { fence: Option<Fence> },
    /// Another token has the key, for so long at most where that is known.
    Held { left: Option<Duration> },
    /// Per key, whether it still carried its token.
    Renewed(Vec<bool>),
    /// The same, where nothing certain can be said of some keys.
    #[cfg(feature = "redis")]
    RenewedInPart(Vec<Option<bool>>),
    /// The key does not carry the token now.
    Released {
        /// Whether it did.
        found: bool,
        /// Whether every acquire listed in `after` went before this on the same connection, so that none
        /// of them can still take the key.
        ordered: bool,
    },
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
}
