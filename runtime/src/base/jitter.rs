//! Random pauses between retries, so that clients that failed at the same time do not retry at the
//! same time.

use std::time::Duration;

/// A small random number generator (xorshift64*). Its values can be guessed, so do not use it for
/// secrets.
#[derive(Debug)]
pub(crate) struct Jitter(u64);

impl Jitter {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    /// Returns a random span from `mean / 2` to `mean * 3 / 2`.
    pub(crate) fn around(&mut self, mean: Duration) -> Duration {
        let mean = u64::try_from(mean.as_nanos()).unwrap_or(u64::MAX);
        let part = (u128::from(mean) * u128::from(self.bits())) >> u32::BITS;
        let part = u64::try_from(part).unwrap_or(mean);
        Duration::from_nanos((mean / 2).saturating_add(part))
    }

    fn bits(&mut self) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        u32::try_from(self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_stays_within_half_of_the_mean() {
        let mut jitter = Jitter::new(42);
        let mean = Duration::from_millis(100);
        let spans: Vec<_> = (0..1000).map(|_| jitter.around(mean)).collect();
        assert!(
            spans
                .iter()
                .all(|span| (mean / 2..mean * 3 / 2).contains(span))
        );
        assert!(spans.iter().any(|span| *span < mean * 6 / 10));
        assert!(spans.iter().any(|span| *span > mean * 14 / 10));
    }
}
