//! Repeatable random schedules. Each test with such a schedule prints its seed. To repeat the
//! schedule, set `LEASEHOLD_TEST_SEED` to the printed seed.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A generator with the algorithm `SplitMix64`, which is small and gives the same numbers on every
/// machine.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Makes a generator with the seed in `LEASEHOLD_TEST_SEED`, or with a new seed if this
    /// variable is not set. The seed is printed with `name`.
    ///
    /// # Panics
    ///
    /// Panics if `LEASEHOLD_TEST_SEED` is not a number.
    pub fn seeded(name: &str) -> Self {
        let seed = match std::env::var("LEASEHOLD_TEST_SEED") {
            Ok(text) => text.parse().expect("LEASEHOLD_TEST_SEED is a number"),
            Err(_) => SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |age| u64::from(age.subsec_nanos()) + age.as_secs()),
        };
        eprintln!("{name}: LEASEHOLD_TEST_SEED={seed}");
        Self(seed)
    }

    /// Makes a generator that starts at `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`; 0 for a limit of 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next_u64() % limit.max(1)
    }

    /// A duration of at most `limit`, in whole microseconds.
    pub fn duration(&mut self, limit: Duration) -> Duration {
        let limit = u64::try_from(limit.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(self.below(limit.saturating_add(1)))
    }

    /// Makes a separate generator for a task or a thread.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self(self.next_u64())
    }
}
