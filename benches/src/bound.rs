//! Bounds for the benchmarks that resemble services (`open_…` and `closed_…`). A bound limits the
//! ratio of leasehold's figure to that of hand-written code, in some benchmarks and setups.

use crate::entry::{self, Entry};
use crate::measure::{Measure, find};
use crate::pace::Pace;
use crate::table::figure;
use crate::targets::Wanted::{self, AtLeast, AtMost};

/// A bound for a metric of leasehold, divided by the same metric of `hand_written`. `rows` selects
/// the benchmarks and setups to which the bound applies.
struct Bound {
    what: &'static str,
    rows: &'static [&'static str],
    metric: &'static str,
    wanted: Wanted,
}

const OPEN: &[&str] = &["open_200:quiet", "open_1000:quiet", "open_5000:quiet"];
const ALONE: &[&str] = &["closed_1:quiet"];
const CROWDS: &[&str] = &[
    "closed_16:quiet",
    "closed_64:quiet",
    "closed_256:quiet",
    "closed_1024:quiet",
];
const BUSY_CROWDS: &[&str] = &[
    "closed_16:busy",
    "closed_64:busy",
    "closed_256:busy",
    "closed_1024:busy",
];

const BOUNDS: &[Bound] = &[
    bound(
        "open loop, 200 to 5,000 a second, quiet: client CPU",
        OPEN,
        "cpu_us",
        AtMost(1.1),
    ),
    bound("the same: server CPU", OPEN, "server_cpu_us", AtMost(1.25)),
    bound("the same: p50", OPEN, "p50_us", AtMost(1.15)),
    bound("the same: p99", OPEN, "p99_us", AtMost(1.3)),
    bound(
        "the same: p99 of a bystander's lateness",
        OPEN,
        "bystander_p99_us",
        AtMost(1.3),
    ),
    bound(
        "closed loop, 1 task, quiet: p50",
        ALONE,
        "p50_us",
        AtMost(1.15),
    ),
    bound(
        "closed loop, 16 to 1,024 tasks, quiet: pairs a second",
        CROWDS,
        "per_s",
        AtLeast(1.0),
    ),
    bound("the same: client CPU", CROWDS, "cpu_us", AtMost(0.7)),
    bound(
        "the same with two busy processes: pairs a second",
        BUSY_CROWDS,
        "per_s",
        AtLeast(1.0),
    ),
];

const fn bound(
    what: &'static str,
    rows: &'static [&'static str],
    metric: &'static str,
    wanted: Wanted,
) -> Bound {
    Bound {
        what,
        rows,
        metric,
        wanted,
    }
}

impl Bound {
    /// Returns the measured ratios to which the bound applies, the best first. Each ratio is paired
    /// with the name of its benchmark and setup.
    fn reached<'a>(&self, measures: &'a [Measure]) -> Vec<(f64, &'a str)> {
        let rows: Vec<String> = self.rows.iter().map(ToString::to_string).collect();
        let entries = entry::chosen(&rows, Pace::Full).unwrap_or_default();
        let ratio = |name: String| {
            let measure = find(measures, &name, "leasehold", self.metric)?;
            Some((measure.ratio?, measure.row.as_str()))
        };
        let names = entries.iter().map(Entry::name);
        let mut reached: Vec<_> = names.filter_map(ratio).collect();
        reached.sort_by(|(one, _), (other, _)| self.wanted.order(*one, *other));
        reached
    }

    /// Returns the line of this bound in the table.
    fn line(&self, measures: &[Measure]) -> String {
        let reached = self.reached(measures);
        let met = reached
            .iter()
            .filter(|(ratio, _)| self.wanted.is_met(*ratio));
        let (met, all) = (met.count(), reached.len());
        let (best, worst) = match (reached.first(), reached.last()) {
            (Some((best, _)), Some((worst, row))) => {
                (figure(*best), format!("{} in `{row}`", figure(*worst)))
            }
            _ => Default::default(),
        };
        let verdict = match all {
            0 => "not measured".to_owned(),
            _ if met == all => "met".to_owned(),
            _ => format!("missed, met in {met} of {all}"),
        };
        let wanted = self.wanted.text();
        format!(
            "| {} | {wanted} | {best} | {worst} | {verdict} |\n",
            self.what
        )
    }
}

/// Returns a line for each bound. A bound is met if all measured benchmarks and setups to which it
/// applies meet it.
pub(crate) fn table(measures: &[Measure]) -> String {
    let mut text =
        "| what, against `hand_written` | target | best | worst | |\n|---|---|---:|---:|---|\n"
            .to_owned();
    for bound in BOUNDS {
        text.push_str(&bound.line(measures));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(row: &str, contestant: &str, metric: &str, value: f64) -> Measure {
        Measure::new(row, contestant, metric, &[value], "2026-01-31")
    }

    /// Fails if a bound counts as met although one benchmark or setup does not meet it.
    #[test]
    fn a_bound_is_met_if_every_setup_meets_it() {
        let ours = |row: &str, ratio: f64| Measure {
            ratio: Some(ratio),
            ..measured(row, "leasehold", "p50_us", 50.0)
        };
        let good = ours("open_200:multi_thread:loopback:quiet", 1.1);
        let bad = ours("open_5000:current_thread:delayed:quiet", 1.5);
        let elsewhere = ours("open_5000:current_thread:delayed:busy", 9.0);
        let met = table(&[good.clone(), elsewhere.clone()]);
        assert!(
            met.contains("| 1.10 | 1.10 in `open_200:multi_thread:loopback:quiet` | met |"),
            "{met}"
        );
        let missed = table(&[good, bad, elsewhere]);
        assert!(
            missed.contains(
                "| 1.10 | 1.50 in `open_5000:current_thread:delayed:quiet` | missed, met in 1 of 2 |"
            ),
            "{missed}"
        );
        assert!(
            missed
                .contains("closed loop, 1 task, quiet: p50 | at most 1.15 |  |  | not measured |"),
            "{missed}"
        );
    }
}
