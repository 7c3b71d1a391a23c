//! The extent of a run: all benchmarks, a quick subset, or a comparison with an earlier build.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    Full,
    Quick,
    /// The benchmarks that compare this project with an earlier build of it.
    Against,
}

impl Pace {
    /// True if a run at this pace includes the benchmark.
    pub(crate) fn includes(self, row: &str) -> bool {
        const QUICK: &[&str] = &[
            "uncontended",
            "distinct_64",
            "hot_1x64_0ms",
            "hot_4x16_0ms",
            "hot_4x16_1ms",
            "renew_10k",
            "overhead",
            "memory",
            "open_1000:multi_thread:loopback:quiet",
            "open_1000:current_thread:delayed:busy",
            "closed_16:current_thread:loopback:quiet",
        ];
        self != Self::Quick || QUICK.contains(&row)
    }
}
