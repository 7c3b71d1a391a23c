//! The results that are kept beside the keys of a [`Space`](super::space::Space).

use std::sync::Arc;
use std::time::Duration;

use super::entries::{Entries, PoolId};
use super::entry::{Params, State};
use crate::base::clock::Instant;
use crate::base::full_key::{FullKey, KeyMap};
use crate::base::seeded::seeded;
use crate::base::token::Token;
use crate::store::Reply;
use crate::store::kept::{Kept, Record};

/// How many results are kept at least between sweeps of those whose time is over.
const SWEEP_EVERY: usize = 1024;

/// The result of each key that has one, and its end.
#[derive(Debug, Default)]
pub(super) struct Results {
    by_key: KeyMap<(Arc<Kept>, Instant)>,
    since_sweep: usize,
    left_by_sweep: usize,
}

impl Results {
    /// The result of `key`, if its time is not over.
    pub(super) fn of(&self, key: &FullKey, now: Instant) -> Option<Arc<Kept>> {
        let (kept, until) = self.by_key.get(key)?;
        (now < *until).then(|| Arc::clone(kept))
    }

    pub(super) fn keep(&mut self, key: &FullKey, record: &Record, now: Instant) {
        self.sweep(now);
        let result = (Arc::clone(&record.kept), now + record.stays);
        self.by_key.insert(key.clone(), result);
    }

    /// Removes the result of `key`. Returns whether there was one.
    pub(super) fn forget(&mut self, key: &FullKey, now: Instant) -> bool {
        let removed = self.by_key.remove(key);
        removed.is_some_and(|(_, until)| now < until)
    }

    pub(super) fn are_kept(&self, now: Instant) -> bool {
        self.by_key.values().any(|(_, until)| now < *until)
    }

    /// Now and then, removes the results whose time is over.
    fn sweep(&mut self, now: Instant) {
        self.since_sweep += 1;
        if self.since_sweep > SWEEP_EVERY.max(self.left_by_sweep) {
            self.by_key.retain(|_, (_, until)| now < *until);
            self.since_sweep = 0;
            self.left_by_sweep = self.by_key.len();
        }
    }
}

/// Results, and locks that change hands.
impl Entries {
    /// The result that is kept for the key, or else as [`acquire`](Self::acquire).
    pub(super) fn recall(&mut self, pool: PoolId, params: &Params<'_>, now: Instant) -> Reply {
        match self.results.of(params.key, now) {
            Some(kept) => Reply::Recalled(kept),
            None => self.acquire(pool, params, now),
        }
    }

    /// As [`release`](Self::release), and keeps a result if `token` has the key.
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

    /// Gives the key the token of `params` in the place of `from`.
    pub(super) fn adopt(
        &mut self,
        pool: PoolId,
        params: &Params<'_>,
        from: Token,
        now: Instant,
    ) -> Reply {
        let (key, token) = (params.key, params.token);
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
        taken.function = params.function;
        let reply = Reply::Acquired {
            fence: Some(taken.fence),
            reserved_fences: *reserved_fences,
            wanted,
        };
        entry.pool = pool;
        entry.expires = now + params.ttl;
        reply
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn results_whose_time_is_over_are_swept() {
        let (mut results, start) = (Results::default(), Instant::from_nanos(1));
        let kept = Kept {
            fingerprint: None,
            json: "1".into(),
        };
        let record = Record {
            kept: Arc::new(kept),
            stays: Duration::from_millis(100),
        };
        for number in 0..5_000_u32 {
            let now = start + Duration::from_millis(number.into());
            results.keep(&number.to_string().into(), &record, now);
        }
        let left = results.by_key.len();
        assert!(left <= 2 * SWEEP_EVERY, "{left} kept");
    }
}
