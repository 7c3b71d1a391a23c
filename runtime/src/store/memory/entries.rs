//! What a [`Space`](super::space::Space) contains: locks, queues, and a mailbox for each pool.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;
use std::time::{Duration, SystemTime};

use super::entry::{Entry, Limit, Params, State};
use crate::base::clock::Instant;
use crate::base::full_key::{FullKey, KeyMap};
use crate::base::id_map::IdMap;
use crate::base::token::{Nonce, Token};
use crate::fence::Fence;
use crate::store::{CLAIM, Renewal, Reply, StoreEvent};

/// How many acquisitions there are at least between sweeps of expired entries.
const SWEEP_EVERY: usize = 1024;

/// The last fence that this process was given. All spaces have it in common: a space that is
/// forgotten and made again gives greater fences than before.
static LAST_FENCE: AtomicU64 = AtomicU64::new(0);

/// Names a pool in a [`Space`](super::space::Space).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct PoolId(pub(super) u64);

/// The keys that are not free, and the pools.
#[derive(Debug, Default)]
pub(super) struct Entries {
    by_key: KeyMap<Entry>,
    /// The pools that queue for a key, the first one first. No queue is empty.
    queues: KeyMap<VecDeque<PoolId>>,
    pub(super) pools: IdMap<PoolId, Mailbox>,
    last_pool: u64,
    since_sweep: usize,
    left_by_sweep: usize,
}

/// Events that other pools caused for a pool, and the waker of its engine.
#[derive(Debug, Default)]
pub(super) struct Mailbox {
    pub(super) events: VecDeque<StoreEvent>,
    pub(super) waker: Option<Waker>,
}

impl Entries {
    /// Opens a mailbox for a further pool.
    pub(super) fn open(&mut self) -> PoolId {
        self.last_pool += 1;
        let pool = PoolId(self.last_pool);
        self.pools.insert(pool, Mailbox::default());
        pool
    }

    /// Whether there is a pool, or a key that is not free.
    pub(super) fn are_used(&self, now: Instant) -> bool {
        !self.pools.is_empty() || self.by_key.values().any(|entry| now < entry.expires)
    }

    pub(super) fn acquire(&mut self, pool: PoolId, params: &Params<'_>, now: Instant) -> Reply {
        self.sweep(now);
        let key = params.key;
        if self.live(key, now).is_none() {
            self.hand_to_first(key, now);
        }
        let wanted = Some(self.queues.contains_key(key));
        let (token, reserved_fences) = (params.token, params.reserved_fences);
        if let Some(entry) = self.live(key, now) {
            match entry.state {
                State::Held {
                    token: held,
                    fence,
                    reserved_fences,
                } if held == token => {
                    entry.expires = now + params.ttl;
                    let fence = Some(fence);
                    return Reply::Acquired {
                        fence,
                        reserved_fences,
                        wanted,
                    };
                }
                State::Handed if entry.pool == pool => {}
                _ => return self.refuse(pool, params, now),
            }
        }
        let fence = next_fence(reserved_fences);
        let entry = Entry {
            state: State::Held {
                token,
                fence,
                reserved_fences,
            },
            pool,
            expires: now + params.ttl,
        };
        self.by_key.insert(key.clone(), entry);
        let fence = Some(fence);
        Reply::Acquired {
            fence,
            reserved_fences,
            wanted,
        }
    }

    /// Takes all keys or none.
    pub(super) fn acquire_all(&mut self, pool: PoolId, all: &[Params<'_>], now: Instant) -> Reply {
        for (at, params) in all.iter().enumerate() {
            if self.live(params.key, now).is_none() {
                self.hand_to_first(params.key, now);
            }
            if let Some(entry) = self.live(params.key, now)
                && !entry.is_held_by(params.token)
            {
                let left = Some(entry.next_end().since(now));
                return Reply::HeldAmong { at, left };
            }
        }
        let taken = all.iter().map(|params| self.acquire(pool, params, now));
        Reply::AcquiredAll(taken.collect())
    }

    pub(super) fn join(
        &mut self,
        pool: PoolId,
        params: &Params<'_>,
        limit: Limit,
        now: Instant,
    ) -> Reply {
        self.sweep(now);
        let Limit(most) = limit;
        let key = params.key;
        if self.live(key, now).is_none() {
            self.hand_to_first(key, now);
        }
        let first = self
            .queues
            .get(key)
            .and_then(|queue| queue.front().copied());
        let is_first = first.is_none_or(|first| first == pool);
        let mut shares = HashMap::new();
        let mut limit = most;
        let mut ends = now + params.ttl;
        if let Some(entry) = self.live(key, now) {
            match &mut entry.state {
                State::Shared {
                    limit: known,
                    shares: others,
                } => {
                    let again = others.contains_key(&params.token);
                    if !again && 0 < most && most < *known {
                        return Reply::Limited(*known);
                    }
                    let same_kind = (most == 0) == (*known == 0);
                    limit = most.max(*known);
                    let room = limit == 0 || others.len() < limit as usize;
                    if !(again || same_kind && room && is_first) {
                        return self.refuse(pool, params, now);
                    }
                    shares = std::mem::take(others);
                    ends = ends.max(entry.expires);
                }
                State::Handed if entry.pool == pool => {}
                _ => return self.refuse(pool, params, now),
            }
        }
        shares.insert(params.token, now + params.ttl);
        if first == Some(pool) {
            self.unqueue(pool, key);
        }
        let entry = Entry {
            state: State::Shared { limit, shares },
            pool,
            expires: ends,
        };
        self.by_key.insert(key.clone(), entry);
        self.invite(key);
        Reply::Acquired {
            fence: Some(next_fence(0)),
            reserved_fences: 0,
            wanted: Some(self.queues.contains_key(key)),
        }
    }

    /// Tells the first pool in the key's queue that the key may have room.
    fn invite(&mut self, key: &FullKey) {
        let first = self
            .queues
            .get(key)
            .and_then(|queue| queue.front().copied());
        if let Some(first) = first {
            self.tell(first, StoreEvent::Turn(key.clone()));
        }
    }

    pub(super) fn stay(&mut self, renewal: &Renewal, now: Instant) -> bool {
        let Some(entry) = self.live(&renewal.key, now) else {
            return false;
        };
        let until = now + renewal.ttl;
        match &mut entry.state {
            State::Held { token, .. } if *token == renewal.token => {
                let shares = HashMap::from([(renewal.token, until)]);
                entry.state = State::Shared { limit: 0, shares };
                entry.expires = until;
                self.invite(&renewal.key);
                true
            }
            State::Shared { shares, .. } => {
                let Some(end) = shares.get_mut(&renewal.token) else {
                    return false;
                };
                *end = until;
                entry.expires = shares.values().max().copied().unwrap_or(until);
                true
            }
            State::Held { .. } | State::Handed | State::Kept => false,
        }
    }

    /// With `keep`, the share ends after that long.
    pub(super) fn part(
        &mut self,
        key: &FullKey,
        token: Token,
        keep: Option<Duration>,
        now: Instant,
    ) -> bool {
        if self.release(key, token, keep, now) {
            return true;
        }
        let Some(entry) = self.live(key, now) else {
            return false;
        };
        let State::Shared { shares, .. } = &mut entry.state else {
            return false;
        };
        if shares.remove(&token).is_none() {
            return false;
        }
        if let Some(keep) = keep {
            // Under another token, so that no late request of this one finds the share.
            shares.insert(Token::random(Nonce::new()), now + keep);
        }
        if let Some(last) = shares.values().max() {
            entry.expires = *last;
            self.invite(key);
        } else {
            self.by_key.remove(key);
            self.hand_to_first(key, now);
        }
        true
    }

    fn refuse(&mut self, pool: PoolId, params: &Params<'_>, now: Instant) -> Reply {
        let Some(entry) = self.by_key.get(params.key) else {
            return Reply::Left;
        };
        let left = Some(entry.next_end().since(now));
        let holder = entry.pool;
        if params.queue {
            let queue = self.queues.entry(params.key.clone()).or_default();
            if !queue.contains(&pool) {
                queue.push_back(pool);
                self.tell(holder, StoreEvent::Wanted(params.key.clone()));
            }
        }
        let queued = params.queue;
        Reply::Held { left, queued }
    }

    /// Hands a free key to the first pool in its queue. Returns whether there was one.
    fn hand_to_first(&mut self, key: &FullKey, now: Instant) -> bool {
        let Some(queue) = self.queues.get_mut(key) else {
            return false;
        };
        let first = queue.pop_front();
        if queue.is_empty() {
            self.queues.remove(key);
        }
        let Some(pool) = first else {
            return false;
        };
        let entry = Entry {
            state: State::Handed,
            pool,
            expires: now + CLAIM,
        };
        self.by_key.insert(key.clone(), entry);
        self.tell(pool, StoreEvent::Turn(key.clone()));
        true
    }

    pub(super) fn tell(&mut self, pool: PoolId, event: StoreEvent) {
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

    /// Removes the key, or hands it to the first pool in its queue. With `keep`, the key stays
    /// taken for that long.
    pub(super) fn release(
        &mut self,
        key: &FullKey,
        token: Token,
        keep: Option<Duration>,
        now: Instant,
    ) -> bool {
        let live = self.live(key, now);
        let held = live.filter(|entry| entry.is_held_by(token));
        let found = held.is_some();
        if let (Some(entry), Some(keep)) = (held, keep) {
            entry.state = State::Kept;
            entry.expires = now + keep;
            // The key is not handed to the first pool in the queue. That pool asks again now, and
            // learns when to ask next.
            if let Some(first) = self.queues.get(key).and_then(VecDeque::front).copied() {
                self.tell(first, StoreEvent::Turn(key.clone()));
            }
        } else if found && !self.hand_to_first(key, now) {
            self.by_key.remove(key);
        }
        found
    }

    /// Takes `pool` out of the queue of `key`. If the key was handed to `pool`, the next pool gets
    /// it.
    pub(super) fn leave(&mut self, pool: PoolId, key: &FullKey, now: Instant) {
        self.unqueue(pool, key);
        let handed = |entry: &mut Entry| entry.pool == pool && matches!(entry.state, State::Handed);
        if self.live(key, now).is_some_and(handed) && !self.hand_to_first(key, now) {
            self.by_key.remove(key);
        }
    }

    fn unqueue(&mut self, pool: PoolId, key: &FullKey) {
        if let Some(queue) = self.queues.get_mut(key) {
            queue.retain(|queued| *queued != pool);
            if queue.is_empty() {
                self.queues.remove(key);
            }
        }
    }

    /// Forgets `pool`, which was closed. Its locks stay until their ttl is over.
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

    fn live(&mut self, key: &FullKey, now: Instant) -> Option<&mut Entry> {
        let entry = self.by_key.get_mut(key)?;
        entry.prune(now).then_some(entry)
    }

    /// Now and then, removes the keys that have expired without a release.
    fn sweep(&mut self, now: Instant) {
        self.since_sweep += 1;
        if self.since_sweep > SWEEP_EVERY.max(self.left_by_sweep) {
            self.by_key.retain(|_, entry| now < entry.expires);
            self.since_sweep = 0;
            self.left_by_sweep = self.by_key.len();
        }
    }
}

/// The first of `1 + reserved_fences` new fences.
fn next_fence(reserved_fences: u32) -> Fence {
    let micros = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| u64::try_from(since.as_micros()).unwrap_or(0));
    let fence_after = |last: u64| micros.max(last + 1);
    let reserve = |last| Some(fence_after(last) + u64::from(reserved_fences));
    let last = LAST_FENCE.fetch_update(Ordering::Relaxed, Ordering::Relaxed, reserve);
    // `reserve` refuses nothing.
    Fence::new(fence_after(last.unwrap_or_else(|last| last)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expired_entries_are_swept() {
        let mut entries = Entries::default();
        let start = Instant::from_nanos(1);
        for number in 0..5_000_u32 {
            let key: FullKey = number.to_string().into();
            let now = start + Duration::from_millis(number.into());
            let params = Params {
                key: &key,
                token: Token::random(Nonce::new()),
                ttl: Duration::from_millis(100),
                queue: false,
                reserved_fences: 0,
            };
            entries.acquire(PoolId(1), &params, now);
        }
        assert!(
            entries.by_key.len() <= 2 * SWEEP_EVERY,
            "{} kept",
            entries.by_key.len()
        );
    }
}
