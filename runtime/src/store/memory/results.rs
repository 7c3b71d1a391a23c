//! The results that are kept beside the keys of a [`Space`](super::space::Space).

use std::sync::Arc;

use crate::base::clock::Instant;
use crate::base::full_key::{FullKey, KeyMap};
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
