//! The arrival times of independent requests: a Poisson process. The same seed gives the same
//! times.

use leasehold_tests::random::Random;

/// An endless sequence of the times at which requests are due.
pub(super) struct Arrivals {
    random: Random,
    mean_ns: f64,
    last: u64,
}

impl Arrivals {
    /// Creates a sequence with `per_second` arrivals a second on average, beginning at `start`.
    pub(super) fn new(start: u64, per_second: u32, seed: u64) -> Self {
        Self {
            random: Random::new(seed),
            mean_ns: 1e9 / f64::from(per_second),
            last: start,
        }
    }

    /// Returns a random number, at least 0 and below 1.
    fn share(&mut self) -> f64 {
        #[allow(clippy::cast_precision_loss, reason = "53 bits fit")]
        let bits = (self.random.next_u64() >> 11) as f64;
        bits / 2_f64.powi(53)
    }
}

impl Iterator for Arrivals {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let gap = -(1.0 - self.share()).ln() * self.mean_ns;
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "never negative, and at most 37 times the mean"
        )]
        let gap = gap.round() as u64;
        self.last += gap;
        Some(self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNT: u32 = 100_000;
    const START: u64 = 1_000;

    /// Returns the gaps between `COUNT` arrivals at 1,000 a second, in seconds.
    fn gaps(seed: u64) -> Vec<f64> {
        let mut last = START;
        let arrivals = Arrivals::new(START, 1_000, seed);
        let gap = |at: u64| {
            #[allow(clippy::cast_precision_loss, reason = "some milliseconds")]
            let gap = (at - last) as f64 / 1e9;
            last = at;
            gap
        };
        arrivals.take(COUNT as usize).map(gap).collect()
    }

    fn mean(values: impl Iterator<Item = f64>) -> f64 {
        values.sum::<f64>() / f64::from(COUNT)
    }

    /// Fails if the rate is wrong, or if the gaps are not those of a Poisson process. In a Poisson
    /// process the standard deviation of the gaps equals their mean, and 63 % of the gaps are
    /// shorter than the mean. Each estimate may deviate by 5 standard errors.
    #[test]
    fn arrivals_are_a_poisson_process_with_the_given_rate() {
        for seed in 1..=5 {
            let gaps = gaps(seed);
            let error = 5.0 / f64::from(COUNT).sqrt();
            let average = mean(gaps.iter().copied()) / 1e-3;
            assert!((average - 1.0).abs() < error, "seed {seed}: {average}");
            let square = mean(gaps.iter().map(|gap| gap * gap)) / 1e-6;
            // The square of an exponential variable with mean 1 has the mean 2 and the variance 20.
            assert!(
                (square - 2.0).abs() < 20_f64.sqrt() * error,
                "seed {seed}: {square}"
            );
            let short = mean(gaps.iter().map(|gap| f64::from(u8::from(*gap < 1e-3))));
            let expected = 1.0 - (-1_f64).exp();
            assert!((short - expected).abs() < error, "seed {seed}: {short}");
        }
    }

    #[test]
    fn arrival_times_depend_on_the_seed() {
        assert_eq!(gaps(1), gaps(1));
        assert_ne!(gaps(1), gaps(2));
    }
}
