//! Inspects the locks of this process, and takes them away from their holders.

use std::time::{Duration, SystemTime};

use super::entries::Entries;
use super::entry::{Entry, Share, State, Taken};
use super::space::Space;
use crate::base::clock::Instant;
use crate::base::full_key::FullKey;
use crate::base::token::Token;
use crate::inspect::info::{Holder, LockInfo, LockState, Waiter};
use crate::inspect::pattern::Pattern;
use crate::key;
use crate::owner::Owner;
use crate::store::source::{MOST_TOLD, PAGE, Page, Place};
use crate::store::{GRACE, StoreEvent};

impl Space {
    /// Returns the information on a lock.
    pub(crate) fn look(&self, key: &FullKey) -> LockInfo {
        let now = self.clock.now();
        self.entries().look(key, now)
    }

    /// Returns one page of locks in the order of their keys, starting after `place`.
    pub(crate) fn page(&self, namespace: &str, pattern: &Pattern, place: &Place) -> Page {
        let now = self.clock.now();
        let mut entries = self.entries();
        let prefix = FullKey::new(namespace, "");
        let matches = |key: &&FullKey| {
            let name = key.strip_prefix(&*prefix);
            name.is_some_and(|name| *place.0 < *name && pattern.matches(name) && key::is_lock(name))
        };
        let mut keys: Vec<FullKey> = entries.by_key.keys().filter(matches).cloned().collect();
        keys.sort_unstable_by(|one, other| str::cmp(one, other));
        let goes_on = PAGE < keys.len();
        keys.truncate(PAGE);
        let last = keys.last().filter(|_| goes_on);
        let next = last.map(|last| Place(last[prefix.len()..].to_owned()));
        let keys = keys
            .iter()
            .map(|key| FullKey::new(namespace, &key[prefix.len()..]));
        let locks = keys.map(|key| entries.look(&key, now));
        let locks = locks.filter(LockInfo::is_taken).collect();
        Page { locks, next }
    }

    /// Takes a lock away from its holders. Returns the state that the lock had before.
    pub(crate) fn take_away(&self, key: &FullKey) -> LockInfo {
        let now = self.clock.now();
        let mut entries = self.entries();
        let was = entries.look(key, now);
        entries.take_away(key, now);
        was
    }
}

impl Entries {
    fn look(&mut self, key: &FullKey, now: Instant) -> LockInfo {
        let mut info = LockInfo::free(key.name());
        if let Some(entry) = self.live(key, now) {
            entry.show(&mut info, now);
        }
        let waiting = self.queues.get(key).into_iter().flatten();
        info.waiting = waiting
            .take(MOST_TOLD)
            .map(|waiting| Waiter {
                owner: Some(Owner::here(waiting.function)),
                since: Some(before(now.since(waiting.since))),
            })
            .collect();
        info
    }

    fn take_away(&mut self, key: &FullKey, now: Instant) {
        let pools: Vec<_> = self.pools.keys().copied().collect();
        let Some(entry) = self.live(key, now) else {
            return;
        };
        let mut notified: Vec<(_, Token)> = Vec::new();
        match &mut entry.state {
            State::Revoked { .. } => return,
            State::Held { token, taken, .. } if pools.contains(&entry.pool) => {
                notified.push((entry.pool, *token));
                entry.state = State::Revoked {
                    token: *token,
                    taken: *taken,
                };
                entry.expires = entry.expires.min(now + GRACE);
            }
            State::Shared { shares, .. } => {
                shares.retain(|_, share| pools.contains(&share.pool));
                for (token, share) in shares.iter_mut().filter(|(_, share)| !share.revoked) {
                    notified.push((share.pool, *token));
                    share.revoked = true;
                    share.ends = share.ends.min(now + GRACE);
                }
                self.shares_changed(key, now);
            }
            State::Held { .. } | State::Handed | State::Kept(_) => self.free(key, now),
        }
        for (pool, token) in notified {
            let event = StoreEvent::Revoked {
                key: key.clone(),
                lease: token.half(),
            };
            self.emit(pool, event);
        }
    }
}

impl Entry {
    fn show(&self, info: &mut LockInfo, now: Instant) {
        let left = self.expires.since(now);
        match &self.state {
            State::Held { taken, .. } => {
                info.state = LockState::Exclusive;
                info.holders = vec![taken.holder(left, false, now)];
                info.fence = Some(taken.fence);
            }
            State::Revoked { taken, .. } => {
                info.state = LockState::Exclusive;
                info.holders = vec![taken.holder(left, true, now)];
                info.fence = Some(taken.fence);
            }
            State::Handed => info.state = LockState::Handed,
            State::Kept(taken) => {
                info.state = LockState::Kept;
                info.fence = Some(taken.fence);
                info.kept_until = Some(SystemTime::now() + left);
            }
            State::Shared { limit, shares } => {
                info.state = match *limit {
                    0 => LockState::Shared,
                    limit => LockState::Permits { limit },
                };
                let mut shares: Vec<&Share> = shares.values().collect();
                shares.sort_unstable_by_key(|share| share.ends);
                info.fence = shares.iter().map(|share| share.taken.fence).max();
                let holder = |share: &Share| {
                    let left = share.ends.since(now);
                    share.taken.holder(left, share.revoked, now)
                };
                info.holders = shares.into_iter().take(MOST_TOLD).map(holder).collect();
            }
        }
    }
}

impl Taken {
    fn holder(&self, left: Duration, revoked: bool, now: Instant) -> Holder {
        Holder {
            owner: Some(Owner::here(self.function)),
            since: Some(before(now.since(self.since))),
            fence: Some(self.fence),
            revoked,
            ..Holder::unknown(Some(left))
        }
    }
}

/// Returns the time `span` ago.
fn before(span: Duration) -> SystemTime {
    let now = SystemTime::now();
    now.checked_sub(span).unwrap_or(now)
}
