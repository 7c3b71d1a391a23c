//! Runs the benchmarks (rows), each with separate servers. All contestants of a benchmark run in
//! turn, in a new order in each round.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rand::seq::SliceRandom as _;
use redis::cmd;

use crate::args::RunArguments;
use crate::contestants::{Contestant, Fault};
use crate::crew::{self, Setting};
use crate::entry::{self, Entry};
use crate::figures::{FAULTS, Figures, METRICS};
use crate::measure::{self, Measure};
use crate::pace::Pace;
use crate::plan::Work;
use crate::row::{Clients, Task, WINDOW_MS};
use crate::setup::{Runtime, Setup};
use crate::sheet::Sheet;
use crate::stage::Stage;
use crate::{figures, overhead, pair, table};

/// Name of the `--observed` build among the contestants of the row `overhead`. In this row, the
/// build has metrics but no installed recorder.
const WITH_METRICS: &str = "leasehold_with_metrics";

/// The ttl of most benchmarks: longer than any critical section or wait for the CPU.
const TTL: Duration = Duration::from_secs(10);
/// The ttl for measuring memory and instructions. It is long, so that no lease expires during the
/// measurement.
const LONG_TTL: Duration = Duration::from_mins(5);

/// Runs benchmarks with the same arguments, folder and date.
pub(crate) struct Harness<'a> {
    arguments: &'a RunArguments,
    folder: Folder,
    date: String,
}

impl<'a> Harness<'a> {
    pub(crate) fn new(arguments: &'a RunArguments) -> Result<Self, Fault> {
        Ok(Self {
            arguments,
            folder: Folder::new()?,
            date: today(),
        })
    }

    /// Runs a benchmark in one setup, and prints its table.
    pub(crate) fn run(&self, entry: &Entry) -> Result<Vec<Measure>, Fault> {
        let (name, title) = (entry.name(), entry.title());
        eprintln!("{name}: {title}");
        let sheet = match entry.row.task {
            Task::Clients(shape) => self.race(entry, &shape)?,
            Task::Overhead => self.overhead()?,
            Task::Pair => self.pair(entry)?,
        };
        let measures = sheet.measures(&name, &self.date);
        println!("{}", table::row(&name, &title, &measures, sheet.remarks()));
        Ok(measures)
    }

    fn race(&self, entry: &Entry, shape: &Clients) -> Result<Sheet, Fault> {
        let mut sheet = Sheet::default();
        let (wanted, pace) = (&self.arguments.contestants, self.arguments.pace());
        let mut contestants = entry::contestants(entry.row, wanted, pace);
        let stage = Stage::start(shape, entry.setup, TTL)?;
        let mut setting = self.setting(shape, entry.setup, &stage);
        for round in 1..=self.arguments.rounds() {
            setting.seed = u64::from(round);
            contestants.shuffle(&mut rand::rng());
            for who in &contestants {
                eprintln!("  round {round}: {who}");
                for server in stage.servers() {
                    server.probe().run::<()>(cmd("FLUSHALL").arg("SYNC"));
                }
                measure(*who, shape, &setting, round, &mut sheet);
            }
        }
        Ok(sheet)
    }

    fn setting<'s>(
        &'s self,
        shape: &Clients,
        setup: Option<Setup>,
        stage: &'s Stage,
    ) -> Setting<'s> {
        let quick = self.arguments.quick;
        let (ttl, window) = match shape.work {
            // This window is longer than the time between two renewals, a third of the ttl. So each
            // lease is renewed at least once.
            Work::Keep | Work::KeepBurst if quick => (TTL, TTL * 2 / 5),
            // In this window, which lasts one ttl, each lease is renewed several times.
            Work::Keep | Work::KeepBurst => (TTL, TTL),
            Work::WeighHeld | Work::WeighWaiting | Work::WeighResults | Work::Pairs => {
                (LONG_TTL, Duration::ZERO)
            }
            Work::Hot | Work::Distinct | Work::Open => {
                (TTL, self.arguments.window(shape.window_ms))
            }
        };
        Setting {
            url: stage.url().to_owned(),
            servers: stage.server_ids(),
            window,
            patience: Duration::from_millis(self.arguments.patience_ms),
            ttl,
            runtime: setup.map(|setup| setup.runtime),
            seed: 0,
            peers: &self.arguments.peers,
            against: self.arguments.against.as_deref(),
            observed: self.arguments.observed.as_deref(),
            folder: &self.folder.0,
        }
    }

    /// Counts the instructions and allocations of a pair (an acquire and a release). Runs only one
    /// round, because the counts hardly vary.
    fn pair(&self, entry: &Entry) -> Result<Sheet, Fault> {
        let mut sheet = Sheet::default();
        let stage = Stage::start(&pair::SHAPE, entry.setup, TTL)?;
        let setting = Setting {
            runtime: Some(Runtime::CurrentThread),
            ..self.setting(&pair::SHAPE, entry.setup, &stage)
        };
        let (wanted, pace) = (&self.arguments.contestants, self.arguments.pace());
        for who in entry::contestants(entry.row, wanted, pace) {
            eprintln!("  {who}");
            sheet.add(&who.to_string(), 1, pair::count(who, &setting)?);
        }
        Ok(sheet)
    }

    fn overhead(&self) -> Result<Sheet, Fault> {
        let mut sheet = Sheet::default();
        for round in 1..=self.arguments.rounds() {
            for (what, figures) in overhead::run(self.arguments.window(WINDOW_MS))? {
                sheet.add(what, round, figures);
            }
            if let Some(before) = &self.arguments.against {
                let name = Contestant::LeaseholdBefore.to_string();
                sheet.add(&name, round, self.overhead_of(before)?);
            }
            if let Some(observed) = &self.arguments.observed {
                sheet.add(WITH_METRICS, round, self.overhead_of(observed)?);
            }
        }
        Ok(sheet)
    }

    /// Returns the figures of another build, which runs the row `overhead` itself.
    fn overhead_of(&self, program: &Path) -> Result<Figures, Fault> {
        let file = self.folder.0.join("overhead");
        let window = self.arguments.window(WINDOW_MS).as_millis().to_string();
        let ended = Command::new(program)
            .args([
                "--rows",
                "overhead",
                "--rounds",
                "1",
                "--window-ms",
                &window,
            ])
            .arg("--json")
            .arg(&file)
            .output()?;
        if !ended.status.success() {
            let reason = String::from_utf8_lossy(&ended.stderr);
            return Err(format!("{}: {}", program.display(), reason.trim()).into());
        }
        let measures = measure::read(&[file])?;
        let ours = Contestant::Leasehold.to_string();
        let of = |metric: &&'static str| {
            Some((
                *metric,
                measure::find(&measures, "overhead", &ours, metric)?.median,
            ))
        };
        Ok(METRICS.iter().filter_map(of).collect())
    }
}

/// Measures one contestant once. If the contestant cannot run, adds a remark instead. If leasehold
/// cannot run, the whole run also fails at its end: see `broken`.
fn measure(who: Contestant, shape: &Clients, setting: &Setting, round: u32, sheet: &mut Sheet) {
    let name = who.to_string();
    match crew::run(who, shape, setting) {
        Ok(outcome) => {
            for error in outcome.reports.iter().flat_map(|report| &report.errors) {
                sheet.remark(&name, error);
            }
            sheet.add(&name, round, figures::of(shape, outcome));
        }
        Err(reason) => {
            eprintln!("  {who} did not run: {reason}");
            sheet.remark(&name, &format!("not run: {reason}"));
        }
    }
}

/// Returns the reasons why the run fails: leasehold, in one of its forms, let two tasks in at once,
/// never served a waiter, lost a lease, or did not run in each round. Slow times do not fail the
/// run.
pub(crate) fn broken(
    entries: &[Entry],
    wanted: &[Contestant],
    pace: Pace,
    rounds: u32,
    measures: &[Measure],
) -> Vec<String> {
    let mut broken = Vec::new();
    for entry in entries {
        let name = entry.name();
        let all = entry::contestants(entry.row, wanted, pace);
        for who in all.iter().filter(|who| who.is_ours()) {
            let ours = who.to_string();
            let of = |measure: &&Measure| measure.row == name && measure.contestant == ours;
            let found: Vec<_> = measures.iter().filter(of).collect();
            let ran = found.iter().map(|measure| measure.rounds).max();
            let expected = match entry.row.task {
                Task::Pair => 1,
                Task::Clients(_) | Task::Overhead => rounds as usize,
            };
            // Only contestants that the benchmark lists must run. The command line can also name a
            // control that cannot run in this benchmark.
            let listed = entry.row.contestants.contains(who);
            if listed && ran.unwrap_or(0) < expected {
                broken.push(format!("{name}: {ours} did not run in each round"));
            }
            for measure in found {
                let promise = FAULTS.iter().any(|(fault, _)| *fault == measure.metric);
                if promise && measure.max > 0.0 {
                    let (metric, most) = (&measure.metric, measure.max);
                    broken.push(format!("{name}: {metric} of {ours}: {most}"));
                }
            }
        }
    }
    broken
}

/// A folder for the clients' records. It is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self, Fault> {
        let path = std::env::temp_dir().join(format!("leasehold-bench-{}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Returns the day in UTC, from the system's `date`.
fn today() -> String {
    let printed = Command::new("date").args(["-u", "+%Y-%m-%d"]).output();
    let text = printed.map(|printed| String::from_utf8_lossy(&printed.stdout).trim().to_owned());
    text.ok()
        .filter(|text| !text.is_empty())
        .unwrap_or_else(|| "no date".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(row: &str, measures: &[(&str, &str, &[f64])]) -> Vec<String> {
        let rows = entry::chosen(&[row.to_owned()], Pace::Full);
        let measures = measures
            .iter()
            .map(|(who, metric, samples)| Measure::new(row, who, metric, samples, ""));
        let measures: Vec<_> = measures.collect();
        broken(
            &rows.expect("the row is known"),
            &[],
            Pace::Full,
            2,
            &measures,
        )
    }

    #[test]
    fn overlaps_and_losses_of_leasehold_fail_the_run() {
        let judged = |who, metric, most| {
            let ran: (_, _, &[f64]) = ("leasehold", "per_s", &[1.0, 1.0]);
            judged("hot_1x64_0ms", &[ran, (who, metric, &[0.0, most])])
        };
        assert_eq!(judged("leasehold", "overlaps", 1.0).len(), 1);
        assert_eq!(judged("leasehold", "lost_waiters", 1.0).len(), 1);
        assert!(judged("leasehold", "p99_us", 1e12).is_empty());
        assert!(judged("rslock", "overlaps", 1.0).is_empty());
    }

    /// Fails if a form of leasehold with an option is not judged like leasehold itself.
    #[test]
    fn each_form_of_leasehold_is_judged() {
        let ran: (_, _, &[f64]) = ("leasehold_replayed", "overlaps", &[0.0, 0.0]);
        assert!(judged("memory_result", &[ran]).is_empty());
        let twice: (_, _, &[f64]) = ("leasehold_replayed", "overlaps", &[0.0, 1.0]);
        assert_eq!(judged("memory_result", &[twice]).len(), 1);
        assert_eq!(judged("memory_result", &[]).len(), 1);
    }

    /// Fails if a benchmark may end without leasehold in one of its rounds.
    #[test]
    fn a_round_without_leasehold_fails_the_run() {
        assert_eq!(judged("uncontended", &[]).len(), 1);
        let once: (_, _, &[f64]) = ("leasehold", "per_s", &[1.0]);
        assert_eq!(judged("uncontended", &[once]).len(), 1);
        let rows = entry::chosen(&["uncontended".to_owned()], Pace::Full);
        let rows = rows.expect("the row is known");
        assert!(broken(&rows, &[Contestant::Rslock], Pace::Full, 2, &[]).is_empty());
    }
}
