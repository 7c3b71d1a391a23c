//! Returns kept results instead of locks, and adopts locks.

use std::time::Duration;

use super::entries::Entries;
use super::entry::{PoolId, State};
use crate::base::clock::Instant;
use crate::base::full_key::FullKey;
use crate::base::seeded::seeded;
use crate::base::token::Token;
use crate::store::kept::Record;
use crate::store::{Reply, Take};

impl Entries {
    /// Returns the result kept for the key and the function. If there is none, works like
    /// [`acquire`](Self::acquire).
    pub(super) fn recall(&mut self, pool: PoolId, take: &Take, now: Instant) -> Reply {
        match self.results.of(&take.key, take.function, now) {
            Some(kept) => Reply::Recalled(kept),
            None => self.acquire(pool, take, now),
        }
    }

    /// Like [`release`](Self::release), but also keeps a result if `token` has the key.
    pub(super) fn record(
        &mut self,
        key: &FullKey,
        token: Token,
        keep: Option<Duration>,
        record: &Record,
        now: Instant,
    ) -> bool {
        let found = self.release(key, token, keep, now);
        if found || seeded!(RecordedWithoutCheck) {
            self.results.keep(key, record, now);
        }
        found
    }

    pub(super) fn forget_result(&mut self, key: &FullKey, now: Instant) -> bool {
        self.results.forget(key, now)
    }

    /// Passes the lock from the token `from` to the token of `take`. Answers `Gone` if neither
    /// token has the lock.
    pub(super) fn adopt(&mut self, pool: PoolId, take: &Take, from: Token, now: Instant) -> Reply {
        let (key, token) = (&take.key, take.token);
        let wanted = Some(self.queues.contains_key(key));
        let Some(entry) = self.live(key, now) else {
            return Reply::Gone;
        };
        let State::Held {
            token: held,
            taken,
            reserved_fences,
        } = &mut entry.state
        else {
            return Reply::Gone;
        };
        if ![from, token].contains(held) {
            return Reply::Gone;
        }
        *held = token;
        taken.function = take.function;
        let reply = Reply::Acquired {
            fence: Some(taken.fence),
            reserved_fences: *reserved_fences,
            wanted,
        };
        entry.pool = pool;
        entry.expires = now + take.ttl;
        reply
    }
}
