//! Requests to a store.

use std::sync::Arc;
use std::time::Duration;

use super::kept::Record;
use crate::base::full_key::FullKey;
use crate::base::token::Token;

/// Identifies a request, so that its reply can be matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct OpId(pub(crate) u64);

/// A request to the store.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) id: OpId,
    pub(crate) op: Op,
    /// Time after which the engine retries an unanswered request. The store should then replace the
    /// connection, if nothing has arrived on the connection since the request was sent.
    pub(crate) patience: Duration,
}

#[derive(Debug, Clone)]
pub(crate) enum Op {
    Take(Take),
    /// Takes either all of these keys or none. Each is taken like a [`TakeKind::Lock`], but without
    /// a queue and without reserved fences. The answer is
    /// [`Reply::AcquiredAll`](super::Reply::AcquiredAll),
    /// [`Reply::HeldAmong`](super::Reply::HeldAmong) or [`Reply::Apart`](super::Reply::Apart).
    TakeAll {
        /// The keys, all different, each with its token.
        keys: Vec<(FullKey, Token)>,
        ttl: Duration,
        /// Path of the annotated function, like [`Take::function`].
        function: &'static str,
    },
    /// Extends the lease of each key to the full ttl, if the key still carries its token.
    Keep {
        renewals: Vec<Renewal>,
        /// True for shares: the store extends each token's share, unless the share has expired. If
        /// the token has the whole lock, this is a downgrade: the lock becomes a share without a
        /// limit.
        shares: bool,
    },
    Give(Give),
    /// Removes this process from the queue of `key`. If the key was handed to this process, the
    /// store hands it to the next process in the queue.
    Leave {
        key: FullKey,
    },
    /// Removes the kept results (of `replay` calls) of all functions for `key`.
    Forget {
        key: FullKey,
    },
    /// If the key carries `from` or `token`, sets its token to `token` and its lease to the full
    /// ttl. The fence stays the same. The answer is [`Reply::Acquired`](super::Reply::Acquired) or
    /// [`Reply::Gone`](super::Reply::Gone), or [`Reply::Held`](super::Reply::Held) while a database
    /// transaction holds the lock.
    Adopt {
        key: FullKey,
        from: Token,
        token: Token,
        ttl: Duration,
        /// Path of the annotated function, like [`Take::function`].
        function: &'static str,
    },
}

/// Request to take `key`. The key must be free, handed to this process by the queue, or carry
/// `token` already.
#[derive(Debug, Clone)]
pub(crate) struct Take {
    pub(crate) key: FullKey,
    pub(crate) token: Token,
    pub(crate) ttl: Duration,
    /// Path of the annotated function that makes the call, if there is one. The store writes it
    /// into the key's value, for operators.
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
        /// Number of fences that the store reserves in addition to the first. With them, this
        /// process can give the key to its next calls without a request.
        reserved_fences: u32,
    },
    /// A share. It is available if the key is free, was handed to this process, or is shared and
    /// `limit` permits one more share. A token that already has a share gets it again.
    Share {
        /// Maximum number of shares, including this one; 0 for no limit. Limits of other calls do
        /// not matter, but shares with a limit and shares without one exclude each other.
        limit: u32,
    },
    /// A kept result, if there is one for the key and the function, or else the whole lock without
    /// reserved fences. A kept result is returned even if the key is held, or was handed to this
    /// process. If a kept result answers the request, the store changes nothing.
    Recall,
}

/// Request to give up `key`, or the share that `token` has in it. It changes nothing if the key
/// does not carry `token`.
#[derive(Debug, Clone)]
pub(crate) struct Give {
    pub(crate) key: FullKey,
    pub(crate) token: Token,
    /// Time for which the store keeps the key, or the share, without a holder instead of removing
    /// it. A kept share ends after this time even if its lease was longer. The store does not hand
    /// a kept key to the first process in the queue. Instead, it notifies that process to repeat
    /// its request.
    pub(crate) keep: Option<Duration>,
    /// True if the key must stay free for [`PAUSE`](super::PAUSE) although processes queue for it.
    /// Then clients that do not use the queue can take it. Ignored for a share.
    pub(crate) makes_way: bool,
    /// Earlier requests that take the key with this token, and whose outcome is unknown. The answer
    /// shows if all of them came before this request
    /// ([`Reply::Released::ordered`](super::Reply::Released::ordered)).
    pub(crate) after: Vec<OpId>,
    pub(crate) kind: GiveKind,
}

/// Part of a lock that a [`Give`] gives up.
#[derive(Debug, Clone)]
pub(crate) enum GiveKind {
    /// The whole lock.
    Lock,
    /// The token's share, or the whole lock if the token holds the whole lock.
    Share,
    /// The whole lock. If the key carries the token, the store also stores the record, in the same
    /// step.
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
    /// Returns a request for the whole lock, without a queue and without reserved fences.
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
    /// Returns the number of fences that the store reserves in addition to the first.
    pub(crate) fn reserved_fences(self) -> u32 {
        match self {
            Self::Lock { reserved_fences } => reserved_fences,
            Self::Share { .. } | Self::Recall => 0,
        }
    }
}

impl Give {
    /// Returns a request that removes the lock at once, instead of keeping it for a time. Use it
    /// only if all earlier requests for the lock have a known outcome.
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

    /// True if this request can make the store give keys to this process.
    pub(crate) fn takes(&self) -> bool {
        matches!(
            self,
            Self::Take(_) | Self::TakeAll { .. } | Self::Adopt { .. }
        )
    }
}
