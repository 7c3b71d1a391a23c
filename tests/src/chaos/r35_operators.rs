//! Requirement 35: operators list locks and take some away, while workers run the calls of
//! requirement 1 (lease exclusion). No promise is broken, and the holder of each lock taken away is
//! notified.
//!
//! The operators run the command `leasehold`: `watch` and `ls` all the time, and `release --yes`
//! for a lock that `ls` has shown.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use leasehold::__test::now;
use serde_json::Value;

use super::crew::{Crew, Hand};
use super::ending::{all_free, end_all};
use super::ground::{Ground, REDIS, Requirement, Size};
use super::job::{Job, Work};
use super::r01_exclusion;
use super::sheet::Sheet;
use super::span::nanos;
use super::storm::{self, Storm, TTL, WORKERS};
use super::tally::Progress;
use crate::lateness::Excuse;
use crate::oracle::Note;
use crate::process::Leashed;
use crate::random::Random;
use crate::server::Server;
use crate::wait;

pub(super) const REQUIREMENT: Requirement = Requirement {
    number: 35,
    what: "operators look at locks and take some away: no overlap, and each holder is notified",
    stores: REDIS,
    run,
};

/// Numbers that a full run must reach: sections, faults, and locks that operators take away.
const SECTIONS: u64 = 200_000;
const FAULTS: u64 = 300;
const TAKEN: u64 = 500;
/// Time within which a holder must be notified that its lock was taken away.
const NOTICE: Duration = Duration::from_secs(2);
const LONG: Duration = Duration::from_secs(60);
/// Time limit for a run with random faults (a storm) to reach `SECTIONS` and `FAULTS`.
const PATIENCE: Duration = Duration::from_secs(10 * 60);
/// Number of operators that take locks away at the same time.
const OPERATORS: usize = 2;
/// The longest pause of an operator before each attempt to take a lock away. During the pause, the
/// workers take locks again.
const PAUSE: Duration = Duration::from_millis(50);
/// Exit codes of the command: success, the lock is free, and the store is unavailable.
const DONE: i32 = 0;
const FREE: i32 = 1;
const AWAY: i32 = 69;

fn run(ground: &Ground, sheet: &Sheet) {
    let operators = Operators::new(ground, sheet);
    undisturbed(ground, sheet, &operators);
    under_faults(ground, sheet, &operators);
    let [looks, away] =
        [&operators.looks, &operators.away].map(|count| count.load(Ordering::Relaxed));
    sheet.remark(format!(
        "{looks} lists, {away} commands while the server was away"
    ));
}

/// Runs workers without faults, while operators take their locks away. No bodies may overlap. Each
/// holder must be notified, unless its body ended before its lock was taken away.
fn undisturbed(ground: &Ground, sheet: &Sheet, operators: &Operators) {
    let crew = ground.crew("operators-alone");
    let server = Server::start();
    let mut random = ground.random(36);
    let jobs = (0..WORKERS).map(|_| job(&crew, &server.url(), random.next_u64()));
    let mut hands: Vec<Hand> = jobs.map(|job| crew.spawn(&job, None)).collect();
    sheet.check(crew.watch().entered(LONG, 100), || {
        "the workers do not begin".to_owned()
    });
    let wanted = usize::try_from(ground.count(TAKEN, 20)).unwrap_or(usize::MAX);
    let excuse = Excuse::begin();
    let takes = operators.work(
        &server.url(),
        &mut random,
        wanted,
        &AtomicBool::new(false),
        &|_| {},
    );
    for hand in &mut hands {
        sheet.check(!hand.has_ended(), || "a worker has ended".to_owned());
    }
    end_all(sheet, hands);
    all_free(&crew, &server.probe(), TTL);
    let report = crew.report();
    sheet.report(&report);
    let outcome = outcome(&crew, &takes, NOTICE + excuse.so_far());
    for (take, outcome) in &outcome {
        sheet.check(outcome.is_some(), || {
            format!("{take:?}: its holder runs on")
        });
    }
    let count = |how, long| {
        let same = |(take, outcome): &&(Take, Option<Outcome>)| {
            *outcome == Some(how) && is_long(take) == long
        };
        outcome.iter().filter(same).count()
    };
    let all = u64::try_from(takes.len()).unwrap_or(u64::MAX);
    sheet.reached("locks taken away", all, TAKEN);
    // A short body has often ended before the command of an operator reaches the store. A long body
    // rarely has, so for long bodies `Lost` must be more frequent than `Done`.
    let [lost, done] = [Outcome::Lost, Outcome::Done].map(|how| count(how, true));
    sheet.check(done < lost, || "hardly a holder was notified".to_owned());
    let [short_lost, short_done] = [Outcome::Lost, Outcome::Done].map(|how| count(how, false));
    sheet.remark(format!(
        "undisturbed: {} sections; of long bodies {lost} ended with `Lost` and {done} were done, \
         of short ones {short_lost} and {short_done}",
        report.sections
    ));
    if report.violations.is_empty() {
        crew.remove();
    }
}

/// True if the body inside this lock takes longer than `NOTICE`. The keys of such locks contain
/// `long`.
fn is_long(take: &Take) -> bool {
    take.key.contains("long")
}

/// Returns the job of requirement 1, but without random drops and blocks, and with longer leases.
/// The groups of calls with few tasks (`copies`) get long bodies.
fn job(crew: &Crew, url: &str, seed: u64) -> Job {
    let mut job = r01_exclusion::job(crew, url, "k", seed);
    for lane in &mut job.lanes {
        // No call is dropped, because a dropped call cannot be notified.
        (lane.drop_one_in, lane.block_one_in) = (0, 0);
        // On a busy machine, shorter leases could end although no operator took their locks away.
        lane.ttl_ms = 20_000;
        if lane.copies < 8 {
            lane.work = Work::Wait { ms: 8_000 };
        }
    }
    job
}

/// The end of a holder whose lock was taken away.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Outcome {
    /// The holder's call ended with `Lost`.
    Lost,
    /// The holder's body had ended, and its release had not reached the store yet.
    Done,
}

/// Finds, for each lock taken away, how its holder ended. A loss counts if the holder noted it from
/// the operator's request until `within` after the answer. An ended body counts from `within`
/// before the request until the answer, because its release may not have reached the store yet.
fn outcome(crew: &Crew, takes: &[Take], within: Duration) -> Vec<(Take, Option<Outcome>)> {
    let (mut watch, mut losses, mut ends) = (crew.watch(), Vec::new(), Vec::new());
    while let Some(note) = watch.next_note() {
        match note {
            Note::Lost { key, at } => losses.push((key, at)),
            Note::Leave {
                key, holder, at, ..
            } => ends.push((key, holder >> 32, at)),
            _ => {}
        }
    }
    let within = nanos(within);
    let ended = takes.iter().map(|take| {
        let lost = losses
            .iter()
            .any(|(key, at)| *key == take.key && (take.from..take.by + within).contains(at));
        let done = || {
            ends.iter().any(|(key, process, at)| {
                let near = (take.from.saturating_sub(within)..take.by).contains(at);
                *key == take.key && *process == u64::from(take.process) && near
            })
        };
        let outcome = if lost {
            Some(Outcome::Lost)
        } else {
            done().then_some(Outcome::Done)
        };
        (take.clone(), outcome)
    });
    ended.collect()
}

/// Lets operators take locks away during all faults of requirement 1. A holder may be cut off from
/// the store when its lock is taken away. Its body may then run while the next holder is inside. So
/// for the oracle, its lease ends at the operator's request.
fn under_faults(ground: &Ground, sheet: &Sheet, operators: &Operators) {
    let crew = ground.crew("operators");
    let seed = ground.random(37).next_u64();
    let beside = |url: &str, over: &AtomicBool| {
        let note = |take: &Take| {
            crew.fault("lock taken away by an operator");
            crew.note(&Note::TakenAway {
                key: take.key.clone(),
                process: take.process,
                from: take.from,
                by: take.by,
            });
        };
        operators.work(url, &mut Random::new(seed), usize::MAX, over, &note);
    };
    let storm = Storm {
        job: r01_exclusion::job,
        beside: &beside,
        // The run ends only after at least one lock was taken away. On a busy machine this takes
        // long, because most holders release their locks before an operator's command reaches the
        // store.
        awaited: Some(b"{\"note\":\"taken_away\""),
        progress: Progress::Sections,
        enough: SECTIONS,
        faults: FAULTS,
        limit: match ground.size {
            Size::Full => PATIENCE,
            Size::Small => ground.time,
        },
    };
    storm.rage(ground, sheet, &crew);
    let report = crew.report();
    sheet.report(&report);
    let faults = report.faults() - storm::from_inside(&report);
    sheet.reached("sections", report.sections, SECTIONS);
    sheet.reached("faults from outside", faults, FAULTS);
    sheet.remark(format!(
        "under faults: {} locks taken away, {} leases lost",
        report.taken_away, report.lost
    ));
    sheet.check(report.taken_away > 0, || {
        "no lock was taken away".to_owned()
    });
    if report.violations.is_empty() {
        crew.remove();
    }
}

/// A lock taken away from a process.
#[derive(Debug, Clone)]
struct Take {
    key: String,
    process: u32,
    /// Time of the operator's request, in nanoseconds.
    from: u64,
    /// Time of the answer to the operator, in nanoseconds.
    by: u64,
}

/// The operators, who run the command `leasehold`, and the counts of their commands.
struct Operators<'a> {
    program: PathBuf,
    sheet: &'a Sheet,
    looks: AtomicU64,
    away: AtomicU64,
}

impl<'a> Operators<'a> {
    fn new(ground: &Ground, sheet: &'a Sheet) -> Self {
        let program = ground.program.with_file_name("leasehold");
        assert!(
            program.exists(),
            "{} is missing; `cargo build -p leasehold-cli` makes it",
            program.display()
        );
        Self {
            program,
            sheet,
            looks: AtomicU64::new(0),
            away: AtomicU64::new(0),
        }
    }

    /// Runs `leasehold watch`. Meanwhile takes locks away from their holders, until `enough` locks
    /// are taken or `over` is true. Returns the taken locks.
    fn work(
        &self,
        url: &str,
        random: &mut Random,
        enough: usize,
        over: &AtomicBool,
        note: &(dyn Fn(&Take) + Sync),
    ) -> Vec<Take> {
        let mut watching = self.watching(url);
        let taken = std::thread::scope(|scope| {
            let operators: Vec<_> = (0..OPERATORS)
                .map(|_| {
                    let mut random = random.fork();
                    let share = enough.div_ceil(OPERATORS);
                    scope.spawn(move || self.take(url, &mut random, share, over, note))
                })
                .collect();
            let taken = operators
                .into_iter()
                .map(|one| one.join().expect("no panic"));
            taken.flatten().collect()
        });
        self.sheet.check(watching.exited().is_none(), || {
            "`leasehold watch` has ended".to_owned()
        });
        watching.kill();
        taken
    }

    /// Starts `leasehold watch`, and returns its process after the first line of output. If the
    /// command ends because the server is down, starts it again.
    fn watching(&self, url: &str) -> Leashed {
        loop {
            let mut watch = self.command(url, &["watch", "--every", "200ms"]);
            let watch = watch.stdout(Stdio::piped()).stderr(Stdio::null());
            let mut watch = watch.spawn().expect("the command starts");
            let shown = watch.stdout.take().expect("it is piped");
            let mut watch = Leashed::new(watch, None);
            let mut shown = BufReader::new(shown);
            let begins = shown.read_line(&mut String::new());
            if begins.is_ok_and(|length| 0 < length) {
                std::thread::spawn(move || std::io::copy(&mut shown, &mut std::io::sink()));
                return watch;
            }
            let mut ended = None;
            wait::until("it has ended", LONG, || {
                ended = watch.exited();
                ended.is_some()
            });
            let code = ended.and_then(|ended| ended.code());
            assert_eq!(code, Some(AWAY), "`leasehold watch` has ended");
        }
    }

    fn command(&self, url: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        let command_line = command.args(["--json", "--url", url]).args(arguments);
        command_line
            .env_remove("LEASEHOLD_NAMESPACE")
            .stdin(Stdio::null());
        command
    }

    fn take(
        &self,
        url: &str,
        random: &mut Random,
        enough: usize,
        over: &AtomicBool,
        note: &(dyn Fn(&Take) + Sync),
    ) -> Vec<Take> {
        let mut taken = Vec::new();
        while !over.load(Ordering::Relaxed) && taken.len() < enough {
            std::thread::sleep(random.duration(PAUSE));
            let listed = self.printed(url, &["ls"], &[DONE]);
            self.looks.fetch_add(1, Ordering::Relaxed);
            let keys: Vec<String> = listed
                .iter()
                .filter_map(|lock| text(&lock["key"]))
                .collect();
            let Some(key) = one_of(&keys, random) else {
                continue;
            };
            let from = now();
            let answers = self.printed(url, &["release", "--yes", key], &[DONE, FREE]);
            let by = now();
            if let Some(process) = answers.first().and_then(holder_of) {
                let key = key.clone();
                taken.push(Take {
                    key,
                    process,
                    from,
                    by,
                });
                taken.last().into_iter().for_each(note);
            }
        }
        taken
    }

    /// Runs `leasehold` with these arguments, and returns its output, one JSON value for each line.
    /// The exit code must be one of `codes`, or `AWAY` while the server is down.
    fn printed(&self, url: &str, arguments: &[&str], codes: &[i32]) -> Vec<Value> {
        let ended = self.command(url, arguments).output();
        let ended = ended.expect("the command starts");
        let code = ended.status.code();
        if code == Some(AWAY) {
            self.away.fetch_add(1, Ordering::Relaxed);
            return Vec::new();
        }
        self.sheet
            .check(code.is_some_and(|code| codes.contains(&code)), || {
                format!("leasehold {arguments:?}: {ended:?}")
            });
        lines(&ended)
    }
}

fn lines(ended: &Output) -> Vec<Value> {
    let printed = String::from_utf8_lossy(&ended.stdout);
    let values = printed.lines().map(serde_json::from_str);
    values.map(|value| value.expect("a line of JSON")).collect()
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn one_of<'a>(keys: &'a [String], random: &mut Random) -> Option<&'a String> {
    if keys.is_empty() {
        return None;
    }
    let count = u64::try_from(keys.len()).unwrap_or(u64::MAX);
    keys.get(usize::try_from(random.below(count)).unwrap_or(0))
}

/// Returns the process that lost its lock to the command `release`, according to the command's
/// answer. Returns `None` if the lock had no holder, or if another operator had already taken the
/// lock away.
fn holder_of(answer: &Value) -> Option<u32> {
    let holder = &answer["was"]["holders"][0];
    let revoked = holder["revoked"].as_bool()?;
    let process = holder["owner"]["pid"].as_u64().filter(|_| !revoked)?;
    u32::try_from(process).ok()
}
