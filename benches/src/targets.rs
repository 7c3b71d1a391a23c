//! What the project wants to reach, as ratios of figures of one run, and what was reached.

use std::fmt::Write as _;

use crate::measure::{Measure, find};
use crate::table::figure;

/// Something to reach.
struct Target {
    what: &'static str,
    row: &'static str,
    metric: &'static str,
    against: Against,
    wanted: Wanted,
}

/// What leasehold's figure is divided by.
enum Against {
    /// The same metric of another contestant.
    Contestant(&'static str),
    /// Another metric of leasehold's, in the unit of the first by this factor.
    Metric(&'static str, f64),
    /// Nothing: the figure itself.
    Nothing,
}

enum Wanted {
    AtMost(f64),
    AtLeast(f64),
}

use Against::{Contestant, Metric, Nothing};
use Wanted::{AtLeast, AtMost};

const TARGETS: &[Target] = &[
    target(
        "uncontended pair, p50, against hand-written",
        "uncontended",
        "p50_us",
        Contestant("hand_written"),
        AtMost(1.2),
    ),
    target(
        "distinct keys, 64 tasks, pairs a second, against hand-written",
        "distinct_64",
        "per_s",
        Contestant("hand_written"),
        AtLeast(1.0),
    ),
    target(
        "the same, 256 tasks",
        "distinct_256",
        "per_s",
        Contestant("hand_written"),
        AtLeast(1.2),
    ),
    target(
        "the same, 1024 tasks",
        "distinct_1024",
        "per_s",
        Contestant("hand_written"),
        AtLeast(1.5),
    ),
    target(
        "hot key, 4 x 16, sections a second, against polling every 50 ms",
        "hot_4x16_0ms",
        "per_s",
        Contestant("poll_50ms"),
        AtLeast(10.0),
    ),
    target(
        "the same, against rslock",
        "hot_4x16_0ms",
        "per_s",
        Contestant("rslock"),
        AtLeast(10.0),
    ),
    target(
        "hot key, 1 ms section, p99 of the wait, against the fair wait",
        "hot_4x16_1ms",
        "p99_us",
        Metric("fair_wait_ms", 1e3),
        AtMost(1.2),
    ),
    target(
        "hot key, 1 ms section, share of the luckiest task against the unluckiest",
        "hot_4x16_1ms",
        "share_ratio",
        Nothing,
        AtMost(1.2),
    ),
    target(
        "uncontended pair on a quorum of 3 masters, p50, against one of them",
        "redlock_uncontended",
        "p50_us",
        Contestant("leasehold_single"),
        AtMost(2.5),
    ),
    target(
        "the same, against rslock on the same masters",
        "redlock_uncontended",
        "p50_us",
        Contestant("rslock"),
        AtMost(1.0),
    ),
    target(
        "the same, against node-redlock on the same masters",
        "redlock_uncontended",
        "p50_us",
        Contestant("node_redlock"),
        AtMost(1.0),
    ),
    target(
        "100,000 leases renewed, CPU of the client, cores",
        "renew_100k",
        "cpu_cores",
        Nothing,
        AtMost(0.05),
    ),
    target(
        "100,000 leases renewed, the latest renewal, ms",
        "renew_100k",
        "late_max_ms",
        Nothing,
        AtMost(20.0),
    ),
    target(
        "100,000 leases due at once, the latest renewal, ms",
        "renew_100k_burst",
        "late_max_ms",
        Nothing,
        AtMost(200.0),
    ),
    target(
        "annotated function on a store that does nothing, µs a call",
        "overhead",
        "p50_us",
        Nothing,
        AtMost(1.0),
    ),
];

const fn target(
    what: &'static str,
    row: &'static str,
    metric: &'static str,
    against: Against,
    wanted: Wanted,
) -> Target {
    Target {
        what,
        row,
        metric,
        against,
        wanted,
    }
}

impl Target {
    /// Leasehold's figure, or ratio of medians; `None` if it was not measured.
    fn reached(&self, measures: &[Measure]) -> Option<f64> {
        let median = |who: &str, metric: &str| Some(find(measures, self.row, who, metric)?.median);
        let ours = median("leasehold", self.metric)?;
        Some(match self.against {
            Contestant(who) => ours / median(who, self.metric)?,
            Metric(metric, factor) => ours / (median("leasehold", metric)? * factor),
            Nothing => ours,
        })
    }
}

impl Wanted {
    fn is_met(&self, value: f64) -> bool {
        match self {
            AtMost(bound) => value <= *bound,
            AtLeast(bound) => value >= *bound,
        }
    }

    fn text(&self) -> String {
        match self {
            AtMost(bound) => format!("at most {}", figure(*bound)),
            AtLeast(bound) => format!("at least {}", figure(*bound)),
        }
    }
}

/// A line for each target.
pub(crate) fn table(measures: &[Measure]) -> String {
    let mut text = "| what | target | measured | |\n|---|---|---:|---|\n".to_owned();
    for target in TARGETS {
        let (value, verdict) = match target.reached(measures) {
            Some(value) if target.wanted.is_met(value) => (figure(value), "met"),
            Some(value) => (figure(value), "missed"),
            None => (String::new(), "not measured"),
        };
        let wanted = target.wanted.text();
        let _ = writeln!(text, "| {} | {wanted} | {value} | {verdict} |", target.what);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(contestant: &str, metric: &str, value: f64) -> Measure {
        Measure::new("uncontended", contestant, metric, &[value], "2026-01-31")
    }

    #[test]
    fn a_target_is_a_ratio_of_one_run() {
        let ours = measured("leasehold", "p50_us", 120.0);
        let met = table(&[ours.clone(), measured("hand_written", "p50_us", 100.0)]);
        assert!(met.contains("| at most 1.20 | 1.20 | met |"), "{met}");
        let missed = table(&[ours, measured("hand_written", "p50_us", 50.0)]);
        assert!(
            missed.contains("| at most 1.20 | 2.40 | missed |"),
            "{missed}"
        );
    }
}
