//! The tables that the program prints at its end.

use std::time::Duration;

use crate::client::Answers;

#[derive(Debug, Default)]
pub(crate) struct Report {
    lines: Vec<String>,
    checks: Vec<Check>,
}

#[derive(Debug)]
struct Check {
    what: &'static str,
    found: i64,
    expected: i64,
}

impl Report {
    /// Adds the answers of one phase to the table.
    pub(crate) fn phase(&mut self, name: &str, took: Duration, answers: &Answers) {
        for (status, times) in answers.sorted() {
            self.lines.push(format!(
                "{name:<8}{status:>7}{:>9}{:>10.1}{:>10.1}",
                times.len(),
                milliseconds(percentile(&times, 50)),
                milliseconds(percentile(&times, 99)),
            ));
        }
        self.lines
            .push(format!("{name:<8}took {:.1} s", took.as_secs_f64()));
    }

    /// Adds a number to the table.
    pub(crate) fn note(&mut self, what: &'static str, number: u64) {
        self.lines.push(format!("{what}: {number}"));
    }

    /// Adds a check: the found number, and the expected number.
    pub(crate) fn expect(&mut self, what: &'static str, found: i64, expected: impl Into<i64>) {
        self.checks.push(Check {
            what,
            found,
            expected: expected.into(),
        });
    }

    pub(crate) fn all_as_expected(&self) -> bool {
        self.checks.iter().all(Check::holds)
    }

    pub(crate) fn print(&self) {
        println!(
            "{:<8}{:>7}{:>9}{:>10}{:>10}",
            "", "status", "answers", "p50 ms", "p99 ms"
        );
        for line in &self.lines {
            println!("{line}");
        }
        println!("\n{:>9}{:>10}", "found", "expected");
        for check in &self.checks {
            let mark = if check.holds() { "ok   " } else { "WRONG" };
            println!(
                "{:>9}{:>10}  {mark}  {}",
                check.found, check.expected, check.what
            );
        }
    }
}

impl Check {
    fn holds(&self) -> bool {
        self.found == self.expected
    }
}

fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let last = sorted.len() - 1;
    sorted[last * percent / 100]
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
