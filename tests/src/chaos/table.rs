//! The results as a table, in Markdown.

use std::fmt::Write as _;
use std::time::Duration;

use super::ground::Requirement;
use super::sheet::{Outcome, Tally};
use super::store::Store;

/// A requirement that ran, and its result.
#[derive(Debug)]
pub struct Row {
    /// The requirement.
    pub requirement: Requirement,
    /// The store.
    pub store: Store,
    /// The duration of the run.
    pub took: Duration,
    /// The outcome of the requirement.
    pub outcome: Outcome,
}

/// Renders a table of all sums and a table of all requirements.
pub fn render(rows: &[Row]) -> String {
    let mut tally = Tally::default();
    for row in rows {
        tally.add(&row.outcome.tally);
    }
    let mut text = sums(&tally);
    text.push_str("\n| # | what | store | result | numbers | took |\n|---|---|---|---|---|---|\n");
    for row in rows {
        let _ = writeln!(
            text,
            "| {} | {} | {:?} | {} | {} | {:.0?} |",
            row.requirement.number,
            row.requirement.what,
            row.store,
            row.outcome.result(),
            row.outcome.numbers(),
            row.took
        );
    }
    for row in rows.iter().filter(|row| !row.outcome.passed()) {
        let failures = &row.outcome.failures;
        let (number, store) = (row.requirement.number, row.store);
        let _ = writeln!(
            text,
            "\nrequirement {number}, {store:?}: {} failures",
            failures.len()
        );
        for failure in failures.iter().take(10) {
            let _ = writeln!(text, "  {failure}");
        }
    }
    text
}

fn sums(tally: &Tally) -> String {
    let faults: u64 = tally.faults.values().sum();
    let mut text = String::from("| what | number |\n|---|---|\n");
    let mut line = |what: &str, number: String| {
        let _ = writeln!(text, "| {what} | {number} |");
    };
    line("sections run", tally.sections.to_string());
    line("faults injected", faults.to_string());
    for (kind, times) in &tally.faults {
        line(&format!("… {kind}"), times.to_string());
    }
    line("overlaps", tally.overlaps.to_string());
    if tally.allowed_overlaps > 0 {
        let allowed = tally.allowed_overlaps.to_string();
        line("overlaps that asynchronous replication allows", allowed);
    }
    line("fence inversions", tally.inversions.to_string());
    line("lost updates", tally.lost_updates.to_string());
    line("orphans beyond their bound", tally.orphans.to_string());
    line("polls after D", tally.late_polls.to_string());
    line("other violations", tally.others.to_string());
    line(
        "worst release delay",
        format!("{:.1?}", tally.worst_release),
    );
    line(
        "worst loss-signal delay after S",
        format!("{:.1?}", tally.worst_signal),
    );
    text
}
