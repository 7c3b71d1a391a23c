//! Requests to a store.

use std::sync::Arc;
use std::time::Duration;

use super::kept::Record;
use crate::base::full_key::FullKey;
use crate::base::token::Token;

/// Identifies a request, to match its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct OpId(pub(crate) u64);

/// A request to the store.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) id: OpId,
    pub(crate) op: Op,
    /// The engine tries again after this long without an answer. The store should then replace the
    /// connection if it has answered nothing since.
    pub(crate) patience: Duration,
}

/// The operation of a request.
#[derive(Debug, Clone)]
pub(crate) enum Op {
    Take(Take),
    /// Takes all of these keys or none, each like [`TakeKind::Lock`] but without a queue and
    /// without reserved fences. The answer is [`Reply::AcquiredAll`](super::Reply::AcquiredAll),
    /// [`Reply::HeldAmong`](super::Reply::HeldAmong) or [`Reply::Apart`](super::Reply::Apart).
    TakeAll {
        /// Each key once, with its token.
        keys: Vec<(FullKey, Token)>,
        ttl: Duration,
        /// See [`Take::function`].
        function: &'static str,
    },
    /// Sets the time to live of each key that carries its token to its full ttl.
    Keep {
        renewals: Vec<Renewal>,
        /// True for shares: each token keeps its unexpired share. If the token has the whole lock,
        /// the lock becomes an unbounded share.
        shares: bool,
    },
    Give(Give),
    /// Removes this process from the queue of `key`. If the key was handed to this process, the
    /// store gives it to the next process in the queue.
    Leave {
        key: FullKey,
    },
    /// Removes all results kept for `key`, of every function.
    Forget {
        key: FullKey,
    },
    /// Replaces the token `from` of `key` by `token`, and renews the full ttl, if the key carries
    /// either token. The fence stays the same. The answer is
    /// [`Reply::Acquired`](super::Reply::Acquired) or [`Reply::Gone`](super::Reply::Gone), or
    /// [`Reply::Held`](super::Reply::Held) while a transaction pins the lock.
    Adopt {
        key: FullKey,
        from: Token,
        token: Token,
        ttl: Duration,
        /// See [`Take::function`].
        function: &'static str,
    },
}

/// Takes `key` if it is free, was handed to this process, or carries `token`.
#[derive(Debug, Clone)]
pub(crate) struct Take {
    pub(crate) key: FullKey,
    pub(crate) token: Token,
    pub(crate) ttl: Duration,
    /// Annotated function of the call. The store writes it into the key's value, for operators.
    pub(crate) function: &'static str,
    /// True if the store queues this process when another process has the key.
    pub(crate) queue: bool,
    pub(crate) kind: TakeKind,
}

/// Part of a lock that a [`Take`] takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TakeKind {
    /// The whole lock.
    Lock {
        /// Number of fences that the store reserves after the first. With them, this process can
        /// give the key to its next calls without a request.
        reserved_fences: u32,
    },
    /// A share. It is available if the key is free, was handed to this process, or is shared and
    /// has room. A token that has a share gets it again.
    Share {
        /// Maximum number of shares, including this one; 0 for no bound. Calls with other bounds
        /// share the key too. Bounded and unbounded shares exclude each other.
        limit: u32,
    },
    /// The whole lock without reserved fences, unless a result is kept for the key and the
    /// function. That result is the answer even if the key is held, or was handed to this process,
    /// and it changes nothing.
    Recall,
}

/// Gives up `key`, or the share of it that `token` has, if it carries `token`.
#[derive(Debug, Clone)]
pub(crate) struct Give {
    pub(crate) key: FullKey,
    pub(crate) token: Token,
    /// Keeps the key, or the share, for this long instead of removing it. A share ends then
    /// regardless of its remaining lease, and its token no longer has it. The store does not give
    /// the key to the first process in the queue, but notifies that process to ask again.
    pub(crate) keep: Option<Duration>,
    /// True if the key must stay free for [`PAUSE`](super::PAUSE) although processes queue for it,
    /// so that clients that know no queue can take it. Ignored for a share.
    pub(crate) makes_way: bool,
    /// Requests with this token that take the key and whose outcome is unknown; see
    /// [`Reply::Released::ordered`](super::Reply::Released::ordered).
    pub(crate) after: Vec<OpId>,
    pub(crate) kind: GiveKind,
}

/// Part of a lock that a [`Give`] gives up.
#[derive(Debug, Clone)]
pub(crate) enum GiveKind {
    /// The whole lock.
    Lock,
    /// The share, or the whole lock.
    Share,
    /// The whole lock. If the key carries the token, the store keeps the record in the same step.
    Record(Arc<Record>),
}

/// One key of a batch of renewals.
#[derive(Debug, Clone)]
pub(crate) struct Renewal {
    pub(crate) key: FullKey,
    pub(crate) token: Token,
    pub(crate) ttl: Duration,
}

impl Take {
    /// Returns a request for a whole lock, without a queue and without reserved fences.
    pub(crate) fn lock(key: FullKey, token: Token, ttl: Duration, function: &'static str) -> Self {
        Self {
            key,
            token,
            ttl,
            function,
            queue: false,
            kind: TakeKind::Lock { reserved_fences: 0 },
        }
    }
}

impl TakeKind {
    /// Returns the number of fences that the store reserves after the first.
    pub(crate) fn reserved_fences(self) -> u32 {
        match self {
            Self::Lock { reserved_fences } => reserved_fences,
            Self::Share { .. } | Self::Recall => 0,
        }
    }
}

impl Give {
    /// Returns a request that gives up a lock now, regardless of other requests.
    pub(crate) fn now(key: FullKey, token: Token, kind: GiveKind) -> Self {
        Self {
            key,
            token,
            keep: None,
            makes_way: false,
            after: Vec::new(),
            kind,
        }
    }
}

impl Op {
    /// Returns the keys of the request, in its order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &FullKey> {
        let (one, several, renewals): (_, &[_], &[_]) = match self {
            Self::Take(Take { key, .. })
            | Self::Give(Give { key, .. })
            | Self::Leave { key }
            | Self::Forget { key }
            | Self::Adopt { key, .. } => (Some(key), &[], &[]),
            Self::TakeAll { keys, .. } => (None, keys, &[]),
            Self::Keep { renewals, .. } => (None, &[], renewals),
        };
        let several = several.iter().map(|(key, _)| key);
        let renewals = renewals.iter().map(|renewal| &renewal.key);
        one.into_iter().chain(several).chain(renewals)
    }

    /// True if the store may take keys because of this request.
    pub(crate) fn takes(&self) -> bool {
        matches!(
            self,
            Self::Take(_) | Self::TakeAll { .. } | Self::Adopt { .. }
        )
    }
}
