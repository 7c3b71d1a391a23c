//! The results and failures of a requirement.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::oracle::{Kind, Report};

/// A count that a requirement must reach in a full run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reached {
    /// The name of the counted events.
    pub what: &'static str,
    /// The count that this run reached.
    pub count: u64,
    /// The count that a full run must reach.
    pub wanted: u64,
}

/// Sums of one requirement, or of all requirements that ran.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Number of bodies that began.
    pub sections: u64,
    /// Faults by kind.
    pub faults: BTreeMap<String, u64>,
    /// Pairs of holders that exclude each other but were inside at the same time.
    pub overlaps: u64,
    /// Overlaps in deployments with asynchronous replication, which allows two holders after a
    /// fail-over.
    pub allowed_overlaps: u64,
    /// Fences that did not grow, and accepted writes with a stale fence.
    pub inversions: u64,
    /// Lost updates.
    pub lost_updates: u64,
    /// Locks that stayed for longer than allowed.
    pub orphans: u64,
    /// Polls of a body that began after the deadline of its lease.
    pub late_polls: u64,
    /// All other broken promises.
    pub others: u64,
    /// The longest time from the end or failure of a holder until its key was free or had its next
    /// holder.
    pub worst_release: Duration,
    /// The longest time from the signal time `S` of a lease to the signal of its loss.
    pub worst_signal: Duration,
}

impl Tally {
    /// Adds the sums of `other`.
    pub fn add(&mut self, other: &Self) {
        self.sections += other.sections;
        for (kind, times) in &other.faults {
            *self.faults.entry(kind.clone()).or_default() += times;
        }
        self.overlaps += other.overlaps;
        self.allowed_overlaps += other.allowed_overlaps;
        self.inversions += other.inversions;
        self.lost_updates += other.lost_updates;
        self.orphans += other.orphans;
        self.late_polls += other.late_polls;
        self.others += other.others;
        self.worst_release = self.worst_release.max(other.worst_release);
        self.worst_signal = self.worst_signal.max(other.worst_signal);
    }
}

/// The outcome of one requirement.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// The counts that the requirement must reach.
    pub reached: Vec<Reached>,
    /// Further measurements.
    pub remarks: Vec<String>,
    /// All failures.
    pub failures: Vec<String>,
    /// The sums of this requirement.
    pub tally: Tally,
}

impl Outcome {
    /// True if no check failed.
    pub fn passed(&self) -> bool {
        self.failures.is_empty()
    }

    /// True if all required numbers were reached.
    pub fn complete(&self) -> bool {
        self.reached.iter().all(|of| of.count >= of.wanted)
    }

    /// Returns the result for the table: pass or fail, and whether a required number was missed.
    pub fn result(&self) -> &'static str {
        match (self.passed(), self.complete()) {
            (false, _) => "FAIL",
            (true, false) => "pass, fewer than wanted",
            (true, true) => "pass",
        }
    }

    /// Returns the counts and measurements as one line.
    pub fn numbers(&self) -> String {
        let mut line = String::new();
        for Reached {
            what,
            count,
            wanted,
        } in &self.reached
        {
            let _ = write!(line, "{count} {what} (of {wanted}); ");
        }
        line.push_str(&self.remarks.join("; "));
        line.trim_end_matches("; ").to_owned()
    }
}

/// An outcome that several threads can add to.
#[derive(Debug, Default)]
pub struct Sheet(Mutex<Outcome>);

impl Sheet {
    /// Creates an empty sheet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the outcome.
    pub fn into_outcome(self) -> Outcome {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a number that the run reached.
    pub fn reached(&self, what: &'static str, count: u64, wanted: u64) {
        self.outcome().reached.push(Reached {
            what,
            count,
            wanted,
        });
    }

    /// Notes a measurement.
    pub fn remark(&self, text: impl Into<String>) {
        self.outcome().remarks.push(text.into());
    }

    /// Checks a condition. If `holds` is false, notes a failure with the text of `what`.
    pub fn check(&self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.fail(what());
        }
    }

    /// Notes a failure.
    pub fn fail(&self, text: impl Into<String>) {
        self.outcome().failures.push(text.into());
    }

    /// Counts bodies that ran.
    pub fn sections(&self, count: u64) {
        self.outcome().tally.sections += count;
    }

    /// Counts injected faults.
    pub fn faults(&self, kind: &str, count: u64) {
        let mut outcome = self.outcome();
        *outcome.tally.faults.entry(kind.to_owned()).or_default() += count;
    }

    /// Notes the time from the end or failure of a holder until its key was free or had its next
    /// holder.
    pub fn release(&self, delay: Duration) {
        let mut outcome = self.outcome();
        outcome.tally.worst_release = outcome.tally.worst_release.max(delay);
    }

    /// Notes the time from the signal time `S` of a lease to the signal of its loss.
    pub fn signal(&self, delay: Duration) {
        let mut outcome = self.outcome();
        outcome.tally.worst_signal = outcome.tally.worst_signal.max(delay);
    }

    /// Notes a lock that stayed for longer than allowed.
    pub fn orphan(&self, text: impl Into<String>) {
        self.outcome().tally.orphans += 1;
        self.fail(text);
    }

    /// Notes a fence that did not grow, or an accepted stale write.
    pub fn inversion(&self, text: impl Into<String>) {
        self.outcome().tally.inversions += 1;
        self.fail(text);
    }

    /// Notes lost updates.
    pub fn lost_updates(&self, count: u64, text: impl Into<String>) {
        self.outcome().tally.lost_updates += count;
        self.fail(text);
    }

    /// Notes that two holders were inside at the same time.
    pub fn overlap(&self, text: impl Into<String>) {
        self.outcome().tally.overlaps += 1;
        self.fail(text);
    }

    /// Adds the oracle's report of a run on a deployment with asynchronous replication. After a
    /// fail-over, such a deployment can have two holders. So overlaps are only counted, and the
    /// violations `Overtaken` and `Crossed`, which follow from them, are ignored. Returns the
    /// number of overlaps.
    pub fn report_replicated(&self, mut report: Report) -> u64 {
        let (overlaps, others) = report
            .violations
            .into_iter()
            .partition::<Vec<_>, _>(|found| {
                [Kind::Overlap, Kind::Overtaken, Kind::Crossed].contains(&found.kind)
            });
        report.violations = others;
        self.report(&report);
        let overlaps = overlaps.iter().filter(|found| found.kind == Kind::Overlap);
        let overlaps = u64::try_from(overlaps.count()).unwrap_or(u64::MAX);
        self.outcome().tally.allowed_overlaps += overlaps;
        overlaps
    }

    /// Adds the oracle's report.
    pub fn report(&self, report: &Report) {
        let count = |kinds: &[Kind]| kinds.iter().map(|kind| report.count(*kind)).sum::<u64>();
        let mut tally = Tally {
            sections: report.sections,
            faults: report.faults.clone(),
            overlaps: count(&[Kind::Overlap, Kind::Crowded, Kind::Overtaken]),
            inversions: count(&[Kind::FenceOrder, Kind::Crossed, Kind::StaleWrite]),
            lost_updates: count(&[Kind::LostUpdate]),
            orphans: count(&[Kind::FreedLate]),
            late_polls: count(&[Kind::PollAfterDeadline]),
            worst_release: Duration::from_nanos(report.worst_release),
            ..Tally::default()
        };
        let all = u64::try_from(report.violations.len()).unwrap_or(u64::MAX);
        tally.others = all
            - tally.overlaps
            - tally.inversions
            - tally.lost_updates
            - tally.orphans
            - tally.late_polls;
        let mut outcome = self.outcome();
        outcome.tally.add(&tally);
        for violation in &report.violations {
            outcome.failures.push(violation.to_string());
        }
    }

    fn outcome(&self) -> MutexGuard<'_, Outcome> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
