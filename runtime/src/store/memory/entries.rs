//! What a [`Space`](super::space::Space) keeps: the locks, the queues, and a mailbox for each pool.

use std::collections::{HashMap, VecDeque};
use std::task::Waker;
use std::time::{Duration, SystemTime};

use crate::base::clock::Instant;
use crate::base::full_key::{FullKey, KeyMap};
use crate::base::id_map::IdMap;
use crate::base::token::Token;
use crate::fence::Fence;
use crate::store::{CLAIM, Renewal, Reply, StoreEvent};

/// At least so many acquisitions go by between sweeps of expired entries.
const SWEEP_EVERY: usize = 1024;

/// Names a pool in a [`Space`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct PoolId(pub(super) u64);

#[derive(Debug, Default)]
pub(super) struct Entries {
    by_key: KeyMap<Entry>,
    /// The pools that queue for a key.
    queues: KeyMap<VecDeque<PoolId>>,
    pub(super) pools: IdMap<PoolId, Mailbox>,
    pub(super) last_pool: u64,
    last_fence: u64,
    since_sweep: usize,
    left_by_sweep: usize,
}

/// What a pool is told by others, and how to wake it.
#[derive(Debug, Default)]
pub(super) struct Mailbox {
    pub(super) events: VecDeque<StoreEvent>,
    pub(super) waker: Option<Waker>,
}

#[derive(Debug)]
struct Entry {
    state: State,
    pool: PoolId,
    expires: Instant,
}

#[derive(Debug)]
enum State {
    Held {
        token: Token,
        fence: Fence,
        reserved_fences: u32,
    },
    /// Handed to the pool, which has not confirmed yet.
    Handed,
    /// Released, and to be free later.
    Kept,
    /// At most `limit` shares, 0 for no bound, and when each ends.
    Shared {
        limit: u32,
        shares: HashMap<Token, Instant>,
    },
}

impl Entry {
    /// When there may be room: a bounded share ends, or the lock does.
    fn next_end(&self) -> Instant {
        match &self.state {
            State::Shared { limit, shares } if *limit > 0 => {
                shares.values().min().copied().unwrap_or(self.expires)
            }
            _ => self.expires,
        }
    }

    /// Removes the shares that have ended; whether anything is left.
    fn prune(&mut self, now: Instant) -> bool {
        if let State::Shared { shares, .. } = &mut self.state {
            shares.retain(|_, end| now < *end);
        }
        now < self.expires
    }

    fn is_held_by(&self, with: Token) -> bool {
        matches!(self.state, State::Held { token, .. } if token == with)
    }
}

/// An acquire or a join, as a [`MemoryStore`] was asked for it.
pub(super) struct Wish<'a> {
    pub(super) key: &'a FullKey,
    pub(super) token: Token,
    pub(super) ttl: Duration,
    pub(super) queue: bool,
    pub(super) reserved_fences: u32,
}

/// A join's part that an acquire has not: how many shares there may be.
#[derive(Clone, Copy)]
pub(super) struct Limit(pub(super) u32);

impl Entries {
    pub(super) fn acquire(&mut self, pool: PoolId, wish: &Wish<'_>, now: Instant) -> Reply {
        self.sweep(now);
        let key = wish.key;
        if self.live(key, now).is_none() {
            self.hand_on(key, now);
        }
        let wanted = Some(self.queues.contains_key(key));
        let (token, reserved_fences) = (wish.token, wish.reserved_fences);
        if let Some(entry) = self.live(key, now) {
            match entry.state {
                State::Held {
                    token: held,
                    fence,
                    reserved_fences,
                } if held == token => {
                    entry.expires = now + wish.ttl;
                    let fence = Some(fence);
                    return Reply::Acquired {
                        fence,
                        reserved_fences,
                        wanted,
                    };
                }
                State::Handed if entry.pool == pool => {}
                _ => return self.refuse(pool, wish, now),
            }
        }
        let fence = self.next_fence(reserved_fences);
        let entry = Entry {
            state: State::Held {
                token,
                fence,
                reserved_fences,
            },
            pool,
            expires: now + wish.ttl,
        };
        self.by_key.insert(key.clone(), entry);
        let fence = Some(fence);
        Reply::Acquired {
            fence,
            reserved_fences,
            wanted,
        }
    }

    /// All of them or none.
    pub(super) fn acquire_all(&mut self, pool: PoolId, wishes: &[Wish<'_>], now: Instant) -> Reply {
        for (at, wish) in wishes.iter().enumerate() {
            if self.live(wish.key, now).is_none() {
                self.hand_on(wish.key, now);
            }
            if let Some(entry) = self.live(wish.key, now)
                && !entry.is_held_by(wish.token)
            {
                let left = Some(entry.next_end().since(now));
                return Reply::HeldAmong { at, left };
            }
        }
        let all = wishes.iter().map(|wish| self.acquire(pool, wish, now));
        Reply::AcquiredAll(all.collect())
    }

    pub(super) fn join(
        &mut self,
        pool: PoolId,
        wish: &Wish<'_>,
        limit: Limit,
        now: Instant,
    ) -> Reply {
        self.sweep(now);
        let Limit(most) = limit;
        let key = wish.key;
        if self.live(key, now).is_none() {
            self.hand_on(key, now);
        }
        let first = self
            .queues
            .get(key)
            .and_then(|queue| queue.front().copied());
        let my_turn = first.is_none_or(|first| first == pool);
        let mut shares = HashMap::new();
        let mut limit = most;
        let mut ends = now + wish.ttl;
        if let Some(entry) = self.live(key, now) {
            match &mut entry.state {
                State::Shared {
                    limit: known,
                    shares: others,
                } => {
                    let again = others.contains_key(&wish.token);
                    if !again && 0 < most && most < *known {
                        return Reply::Limited(*known);
                    }
                    let same_kind = (most == 0) == (*known == 0);
                    limit = most.max(*known);
                    let room = limit == 0 || others.len() < limit as usize;
                    if !(again || same_kind && room && my_turn) {
                        return self.refuse(pool, wish, now);
                    }
                    shares = std::mem::take(others);
                    ends = ends.max(entry.expires);
                }
                State::Handed if entry.pool == pool => {}
                _ => return self.refuse(pool, wish, now),
            }
        }
        shares.insert(wish.token, now + wish.ttl);
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
            fence: Some(self.next_fence(0)),
            reserved_fences: 0,
            wanted: Some(self.queues.contains_key(key)),
        }
    }

    /// Tells the first that queues for a key that there may be room for it.
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

    pub(super) fn part(&mut self, key: &FullKey, token: Token, now: Instant) -> bool {
        if self.release(key, token, None, now) {
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
        if let Some(last) = shares.values().max() {
            entry.expires = *last;
            self.invite(key);
        } else {
            self.by_key.remove(key);
            self.hand_on(key, now);
        }
        true
    }

    fn refuse(&mut self, pool: PoolId, wish: &Wish<'_>, now: Instant) -> Reply {
        let Some(entry) = self.by_key.get(wish.key) else {
            return Reply::Left;
        };
        let left = Some(entry.next_end().since(now));
        let holder = entry.pool;
        if wish.queue {
            let queue = self.queues.entry(wish.key.clone()).or_default();
            if !queue.contains(&pool) {
                queue.push_back(pool);
                self.tell(holder, StoreEvent::Wanted(wish.key.clone()));
            }
        }
        let queued = wish.queue;
        Reply::Held { left, queued }
    }

    /// Hands a key that is free to the first pool of its queue; whether there was one.
    fn hand_on(&mut self, key: &FullKey, now: Instant) -> bool {
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

    /// Removes or hands on the key, or lets it stay for as long as `keep` says.
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
            // Not handed on: the first that waits looks now, and sees when to look again.
            if let Some(first) = self.queues.get(key).and_then(VecDeque::front).copied() {
                self.tell(first, StoreEvent::Turn(key.clone()));
            }
        } else if found && !self.hand_on(key, now) {
            self.by_key.remove(key);
        }
        found
    }

    /// `pool` queues no more for `key`.
    pub(super) fn leave(&mut self, pool: PoolId, key: &FullKey, now: Instant) {
        self.unqueue(pool, key);
        let handed = |entry: &mut Entry| entry.pool == pool && matches!(entry.state, State::Handed);
        if self.live(key, now).is_some_and(handed) && !self.hand_on(key, now) {
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

    /// `pool` is gone. What it holds stays until its ttl is over.
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

    /// The first of `1 + reserved_fences` fences.
    fn next_fence(&mut self, reserved_fences: u32) -> Fence {
        let micros = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, |since| u64::try_from(since.as_micros()).unwrap_or(0));
        let fence = micros.max(self.last_fence + 1);
        self.last_fence = fence + u64::from(reserved_fences);
        Fence::new(fence)
    }

    /// Forgets the keys of holders that died, now and then.
    fn sweep(&mut self, now: Instant) {
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
            let wish = Wish {
                key: &key,
                token: Token::random(Nonce::new()),
                ttl: Duration::from_millis(100),
                queue: false,
                reserved_fences: 0,
            };
            entries.acquire(PoolId(1), &wish, now);
        }
        assert!(
            entries.by_key.len() <= 2 * SWEEP_EVERY,
            "{} kept",
            entries.by_key.len()
        );
    }
}
