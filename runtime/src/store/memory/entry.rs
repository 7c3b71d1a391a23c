//! One key of a [`Space`](super::space::Space), and what a pool asks of it.

use std::collections::HashMap;
use std::time::Duration;

use super::entries::PoolId;
use crate::base::clock::Instant;
use crate::base::full_key::FullKey;
use crate::base::token::Token;
use crate::fence::Fence;

/// One key that is not free.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) state: State,
    /// The pool that has the key.
    pub(super) pool: PoolId,
    pub(super) expires: Instant,
}

/// Why a key is not free.
#[derive(Debug)]
pub(super) enum State {
    Held {
        token: Token,
        fence: Fence,
        reserved_fences: u32,
    },
    /// The key was handed to the pool, and the pool has not confirmed yet.
    Handed,
    /// The holder has released the key with `keep`, and it stays taken until it expires.
    Kept,
    /// At most `limit` shares, 0 for no bound; and when each share ends.
    Shared {
        limit: u32,
        shares: HashMap<Token, Instant>,
    },
}

impl Entry {
    /// When the key may have room again: when the first bounded share ends, or the lock.
    pub(super) fn next_end(&self) -> Instant {
        match &self.state {
            State::Shared { limit, shares } if *limit > 0 => {
                shares.values().min().copied().unwrap_or(self.expires)
            }
            _ => self.expires,
        }
    }

    /// Removes the shares that have ended. Returns whether the entry has not expired.
    pub(super) fn prune(&mut self, now: Instant) -> bool {
        if let State::Shared { shares, .. } = &mut self.state {
            shares.retain(|_, end| now < *end);
        }
        now < self.expires
    }

    pub(super) fn is_held_by(&self, with: Token) -> bool {
        matches!(self.state, State::Held { token, .. } if token == with)
    }
}

/// The parameters of an acquire or a join.
pub(super) struct Params<'a> {
    pub(super) key: &'a FullKey,
    pub(super) token: Token,
    pub(super) ttl: Duration,
    pub(super) queue: bool,
    pub(super) reserved_fences: u32,
}

/// How many shares a join allows at most; 0 for no bound.
#[derive(Clone, Copy)]
pub(super) struct Limit(pub(super) u32);
