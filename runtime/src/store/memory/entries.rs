//! The contents of a [`Space`](super::space::Space): locks, queues, and a mailbox for each pool.

use std::collections::VecDeque;
use std::task::Waker;
use std::time::Duration;

use super::entry::{Entry, Limit, PoolId, State, Taken, Waiting};
use super::fences::next_fence;
use super::results::Results;
use crate::base::clock::Instant;
use crate::base::full_key::{FullKey, KeyMap};
use crate::base::id_map::IdMap;
use crate::base::token::Token;
use crate::store::{CLAIM, Renewal, Reply, StoreEvent, Take};

/// Minimum number of acquisitions between two removals of all expired entries.
const SWEEP_EVERY: usize = 1024;

/// The contents of a space: keys that are not free, queues, results and pools.
#[derive(Debug, Default)]
pub(super) struct Entries {
    pub(super) by_key: KeyMap<Entry>,
    /// The pools that queue for each key, in the order of the queue. A key without waiting pools
    /// has no queue.
    pub(super) queues: KeyMap<VecDeque<Waiting>>,
    /// Kept results of keys, which may be free or taken.
    pub(super) results: Results,
    pub(super) pools: IdMap<PoolId, Mailbox>,
    last_pool: u64,
    since_sweep: usize,
    left_by_sweep: usize,
}

/// The waker of a pool's engine, and the events for this engine. Answers to the pool's own requests
/// are not among them.
#[derive(Debug, Default)]
pub(super) struct Mailbox {
    pub(super) events: VecDeque<StoreEvent>,
    pub(super) waker: Option<Waker>,
}

impl Entries {
    /// Opens a mailbox for a new pool, and returns the pool's id.
    pub(super) fn open(&mut self) -> PoolId {
        self.last_pool += 1;
        let pool = PoolId(self.last_pool);
        self.pools.insert(pool, Mailbox::default());
        pool
    }

    /// True if the space has a pool, a key that is not free, or a kept result.
    pub(super) fn are_used(&self, now: Instant) -> bool {
        !self.pools.is_empty()
            || self.by_key.values().any(|entry| now < entry.expires)
            || self.results.are_kept(now)
    }

    pub(super) fn acquire(&mut self, pool: PoolId, take: &Take, now: Instant) -> Reply {
        self.sweep(now);
        let key = &take.key;
        if self.live(key, now).is_none() {
            self.hand_to_first(key, now);
        }
        let wanted = Some(self.queues.contains_key(key));
        let (token, reserved_fences) = (take.token, take.kind.reserved_fences());
        if let Some(entry) = self.live(key, now) {
            match entry.state {
                State::Held {
                    token: held,
                    taken: tenure,
                    reserved_fences,
                } if held == token => {
                    entry.expires = now + take.ttl;
                    let fence = Some(tenure.fence);
                    return Reply::Acquired {
                        fence,
                        reserved_fences,
                        wanted,
                    };
                }
                State::Handed if entry.pool == pool => {}
                _ => return self.refuse(pool, take, Limit(0), now),
            }
        }
        let grant = Taken::of(take, next_fence(reserved_fences), now);
        let entry = Entry {
            state: State::Held {
                token,
                taken: grant,
                reserved_fences,
            },
            pool,
            expires: now + take.ttl,
        };
        self.by_key.insert(key.clone(), entry);
        let fence = Some(grant.fence);
        Reply::Acquired {
            fence,
            reserved_fences,
            wanted,
        }
    }

    /// Takes all keys or none.
    pub(super) fn acquire_all(&mut self, pool: PoolId, all: &[Take], now: Instant) -> Reply {
        for (at, take) in all.iter().enumerate() {
            if self.live(&take.key, now).is_none() {
                self.hand_to_first(&take.key, now);
            }
            if let Some(entry) = self.live(&take.key, now)
                && !entry.is_held_by(take.token)
            {
                let left = Some(entry.next_end(Limit(0)).since(now));
                let owner = entry.owner();
                return Reply::HeldAmong { at, left, owner };
            }
        }
        let taken = all.iter().map(|take| self.acquire(pool, take, now));
        Reply::AcquiredAll(taken.collect())
    }

    /// Notifies the first pool in the key's queue, so that the pool repeats its request for the
    /// key.
    pub(super) fn invite(&mut self, key: &FullKey) {
        if let Some(first) = self.first(key) {
            self.emit(first, StoreEvent::Turn(key.clone()));
        }
    }

    /// Returns the first pool in the key's queue.
    pub(super) fn first(&self, key: &FullKey) -> Option<PoolId> {
        let queue = self.queues.get(key)?;
        queue.front().map(|waiting| waiting.pool)
    }

    pub(super) fn refuse(
        &mut self,
        pool: PoolId,
        take: &Take,
        limit: Limit,
        now: Instant,
    ) -> Reply {
        let Some(entry) = self.by_key.get(&take.key) else {
            return Reply::Left;
        };
        let left = Some(entry.next_end(limit).since(now));
        let (holder, owner) = (entry.pool, entry.owner());
        if take.queue {
            let queue = self.queues.entry(take.key.clone()).or_default();
            if queue.iter().all(|waiting| waiting.pool != pool) {
                queue.push_back(Waiting::of(take, pool, now));
                self.emit(holder, StoreEvent::Wanted(take.key.clone()));
            }
        }
        Reply::Held {
            left,
            queued: take.queue,
            owner,
        }
    }

    /// Reserves a free key for the first pool in its queue, for the time `CLAIM`. Returns true if a
    /// pool was waiting.
    pub(super) fn hand_to_first(&mut self, key: &FullKey, now: Instant) -> bool {
        let Some(queue) = self.queues.get_mut(key) else {
            return false;
        };
        let first = queue.pop_front();
        if queue.is_empty() {
            self.queues.remove(key);
        }
        let Some(Waiting { pool, .. }) = first else {
            return false;
        };
        let entry = Entry {
            state: State::Handed,
            pool,
            expires: now + CLAIM,
        };
        self.by_key.insert(key.clone(), entry);
        self.emit(pool, StoreEvent::Turn(key.clone()));
        true
    }

    pub(super) fn emit(&mut self, pool: PoolId, event: StoreEvent) {
        if let Some(mailbox) = self.pools.get_mut(&pool) {
            mailbox.events.push_back(event);
            if let Some(waker) = mailbox.waker.take() {
                waker.wake();
            }
        }
    }

    pub(super) fn renew(&mut self, renewal: &Renewal, now: Instant) -> bool {
        match self.live(&renewal.key, now) {
            Some(entry) if entry.is_held_by(renewal.token) => {
                entry.expires = now + renewal.ttl;
                true
            }
            _ => false,
        }
    }

    /// Releases the key if `token` has it, or had it until a revocation. Then the key is reserved
    /// for the first pool in its queue, or removed. With `keep`, the key stays taken for that time
    /// instead, unless it was revoked. Returns true if `token` still had the key.
    pub(super) fn release(
        &mut self,
        key: &FullKey,
        token: Token,
        keep: Option<Duration>,
        now: Instant,
    ) -> bool {
        let Some(entry) = self.live(key, now) else {
            return false;
        };
        let (found, revoked) = match &entry.state {
            State::Held { token: held, .. } => (*held == token, false),
            State::Revoked { token: held, .. } => (false, *held == token),
            _ => (false, false),
        };
        if let (State::Held { taken, .. }, true, Some(keep)) = (&entry.state, found, keep) {
            entry.state = State::Kept(*taken);
            entry.expires = now + keep;
            // The key stays taken, so it is not handed to the first pool in the queue. Instead,
            // that pool is notified to repeat its request, whose answer then contains the remaining
            // time.
            self.invite(key);
        } else if found || revoked {
            self.free(key, now);
        }
        found
    }

    /// Reserves the key for the first pool in its queue, or removes it.
    pub(super) fn free(&mut self, key: &FullKey, now: Instant) {
        if !self.hand_to_first(key, now) {
            self.by_key.remove(key);
        }
    }

    /// Removes `pool` from the queue of `key`. If the key was handed to `pool`, hands it to the
    /// next pool in the queue.
    pub(super) fn leave(&mut self, pool: PoolId, key: &FullKey, now: Instant) {
        self.unqueue(pool, key);
        let handed = |entry: &mut Entry| entry.pool == pool && matches!(entry.state, State::Handed);
        if self.live(key, now).is_some_and(handed) {
            self.free(key, now);
        } else if self
            .live(key, now)
            .is_some_and(|entry| matches!(entry.state, State::Shared { .. }))
        {
            // This pool may have kept a share from the pools behind it.
            self.invite(key);
        }
    }

    pub(super) fn unqueue(&mut self, pool: PoolId, key: &FullKey) {
        if let Some(queue) = self.queues.get_mut(key) {
            queue.retain(|waiting| waiting.pool != pool);
            if queue.is_empty() {
                self.queues.remove(key);
            }
        }
    }

    /// Removes the closed `pool`. Its locks stay until their ttl is over.
    pub(super) fn forget(&mut self, pool: PoolId, now: Instant) {
        self.pools.remove(&pool);
        let handed = |entry: &Entry| entry.pool == pool && matches!(entry.state, State::Handed);
        let keys = self.by_key.iter().filter(|(_, entry)| handed(entry));
        let keys: Vec<_> = keys
            .map(|(key, _)| key)
            .chain(self.queues.keys())
            .cloned()
            .collect();
        for key in keys {
            self.leave(pool, &key, now);
        }
    }

    pub(super) fn live(&mut self, key: &FullKey, now: Instant) -> Option<&mut Entry> {
        let entry = self.by_key.get_mut(key)?;
        entry.prune(now).then_some(entry)
    }

    /// Removes the keys that expired without a release, at most once for every `SWEEP_EVERY`
    /// acquisitions.
    pub(super) fn sweep(&mut self, now: Instant) {
        self.since_sweep += 1;
        if self.since_sweep > SWEEP_EVERY.max(self.left_by_sweep) {
            self.by_key.retain(|_, entry| now < entry.expires);
            self.since_sweep = 0;
            self.left_by_sweep = self.by_key.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::token::Nonce;

    #[test]
    fn expired_entries_are_swept() {
        let mut entries = Entries::default();
        let start = Instant::from_nanos(1);
        for number in 0..5_000_u32 {
            let key: FullKey = number.to_string().into();
            let now = start + Duration::from_millis(number.into());
            let (token, ttl) = (Token::random(Nonce::new()), Duration::from_millis(100));
            let take = Take::lock(key, token, ttl, "");
            entries.acquire(PoolId(1), &take, now);
        }
        assert!(
            entries.by_key.len() <= 2 * SWEEP_EVERY,
            "{} kept",
            entries.by_key.len()
        );
    }
}
