//! The project's targets. A target is a bound for a figure or for a ratio of two figures of the
//! same run.

use std::cmp::Ordering;
use std::fmt::Write as _;

use crate::measure::{Measure, find};
use crate::table::figure;

struct Target {
    what: &'static str,
    row: &'static str,
    metric: &'static str,
    against: Against,
    wanted: Wanted,
}

/// The value by which leasehold's figure is divided before it is compared with a target.
enum Against {
    /// The same metric of another contestant.
    Contestant(&'static str),
    /// Another metric of leasehold. The factor converts this metric to the unit of the divided
    /// figure.
    Metric(&'static str, f64),
    /// No divisor: the figure itself is compared with the target.
    Nothing,
}

pub(crate) enum Wanted {
    AtMost(f64),
    AtLeast(f64),
}

use Against::{Contestant, Metric, Nothing};
use Wanted::{AtLeast, AtMost};

const TARGETS: &[Target] = &[
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
        "64 keys on PostgreSQL with synchronous commits, pairs a second, against one Redis",
        "postgres_distinct_64",
        "per_s",
        Contestant("leasehold_on_redis"),
        AtLeast(0.25),
    ),
    target(
        "the same, against an upsert as ShedLock's",
        "postgres_distinct_64",
        "per_s",
        Contestant("upsert"),
        AtLeast(1.0),
    ),
    target(
        "the same, against pg_advisory_lock",
        "postgres_distinct_64",
        "per_s",
        Contestant("advisory"),
        AtLeast(1.0),
    ),
    target(
        "hot key on PostgreSQL, 4 x 16, sections a second, against the upsert",
        "postgres_hot_4x16_0ms",
        "per_s",
        Contestant("upsert"),
        AtLeast(1.0),
    ),
    target(
        "64 keys on etcd, pairs a second, against the package concurrency of its client for Go",
        "etcd_distinct_64",
        "per_s",
        Contestant("etcd_concurrency"),
        AtLeast(1.0),
    ),
    target(
        "hot key on etcd, 4 x 16, sections a second, against the same",
        "etcd_hot_4x16_0ms",
        "per_s",
        Contestant("etcd_concurrency"),
        AtLeast(1.0),
    ),
    target(
        "64 keys on ZooKeeper, pairs a second, against Curator",
        "zookeeper_distinct_64",
        "per_s",
        Contestant("curator"),
        AtLeast(1.0),
    ),
    target(
        "hot key on ZooKeeper, 4 x 16, sections a second, against Curator",
        "zookeeper_hot_4x16_0ms",
        "per_s",
        Contestant("curator"),
        AtLeast(1.0),
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

/// Targets of keys that many tasks use at the same time ("hot keys"). These targets matter to
/// services, so they are shown together with the services' bounds.
const OF_HOT_KEYS: &[Target] = &[
    target(
        "hot key, 4 x 16, sections a second, against polling every 50 ms",
        "hot_4x16_0ms",
        "per_s",
        Contestant("poll_50ms"),
        AtLeast(3.0),
    ),
    target(
        "the same, against rslock",
        "hot_4x16_0ms",
        "per_s",
        Contestant("rslock"),
        AtLeast(3.0),
    ),
    target(
        "hot key, 1 ms section, p99 of the wait, against the fair wait",
        "hot_4x16_1ms",
        "p99_us",
        Metric("fair_wait_ms", 1e3),
        AtMost(1.15),
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
    fn verdict(&self, measures: &[Measure]) -> (String, &'static str) {
        match self.reached(measures) {
            Some(value) if self.wanted.is_met(value) => (figure(value), "met"),
            Some(value) => (figure(value), "missed"),
            None => (String::new(), "not measured"),
        }
    }

    /// Returns leasehold's median, divided by the median of the divisor if there is one. Returns
    /// `None` if a median is missing.
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
    pub(crate) fn is_met(&self, value: f64) -> bool {
        match self {
            AtMost(bound) => value <= *bound,
            AtLeast(bound) => value >= *bound,
        }
    }

    /// Compares two values of a target. The better value comes first.
    pub(crate) fn order(&self, one: f64, other: f64) -> Ordering {
        match self {
            AtMost(_) => one.total_cmp(&other),
            AtLeast(_) => other.total_cmp(&one),
        }
    }

    pub(crate) fn text(&self) -> String {
        match self {
            AtMost(bound) => format!("at most {}", figure(*bound)),
            AtLeast(bound) => format!("at least {}", figure(*bound)),
        }
    }
}

/// Returns a line for each target.
pub(crate) fn table(measures: &[Measure]) -> String {
    let mut text = "| what | target | measured | |\n|---|---|---:|---|\n".to_owned();
    for target in TARGETS {
        let (value, verdict) = target.verdict(measures);
        let wanted = target.wanted.text();
        let _ = writeln!(text, "| {} | {wanted} | {value} | {verdict} |", target.what);
    }
    text
}

/// Returns the targets of hot keys, as lines of the table of bounds.
pub(crate) fn of_hot_keys(measures: &[Measure]) -> String {
    let mut text = String::new();
    for target in OF_HOT_KEYS {
        let (value, verdict) = target.verdict(measures);
        let wanted = target.wanted.text();
        let _ = writeln!(
            text,
            "| {} | {wanted} | | {value} | {verdict} |",
            target.what
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(row: &str, contestant: &str, metric: &str, value: f64) -> Measure {
        Measure::new(row, contestant, metric, &[value], "2026-01-31")
    }

    #[test]
    fn targets_compare_figures_of_the_same_run() {
        let row = "redlock_uncontended";
        let ours = measured(row, "leasehold", "p50_us", 120.0);
        let met = table(&[ours.clone(), measured(row, "rslock", "p50_us", 120.0)]);
        assert!(met.contains("| at most 1.00 | 1.00 | met |"), "{met}");
        let missed = table(&[ours, measured(row, "rslock", "p50_us", 50.0)]);
        assert!(
            missed.contains("| at most 1.00 | 2.40 | missed |"),
            "{missed}"
        );
    }
}
