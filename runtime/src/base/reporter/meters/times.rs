//! Counts of durations in narrow buckets, stored until the reporter thread passes them on.
//!
//! Between 256 ns and 39 hours, the width of a bucket is at most a 32nd of any duration in it. The
//! recorder gets the middle of a bucket, which differs from each duration in it by at most 1.6 %.
//! The counts are exact. While a recorder blocks, even for an hour, no further memory is used and
//! no count is lost.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use super::guarded;

/// Each range from a power of two to the next is divided into `2^FINE` buckets.
const FINE: u32 = 5;

/// Durations shorter than `2^SHORTEST` ns are in the first bucket.
const SHORTEST: u32 = 8;

/// Durations of `2^LONGEST` ns (39 hours) and more are in the last bucket.
const LONGEST: u32 = 47;

const BUCKETS: usize = 1 + ((LONGEST - SHORTEST) << FINE) as usize;

/// Number of durations in each bucket since the last report.
pub(crate) struct Times {
    /// Allocated when the first duration is added.
    buckets: OnceLock<Box<[AtomicU32]>>,
    /// True if durations were added since the last report.
    changed: AtomicBool,
}

impl Times {
    pub(crate) const fn new() -> Self {
        Self {
            buckets: OnceLock::new(),
            changed: AtomicBool::new(false),
        }
    }

    pub(crate) fn add(&self, time: Duration) {
        let buckets = self.buckets.get_or_init(no_times);
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        buckets[bucket(nanos)].fetch_add(1, Ordering::Relaxed);
        // Set after the count. The reporter thread clears the flag before it reads the buckets, so
        // it cannot miss this count.
        self.changed.store(true, Ordering::Release);
    }

    /// Passes all durations on to the histogram. Returns true if there were any.
    pub(super) fn publish(&self, histogram: impl FnOnce() -> metrics::Histogram) -> bool {
        let all = self.take();
        if !all.is_empty() {
            guarded(|| {
                let histogram = histogram();
                for (seconds, count) in &all {
                    guarded(|| histogram.record_many(*seconds, *count));
                }
            });
        }
        !all.is_empty()
    }

    /// Takes all counts. Returns the middle of each non-empty bucket in seconds, with the number of
    /// its durations.
    fn take(&self) -> Vec<(f64, usize)> {
        if !self.changed.swap(false, Ordering::Acquire) {
            return Vec::new();
        }
        let counts = self.buckets.get().into_iter().flatten().enumerate();
        // Most counts are zero, and are only loaded. A swap would take their cache lines away from
        // the threads that count.
        let counts = counts.filter(|(_, count)| count.load(Ordering::Relaxed) != 0);
        let taken = counts.map(|(bucket, count)| {
            let count = count.swap(0, Ordering::Relaxed);
            (seconds(bucket), count as usize)
        });
        taken.collect()
    }
}

fn no_times() -> Box<[AtomicU32]> {
    (0..BUCKETS).map(|_| AtomicU32::new(0)).collect()
}

/// Returns the bucket of a duration.
fn bucket(nanos: u64) -> usize {
    let Some(doublings) = nanos.checked_ilog2().filter(|log| SHORTEST <= *log) else {
        return 0;
    };
    if LONGEST <= doublings {
        return BUCKETS - 1;
    }
    let part = (nanos >> (doublings - FINE)) & ((1 << FINE) - 1);
    let part = usize::try_from(part).unwrap_or_default();
    1 + (((doublings - SHORTEST) as usize) << FINE) + part
}

/// Returns the middle of a bucket, in seconds.
fn seconds(bucket: usize) -> f64 {
    let nanos = match bucket.checked_sub(1) {
        None => 1 << (SHORTEST - 1),
        Some(rest) => {
            let width = 1_u64 << (SHORTEST as usize + (rest >> FINE) - FINE as usize);
            let parts = (1 << FINE) + (rest as u64 & ((1 << FINE) - 1));
            parts * width + width / 2
        }
    };
    Duration::from_nanos(nanos).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Fails if a recorder gets a duration that differs from the real one by more than 1.6 %.
        #[test]
        fn bucketed_durations_are_accurate(nanos in (1_u64 << SHORTEST)..(1 << LONGEST)) {
            let times = Times::new();
            times.add(Duration::from_nanos(nanos));
            let reported = times.take();
            let [(seconds, 1)] = reported[..] else {
                return Err(TestCaseError::fail(format!("{reported:?}")));
            };
            let real = Duration::from_nanos(nanos).as_secs_f64();
            prop_assert!((seconds - real).abs() <= real / 64.0, "{real} as {seconds}");
        }
    }

    /// Fails if a duration is reported twice or not at all, even one outside of the range of the
    /// buckets.
    #[test]
    fn each_duration_is_reported_once() {
        let times = Times::new();
        assert_eq!(times.take(), []);
        for nanos in [0, 1, 255, 1_000, 1_000, u64::MAX] {
            times.add(Duration::from_nanos(nanos));
        }
        let counts: Vec<usize> = times.take().iter().map(|(_, count)| *count).collect();
        assert_eq!(counts, [3, 2, 1]);
        assert_eq!(times.take(), []);
    }
}
