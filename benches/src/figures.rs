//! The figures of one measurement, from its records.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::crew::Outcome;
use crate::overlap;
use crate::plan::Work;
use crate::record::Record;
use crate::row::Clients;

/// The figures of a measurement: a value for each metric, by the metric's name.
pub(crate) type Figures = BTreeMap<&'static str, f64>;

/// All metrics, in the order of the tables.
pub(crate) const METRICS: &[&str] = &[
    "least_us",
    "p50_us",
    "p99_us",
    "per_s",
    "longest_wait_ms",
    "fair_wait_ms",
    "share_ratio",
    "late_p99_ms",
    "late_max_ms",
    "cpu_cores",
    "cpu_us",
    "server_cpu_us",
    "bystander_p99_us",
    "bytes",
    "instructions",
    "allocations",
    "overlaps",
    "lost_waiters",
    "lost_leases",
];

/// Counts of broken promises. Each count must be zero, so it has no column in a table.
pub(crate) const FAULTS: &[(&str, &str)] = &[
    ("overlaps", "overlapped"),
    ("lost_waiters", "lost waiters"),
    ("lost_leases", "lost leases"),
];

/// Computes the figures of one measurement. `shape` is the shape of the measured benchmark.
pub(crate) fn of(shape: &Clients, mut outcome: Outcome) -> Figures {
    let lost: u64 = outcome.reports.iter().map(|report| report.lost).sum();
    let what = if shape.keeps() {
        "lost_leases"
    } else {
        "lost_waiters"
    };
    let mut figures = Figures::from([(what, number(lost))]);
    match shape.work {
        Work::Distinct => distinct(&outcome, &mut figures),
        Work::Open => open(&outcome, &mut figures),
        Work::Hot => hot(shape, &mut outcome, &mut figures),
        Work::Keep | Work::KeepBurst => keep(&outcome, &mut figures),
        Work::WeighHeld | Work::WeighWaiting | Work::WeighResults | Work::Pairs => {
            weigh(&outcome, &mut figures);
        }
    }
    if shape.keeps()
        && let Some(cpu) = outcome.cpu
    {
        let looking: u64 = outcome.reports.iter().map(|one| one.looking_ns).sum();
        let cpu = cpu.saturating_sub(Duration::from_nanos(looking));
        figures.insert("cpu_cores", cpu.as_secs_f64() / seconds(&outcome));
    }
    figures
}

/// Adds the figures of whole pairs (an acquire and a release). A pair's time lasts from the request
/// for the lock to the confirmed release.
fn distinct(outcome: &Outcome, figures: &mut Figures) {
    let inside = in_window(outcome);
    let pairs = inside.iter().map(|record| record.released - record.asked);
    quantiles(pairs.collect(), figures);
    rate(&inside, outcome, figures);
    cost(outcome, figures);
}

/// Adds the figures of the whole pairs of an open loop, counted from the time when each was due.
/// The client has measured the CPU time of a pair, which replaces the result of `cost`.
fn open(outcome: &Outcome, figures: &mut Figures) {
    let Some(measured) = outcome.reports.iter().find_map(|report| report.open_loop) else {
        return;
    };
    figures.insert("per_s", number(measured.ended) / seconds(outcome));
    cost(outcome, figures);
    figures.insert("least_us", number(measured.least_ns) / 1e3);
    figures.insert("p50_us", number(measured.p50_ns) / 1e3);
    figures.insert("p99_us", number(measured.p99_ns) / 1e3);
    figures.insert("bystander_p99_us", number(measured.bystander_p99_ns) / 1e3);
    figures.remove("cpu_us");
    figures.extend(measured.cpu_ns.map(|cpu| ("cpu_us", number(cpu) / 1e3)));
}

/// Adds the CPU time of clients and servers for each pair or critical section.
fn cost(outcome: &Outcome, figures: &mut Figures) {
    let Some(count) = figures.get("per_s").map(|per_s| per_s * seconds(outcome)) else {
        return;
    };
    let each = |cpu: Option<Duration>| {
        cpu.filter(|_| count > 0.0)
            .map(|cpu| cpu.as_secs_f64() * 1e6 / count)
    };
    figures.extend(each(outcome.cpu).map(|each| ("cpu_us", each)));
    figures.extend(each(outcome.server_cpu).map(|each| ("server_cpu_us", each)));
}

/// Adds the figures of waits, from the request for the lock to the beginning of the critical
/// section.
fn hot(shape: &Clients, outcome: &mut Outcome, figures: &mut Figures) {
    let inside = in_window(outcome);
    let waits: Vec<_> = inside
        .iter()
        .map(|record| record.entered - record.asked)
        .collect();
    if let Some(longest) = waits.iter().max() {
        figures.insert("longest_wait_ms", number(*longest) / 1e6);
    }
    quantiles(waits, figures);
    rate(&inside, outcome, figures);
    cost(outcome, figures);
    figures.insert("share_ratio", share_ratio(shape, outcome));
    if shape.section_ms > 0 && !inside.is_empty() {
        let spent: u64 = inside
            .iter()
            .map(|record| record.left - record.entered)
            .sum();
        let mean_ms = number(spent) / 1e6 / number(inside.len() as u64);
        figures.insert("fair_wait_ms", shape.fair_wait_ms(mean_ms));
    }
    let mut all: Vec<_> = outcome.records.drain(..).flatten().collect();
    figures.insert("overlaps", number(overlap::count(&mut all)));
}

/// Adds the lateness of renewals, from the time when each was due to the time when it was sent.
fn keep(outcome: &Outcome, figures: &mut Figures) {
    let mut late: Vec<u64> = in_window(outcome)
        .iter()
        .map(|record| record.entered.saturating_sub(record.asked))
        .collect();
    late.sort_unstable();
    if let Some(longest) = late.last() {
        figures.insert("late_max_ms", number(*longest) / 1e6);
        figures.insert("late_p99_ms", number(quantile(&late, 0.99)) / 1e6);
        figures.insert("per_s", number(late.len() as u64) / seconds(outcome));
    }
}

fn weigh(outcome: &Outcome, figures: &mut Figures) {
    let bytes = outcome.reports.iter().find_map(|report| report.bytes);
    figures.extend(bytes.map(|bytes| ("bytes", bytes)));
}

/// Returns the critical sections that began in the window or later. The later ones were requested
/// before the end of the window, but their tasks had to wait.
fn in_window(outcome: &Outcome) -> Vec<Record> {
    let all = outcome.records.iter().flatten().copied();
    all.filter(|record| record.entered >= outcome.from)
        .collect()
}

fn rate(inside: &[Record], outcome: &Outcome, figures: &mut Figures) {
    let begun = inside
        .iter()
        .filter(|record| record.entered < outcome.to)
        .count();
    figures.insert("per_s", number(begun as u64) / seconds(outcome));
}

fn seconds(outcome: &Outcome) -> f64 {
    number(outcome.to - outcome.from) / 1e9
}

/// Returns the largest number of critical sections that one task ran in the window, divided by the
/// smallest such number. A task without a critical section counts as if it had run one.
fn share_ratio(shape: &Clients, outcome: &Outcome) -> f64 {
    let mut shares = Vec::new();
    for process in &outcome.records {
        let mut counts = vec![0_u64; shape.tasks as usize];
        for record in process {
            let inside = (outcome.from..outcome.to).contains(&record.entered);
            let task = usize::try_from(record.task).ok();
            if let Some(count) = task.and_then(|task| counts.get_mut(task)) {
                *count += u64::from(inside);
            }
        }
        shares.extend(counts);
    }
    let most = shares.iter().max().copied().unwrap_or_default();
    let least = shares.iter().min().copied().unwrap_or_default();
    number(most.max(1)) / number(least.max(1))
}

fn quantiles(mut spans: Vec<u64>, figures: &mut Figures) {
    spans.sort_unstable();
    if !spans.is_empty() {
        figures.insert("p50_us", number(quantile(&spans, 0.5)) / 1e3);
        figures.insert("p99_us", number(quantile(&spans, 0.99)) / 1e3);
    }
}

/// Returns the quantile `q` of `sorted`: the smallest value with at least the share `q` of all
/// values at or below it. `sorted` must not be empty.
pub(crate) fn quantile(sorted: &[u64], q: f64) -> u64 {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and the length"
    )]
    let rank = (number(sorted.len() as u64) * q).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

#[allow(
    clippy::cast_precision_loss,
    reason = "counts and nanoseconds stay below 2^52"
)]
fn number(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Report;

    const SHAPE: Clients = Clients {
        work: Work::Hot,
        masters: 1,
        engine: crate::row::Engine::Redis,
        processes: 1,
        tasks: 2,
        section_ms: 1,
        think_ms: 0,
        window_ms: 1_000,
    };

    fn section(task: u64, asked: u64, entered: u64, left: u64) -> Record {
        Record {
            task,
            asked,
            entered,
            left,
            released: left,
        }
    }

    fn outcome(records: Vec<Record>) -> Outcome {
        Outcome {
            records: vec![records],
            reports: vec![Report::default()],
            from: 1_000_000_000,
            to: 2_000_000_000,
            cpu: Some(Duration::from_millis(20)),
            server_cpu: Some(Duration::from_millis(10)),
        }
    }

    #[test]
    fn cpu_time_is_divided_among_the_sections_in_the_window() {
        let sections = (0..4).map(|n| section(0, 1_100_000_000, 1_100_000_000 + n, 1_200_000_000));
        let figures = of(&SHAPE, outcome(sections.collect()));
        assert!((figures["cpu_us"] - 5_000.0).abs() < 1e-6);
        assert!((figures["server_cpu_us"] - 2_500.0).abs() < 1e-6);
    }

    #[test]
    fn reading_the_leases_does_not_count_as_renewal_time() {
        let shape = Clients {
            work: Work::Keep,
            ..SHAPE
        };
        let mut outcome = outcome(vec![section(0, 1_100_000_000, 1_100_000_000, 0)]);
        outcome.reports[0].looking_ns = 5_000_000;
        assert!((of(&shape, outcome)["cpu_cores"] - 0.015).abs() < 1e-9);
    }

    #[test]
    fn a_wait_begun_before_the_window_counts_in_full() {
        let starved = section(0, 0, 1_500_000_000, 1_600_000_000);
        let before = section(1, 0, 900_000_000, 1_000_000_000);
        let figures = of(&SHAPE, outcome(vec![starved, before]));
        assert!((figures["longest_wait_ms"] - 1_500.0).abs() < 1e-9);
        assert!((figures["per_s"] - 1.0).abs() < 1e-9);
        assert!((figures["fair_wait_ms"] - 100.0).abs() < 1e-9);
    }

    #[test]
    fn a_task_without_a_section_counts_as_having_one() {
        let lucky = (0..5).map(|n| section(0, 1_100_000_000, 1_100_000_000 + n, 1_100_000_000 + n));
        let figures = of(&SHAPE, outcome(lucky.collect()));
        assert!((figures["share_ratio"] - 5.0).abs() < 1e-9);
    }

    #[test]
    fn quantiles_are_exact() {
        let spans: Vec<u64> = (1..=100).collect();
        assert_eq!(quantile(&spans, 0.5), 50);
        assert_eq!(quantile(&spans, 0.99), 99);
        assert_eq!(quantile(&[7], 0.99), 7);
    }
}
