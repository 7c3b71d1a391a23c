//! The kept results of the keys of a [`Space`](super::space::Space).

use std::collections::HashMap;
use std::sync::Arc;

use crate::base::clock::Instant;
use crate::base::full_key::{FullKey, KeyMap};
use crate::base::seeded::seeded;
use crate::store::kept::{Kept, Record};

/// Minimum number of results stored between two removals of all expired results.
const SWEEP_EVERY: usize = 1024;

/// The results of each key, by function, each with the time when it expires.
#[derive(Debug, Default)]
pub(super) struct Results {
    by_key: KeyMap<HashMap<&'static str, (Arc<Kept>, Instant)>>,
    since_sweep: usize,
    left_by_sweep: usize,
}

impl Results {
    /// Returns the result of `function` for `key`, unless it has expired.
    pub(super) fn of(&self, key: &FullKey, function: &str, now: Instant) -> Option<Arc<Kept>> {
        let results = self.by_key.get(key)?;
        let (kept, until) = if seeded!(FunctionIgnored) {
            results.values().next()?
        } else {
            results.get(function)?
        };
        (now < *until).then(|| Arc::clone(kept))
    }

    pub(super) fn keep(&mut self, key: &FullKey, record: &Record, now: Instant) {
        self.sweep(now);
        let result = (Arc::clone(&record.kept), now + record.stays);
        let results = self.by_key.entry(key.clone()).or_default();
        results.insert(record.function, result);
    }

    /// Removes the results of `key`. Returns true if there was an unexpired one.
    pub(super) fn forget(&mut self, key: &FullKey, now: Instant) -> bool {
        let removed = self.by_key.remove(key);
        removed.is_some_and(|results| any_is_kept(&results, now))
    }

    pub(super) fn are_kept(&self, now: Instant) -> bool {
        let mut all = self.by_key.values();
        all.any(|results| any_is_kept(results, now))
    }

    /// Removes the expired results once enough were stored since the last removal: more than
    /// `SWEEP_EVERY`, and more than the number of keys left then.
    fn sweep(&mut self, now: Instant) {
        self.since_sweep += 1;
        if self.since_sweep > SWEEP_EVERY.max(self.left_by_sweep) {
            self.by_key.retain(|_, results| {
                results.retain(|_, (_, until)| now < *until);
                !results.is_empty()
            });
            self.since_sweep = 0;
            self.left_by_sweep = self.by_key.len();
        }
    }
}

fn any_is_kept(results: &HashMap<&'static str, (Arc<Kept>, Instant)>, now: Instant) -> bool {
    results.values().any(|(_, until)| now < *until)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn expired_results_are_swept() {
        let (mut results, start) = (Results::default(), Instant::from_nanos(1));
        let kept = Kept {
            fingerprint: None,
            json: "1".into(),
        };
        let record = Record {
            function: "",
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
