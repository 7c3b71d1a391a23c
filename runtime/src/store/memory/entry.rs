//! One key of a [`Space`](super::space::Space).

use std::collections::HashMap;
use std::sync::Arc;

use crate::base::clock::Instant;
use crate::base::token::Token;
use crate::fence::Fence;
use crate::owner::Owner;
use crate::store::Take;

/// Identifies a pool in a [`Space`](super::space::Space).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct PoolId(pub(super) u64);

/// A key that is not free.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) state: State,
    /// The pool that has the key, or to which the key was handed. If the key has shares, the pool
    /// that took the latest one.
    pub(super) pool: PoolId,
    pub(super) expires: Instant,
}

/// Fence, function and time of an acquisition.
#[derive(Debug, Clone, Copy)]
pub(super) struct Taken {
    pub(super) fence: Fence,
    /// Path of the annotated function that made the call.
    pub(super) function: &'static str,
    pub(super) since: Instant,
}

impl Taken {
    pub(super) fn of(take: &Take, fence: Fence, since: Instant) -> Self {
        Self {
            fence,
            function: take.function,
            since,
        }
    }
}

/// A share of a lock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Share {
    pub(super) taken: Taken,
    pub(super) pool: PoolId,
    pub(super) ends: Instant,
    /// True if the share was taken away by force.
    pub(super) revoked: bool,
}

/// A pool that queues for a key.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting {
    pub(super) pool: PoolId,
    /// Function of the pool's first call that queued for the key.
    pub(super) function: &'static str,
    pub(super) since: Instant,
}

impl Waiting {
    pub(super) fn of(take: &Take, pool: PoolId, since: Instant) -> Self {
        Self {
            pool,
            function: take.function,
            since,
        }
    }
}

/// The state of a key that is not free.
#[derive(Debug)]
pub(super) enum State {
    Held {
        token: Token,
        taken: Taken,
        reserved_fences: u32,
    },
    /// The lock was taken away by force from this token. The holder's body may not have ended yet.
    Revoked { token: Token, taken: Taken },
    /// The key was handed to the pool, but no call of the pool has taken it yet.
    Handed,
    /// The holder has released the key with `keep`, and it stays taken until it expires.
    Kept(Taken),
    /// Several tokens have shares. `limit` is the largest number of shares that their calls allow;
    /// 0 for no limit.
    Shared {
        limit: u32,
        shares: HashMap<Token, Share>,
    },
}

impl Entry {
    /// Returns the time at which a refused call should try again, if no lease is renewed until
    /// then. If no permits are held, this is the time when the lock ends. While permits are held, a
    /// call with a limit must wait until fewer permits than its limit remain. Any other call gets
    /// the time when the first permit ends.
    pub(super) fn next_end(&self, Limit(most): Limit) -> Instant {
        match &self.state {
            State::Shared { limit, shares } if *limit > 0 => {
                let mut ends: Vec<_> = shares.values().map(|share| share.ends).collect();
                ends.sort_unstable();
                let over = ends.len().saturating_sub(most as usize);
                let first = if most == 0 {
                    ends.first()
                } else {
                    ends.get(over)
                };
                first.copied().unwrap_or(self.expires)
            }
            _ => self.expires,
        }
    }

    /// Returns the owner of an exclusive lock.
    pub(super) fn owner(&self) -> Option<Arc<Owner>> {
        match &self.state {
            State::Held { taken, .. } => Some(Arc::new(Owner::here(taken.function))),
            _ => None,
        }
    }

    /// Removes the expired shares. Returns true if the entry has not expired.
    pub(super) fn prune(&mut self, now: Instant) -> bool {
        if let State::Shared { shares, .. } = &mut self.state {
            shares.retain(|_, share| now < share.ends);
        }
        now < self.expires
    }

    pub(super) fn is_held_by(&self, with: Token) -> bool {
        matches!(self.state, State::Held { token, .. } if token == with)
    }
}

/// Maximum number of shares that a call allows, including its own; 0 for no limit.
#[derive(Clone, Copy)]
pub(super) struct Limit(pub(super) u32);
