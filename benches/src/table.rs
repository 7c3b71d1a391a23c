//! Results as Markdown.

use std::fmt::Write as _;

use crate::figures::{FAULTS, METRICS};
use crate::measure::{Measure, find};
use crate::sheet::BASE;

/// Returns the table of one benchmark: a line for each contestant, and a column for each metric
/// with a value.
pub(crate) fn row(
    name: &str,
    title: &str,
    measures: &[Measure],
    remarks: &[(String, String)],
) -> String {
    let metrics = metrics(measures);
    let rounds = measures
        .iter()
        .map(|measure| measure.rounds)
        .max()
        .unwrap_or_default();
    let plural = if rounds == 1 { "" } else { "s" };
    let mut text = format!("**`{name}`**: {title}; {rounds} round{plural}\n\n| contestant |");
    for metric in &metrics {
        let _ = write!(text, " {} |", heading(metric));
    }
    text.push_str(" remarks |\n|---|");
    text.push_str(&"---:|".repeat(metrics.len()));
    text.push_str("---|\n");
    for who in contestants(measures, remarks) {
        line(&mut text, who, &metrics, measures, remarks);
    }
    text
}

fn line(
    text: &mut String,
    who: &str,
    metrics: &[&str],
    measures: &[Measure],
    remarks: &[(String, String)],
) {
    let _ = write!(text, "| {who} |");
    let of = |metric: &str| {
        let found = |measure: &&Measure| measure.contestant == who && measure.metric == metric;
        measures.iter().find(found)
    };
    for metric in metrics {
        let cell = of(metric).map_or_else(String::new, cell);
        let _ = write!(text, " {cell} |");
    }
    let mut cells: Vec<String> = Vec::new();
    for (metric, fault) in FAULTS {
        if let Some(measure) = of(metric).filter(|measure| measure.max > 0.0) {
            cells.push(format!("**{fault}**, up to {} in a round", measure.max));
        }
    }
    let of_who = remarks.iter().filter(|(name, _)| name == who);
    cells.extend(of_who.map(|(_, remark)| remark.clone()));
    let _ = writeln!(text, " {} |", cells.join("; "));
}

/// Returns one table for several benchmarks. The table shows the figures of the base contestant
/// (`hand_written`). For each other contestant, it shows the ratios to these figures.
pub(crate) fn ratios(rows: &[String], measures: &[Measure]) -> String {
    let of_rows = measures
        .iter()
        .filter(|measure| rows.contains(&measure.row));
    let metrics = metrics(&of_rows.cloned().collect::<Vec<_>>());
    let mut text = "| row | contestant |".to_owned();
    for metric in &metrics {
        let _ = write!(text, " {} |", heading(metric));
    }
    text.push_str("\n|---|---|");
    text.push_str(&"---:|".repeat(metrics.len()));
    text.push('\n');
    for row in rows {
        let of_row = measures.iter().filter(|measure| measure.row == *row);
        let of_row: Vec<Measure> = of_row.cloned().collect();
        let mut contestants = contestants(&of_row, &[]);
        contestants.sort_by_key(|who| *who != BASE);
        for who in contestants {
            let _ = write!(text, "| `{row}` | {who} |");
            for metric in &metrics {
                let cell = find(&of_row, row, who, metric).map_or_else(String::new, ratio);
                let _ = write!(text, " {cell} |");
            }
            text.push('\n');
        }
    }
    text
}

/// Formats a ratio to the base contestant. For the base itself, formats its figure.
fn ratio(measure: &Measure) -> String {
    match measure.ratio {
        Some(ratio) => format!("× {ratio:.2}"),
        None => figure(measure.median),
    }
}

/// Returns the metrics with a value. Counts of broken promises are remarks, not columns.
fn metrics(measures: &[Measure]) -> Vec<&'static str> {
    let is_fault = |metric: &&&str| FAULTS.iter().any(|(fault, _)| fault == *metric);
    let shown = METRICS.iter().filter(|metric| !is_fault(metric));
    let has = |metric: &&&str| measures.iter().any(|measure| measure.metric == **metric);
    shown.filter(has).copied().collect()
}

/// Returns the contestants: leasehold first, then the others by name.
fn contestants<'a>(measures: &'a [Measure], remarks: &'a [(String, String)]) -> Vec<&'a str> {
    let with_figures = measures.iter().map(|measure| measure.contestant.as_str());
    let with_remarks = remarks.iter().map(|(name, _)| name.as_str());
    let mut all: Vec<_> = with_figures.chain(with_remarks).collect();
    all.sort_unstable_by_key(|name| (*name != "leasehold", *name));
    all.dedup();
    all
}

/// Formats the median of a measure, and its spread if there were several rounds.
fn cell(measure: &Measure) -> String {
    let mut text = figure(measure.median);
    if measure.rounds > 1 {
        let (min, max) = (figure(measure.min), figure(measure.max));
        let _ = write!(text, " ({min}–{max})");
    }
    text
}

/// Formats a value with three decimals below 1, two below 10, one below 100, and none otherwise.
/// Adds commas for the thousands.
pub(crate) fn figure(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let digits = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
    };
    let text = format!("{value:.digits$}");
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut grouped = String::new();
    for (place, digit) in whole.char_indices() {
        if place > 0 && (whole.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + rest
}

fn heading(metric: &str) -> &'static str {
    match metric {
        "least_us" => "least, µs",
        "p50_us" => "p50, µs",
        "p99_us" => "p99, µs",
        "per_s" => "per second",
        "longest_wait_ms" => "longest wait, ms",
        "fair_wait_ms" => "fair wait, ms",
        "share_ratio" => "share ratio",
        "late_p99_ms" => "late p99, ms",
        "late_max_ms" => "late at most, ms",
        "cpu_cores" => "CPU, cores",
        "cpu_us" => "client CPU, µs",
        "server_cpu_us" => "server CPU, µs",
        "bystander_p99_us" => "bystander p99, µs",
        "bytes" => "bytes",
        "instructions" => "client instructions",
        "allocations" => "allocations",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_rounded() {
        assert_eq!(figure(1_234_567.8), "1,234,568");
        assert_eq!(figure(123_456.0), "123,456");
        assert_eq!(figure(99.94), "99.9");
        assert_eq!(figure(0.0), "0");
        assert_eq!(figure(0.117), "0.117");
    }

    #[test]
    fn an_overlap_is_shown_in_the_table() {
        let measure = Measure::new("hot", "peer", "overlaps", &[0.0, 3.0], "2026-01-31");
        let text = row("hot", "a key", &[measure], &[]);
        assert!(
            text.contains("| peer | **overlapped**, up to 3 in a round |"),
            "{text}"
        );
    }

    #[test]
    fn a_ratio_is_shown_below_its_base() {
        let of = |who: &str, ratio| Measure {
            ratio,
            ..Measure::new("open", who, "p50_us", &[100.0], "2026-01-31")
        };
        let measures = [of("leasehold", Some(1.25)), of(BASE, None)];
        let text = ratios(&["open".to_owned()], &measures);
        let lines: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(
            lines,
            [
                "| `open` | hand_written | 100 |",
                "| `open` | leasehold | × 1.25 |"
            ]
        );
    }
}
