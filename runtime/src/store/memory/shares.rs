//! Locks that several calls hold at the same time: shares of a key, with or without a limit.

use std::collections::HashMap;
use std::time::Duration;

use super::entries::Entries;
use super::entry::{Entry, Limit, PoolId, Share, State, Taken};
use super::fences::next_fence;
use crate::base::clock::Instant;
use crate::base::full_key::FullKey;
use crate::base::seeded::seeded;
use crate::base::token::{Nonce, Token};
use crate::fence::Fence;
use crate::store::{Renewal, Reply, Take};

/// Adds the requested share, or prolongs the one that the token has. Returns the share's fence.
fn add(shares: &mut HashMap<Token, Share>, pool: PoolId, take: &Take, now: Instant) -> Fence {
    let ends = now + take.ttl;
    let share = shares.entry(take.token).or_insert_with(|| Share {
        taken: Taken::of(take, next_fence(0), now),
        pool,
        ends,
        revoked: false,
    });
    share.ends = ends;
    share.taken.fence
}

impl Entries {
    pub(super) fn join(&mut self, pool: PoolId, take: &Take, limit: Limit, now: Instant) -> Reply {
        self.sweep(now);
        let Limit(most) = limit;
        let key = &take.key;
        if self.live(key, now).is_none() {
            self.hand_to_first(key, now);
        }
        let first = self.first(key);
        let is_first = first.is_none_or(|first| first == pool);
        let mut shares = HashMap::new();
        let mut limit = most;
        let mut ends = now + take.ttl;
        if let Some(entry) = self.live(key, now) {
            match &mut entry.state {
                State::Shared {
                    limit: known,
                    shares: others,
                } => {
                    let again = others.contains_key(&take.token);
                    let same_kind = (most == 0) == (*known == 0);
                    limit = most.max(*known);
                    let bound = if seeded!(GreatestNumberCounts) {
                        limit
                    } else {
                        most
                    };
                    let room = most == 0 || others.len() < bound as usize;
                    if !(again || same_kind && room && is_first) {
                        return self.refuse(pool, take, Limit(most), now);
                    }
                    shares = std::mem::take(others);
                    ends = ends.max(entry.expires);
                }
                State::Handed if entry.pool == pool => {}
                _ => return self.refuse(pool, take, Limit(most), now),
            }
        }
        let fence = add(&mut shares, pool, take, now);
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
            fence: Some(fence),
            reserved_fences: 0,
            wanted: Some(self.queues.contains_key(key)),
        }
    }

    pub(super) fn stay(&mut self, renewal: &Renewal, now: Instant) -> bool {
        let Some(entry) = self.live(&renewal.key, now) else {
            return false;
        };
        let until = now + renewal.ttl;
        match &mut entry.state {
            State::Held { token, taken, .. } if *token == renewal.token => {
                let share = Share {
                    taken: *taken,
                    pool: entry.pool,
                    ends: until,
                    revoked: false,
                };
                let shares = HashMap::from([(renewal.token, share)]);
                entry.state = State::Shared { limit: 0, shares };
                entry.expires = until;
                self.invite(&renewal.key);
                true
            }
            State::Shared { shares, .. } => {
                let share = shares.get_mut(&renewal.token);
                let Some(share) = share.filter(|share| !share.revoked) else {
                    return false;
                };
                share.ends = until;
                entry.expires = last_end(shares).unwrap_or(until);
                true
            }
            _ => false,
        }
    }

    /// Releases the share of `token`, or its whole lock. With `keep`, the share or lock stays taken
    /// for that time.
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
        let Some(share) = shares.remove(&token) else {
            return false;
        };
        if let Some(keep) = keep.filter(|_| !share.revoked) {
            let ends = now + keep;
            // The share stays taken for `keep`, but under another token, so that a late request
            // with `token` does not find it.
            shares.insert(Token::random(Nonce::new()), Share { ends, ..share });
        }
        self.shares_changed(key, now);
        !share.revoked
    }

    /// Updates the key after some of its shares have been removed or shortened.
    pub(super) fn shares_changed(&mut self, key: &FullKey, now: Instant) {
        let Some(entry) = self.by_key.get_mut(key) else {
            return;
        };
        let State::Shared { shares, .. } = &entry.state else {
            return;
        };
        if let Some(last) = last_end(shares) {
            entry.expires = last;
            self.invite(key);
        } else {
            self.by_key.remove(key);
            self.hand_to_first(key, now);
        }
    }
}

/// Returns the end of the last of these shares.
fn last_end(shares: &HashMap<Token, Share>) -> Option<Instant> {
    shares.values().map(|share| share.ends).max()
}
