//! The command of the fault harness. `scripts/chaos` builds and starts it.

use std::alloc::System;
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use cap::Cap;
use clap::{Args, Parser, Subcommand, ValueEnum};
use leasehold_tests::chaos::ground::{Ground, Requirement, Size};
use leasehold_tests::chaos::store::{DEPLOYMENTS, Store};
use leasehold_tests::chaos::table::{self, Row};
use leasehold_tests::chaos::{ONLY_BY_NAME, REQUIREMENTS, seeded, worker};
use leasehold_tests::oracle;

/// Counts the allocated bytes, so that the soak (requirement 25) can detect growing memory.
#[global_allocator]
static HEAP: Cap<System> = Cap::new(System, usize::MAX);

/// Injects faults into real servers and processes. An oracle checks the notes that the processes
/// write. Runs all requirements of docs/reliability/results.md at full size. Exit code 1: a promise
/// was broken.
#[derive(Parser)]
#[command(name = "chaos", args_conflicts_with_subcommands = true)]
struct Command {
    #[command(subcommand)]
    other: Option<Other>,
    #[command(flatten)]
    full: Full,
}

#[derive(Subcommand)]
enum Other {
    /// Checks the recorded history of an earlier run again.
    Check {
        /// The path of a `history.jsonl`.
        file: PathBuf,
    },
    /// Runs the scenario of each seeded bug (a bug that tests switch on), with the bug and without.
    Bugs,
    /// Runs the job of one worker process; only the harness itself uses this command.
    #[command(hide = true)]
    Worker {
        /// The job, as JSON.
        job: String,
    },
}

#[derive(Args)]
struct Full {
    /// Approximate duration of the whole run, in minutes. The exclusion run (requirement 1) comes
    /// last and gets the remaining time, or up to twenty minutes if it needs them to reach
    /// `--sections`.
    #[arg(long, default_value_t = 15.0)]
    minutes: f64,
    /// Number of sections (bodies that run under a lock) that the exclusion run must reach.
    #[arg(long, default_value_t = 1_000_000)]
    sections: u64,
    /// Repeats the schedule of an earlier run.
    #[arg(long)]
    seed: Option<u64>,
    /// Runs only these requirements, such as `1,5,6`. Requirement 28 runs only if it is named here.
    #[arg(long, value_delimiter = ',')]
    requirement: Vec<u8>,
    /// Runs only on this store. For other deployments, see `--deployment`.
    #[arg(long)]
    store: Option<Only>,
    /// Runs only the requirements of another deployment: `postgres`, or a deployment of several
    /// servers (`sentinel`, `redlock`, `replicas`, `cluster`, `etcd`, `zookeeper`).
    #[arg(long, value_parser = deployment, conflicts_with = "store")]
    deployment: Option<Store>,
    /// Number of requirements that run at the same time. More than one, because most requirements
    /// wait most of the time.
    #[arg(long, default_value_t = 3)]
    lanes: u32,
    /// Runs each requirement at the small size that the test suite uses.
    #[arg(long)]
    small: bool,
    /// Folder for histories.
    #[arg(long, default_value = "target/chaos")]
    folder: PathBuf,
}

#[derive(Clone, Copy, ValueEnum)]
enum Only {
    Redis,
    Memory,
}

impl Only {
    fn is(self, store: Store) -> bool {
        matches!(
            (self, store),
            (Self::Redis, Store::Redis) | (Self::Memory, Store::Memory)
        )
    }
}

fn deployment(name: &str) -> Result<Store, String> {
    let found = DEPLOYMENTS.into_iter().find(|store| store.name() == name);
    found.ok_or_else(|| format!("write one of {}", DEPLOYMENTS.map(Store::name).join(", ")))
}

fn main() -> ExitCode {
    let command = Command::parse();
    let well = match command.other {
        None => full(&command.full),
        Some(Other::Check { file }) => check(&file),
        Some(Other::Bugs) => bugs(&command.full),
        Some(Other::Worker { job }) => {
            worker::main(&job, || HEAP.allocated());
            true
        }
    };
    if well {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn check(file: &std::path::Path) -> bool {
    match oracle::check_file(file) {
        Ok(report) => {
            print!("{report}");
            report.violations.is_empty()
        }
        Err(error) => {
            eprintln!("{}: {error}", file.display());
            false
        }
    }
}

/// Number of scenarios that run at the same time. More than one, because a scenario waits most of
/// the time.
const PLAYED_AT_ONCE: usize = 4;

fn bugs(options: &Full) -> bool {
    if !cfg!(debug_assertions) {
        eprintln!("this build has no seeded bugs in it; run `scripts/chaos bugs`");
        return false;
    }
    let next = AtomicUsize::new(0);
    let rows = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..PLAYED_AT_ONCE {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(case) = seeded::CASES.get(number) else {
                        return;
                    };
                    let row = bug(case, &options.folder);
                    rows.lock().expect("no panic").insert(number, row);
                }
            });
        }
    });
    println!("| bug | caught as | scenario |\n|---|---|---|");
    let mut well = true;
    for (caught, row) in rows.into_inner().expect("no panic").into_values() {
        well &= caught;
        println!("{row}");
    }
    println!("\n| bug | caught by the test | which |\n|---|---|---|");
    for elsewhere in seeded::ELSEWHERE {
        println!("{}", elsewhere.row());
    }
    well
}

/// Runs the scenario of a seeded bug twice, with and without the bug. Returns `true` if the oracle
/// finds the expected violation with the bug, and none without the bug. Also returns the bug's row
/// in the printed table.
fn bug(case: &seeded::Case, folder: &Path) -> (bool, String) {
    let program = program();
    let bad = case.play(&program, folder, true);
    let good = case.play(&program, folder, false);
    let caught = bad.count(case.kind) > 0 && good.violations.is_empty();
    let row = if caught {
        case.row()
    } else {
        format!("| `{}` | NOT CAUGHT | {} |", case.bug, case.what)
    };
    (caught, row)
}

/// The requirements of a run, in three groups. `beside` has the soak (requirement 25), which runs
/// in parallel with all others. `first` has most requirements, a few of which run at a time. `last`
/// has the exclusion run (requirement 1), which begins after the requirements in `first`.
struct Plan {
    beside: Vec<Part>,
    first: Mutex<VecDeque<Part>>,
    last: Vec<Part>,
}

type Part = (Requirement, Store);

impl Plan {
    fn new(options: &Full) -> Self {
        let mut plan = Self {
            beside: Vec::new(),
            first: Mutex::default(),
            last: Vec::new(),
        };
        let numbers = &options.requirement;
        for requirement in REQUIREMENTS {
            let stores = match options.deployment {
                Some(deployment) => vec![deployment],
                None => vec![Store::Redis, Store::Memory],
            };
            let stores = stores.into_iter().filter(|store| {
                let only = options.store.is_none_or(|only| only.is(*store));
                only && requirement.stores.contains(store)
            });
            let named = numbers.contains(&requirement.number);
            let unnamed = numbers.is_empty() && !ONLY_BY_NAME.contains(&requirement.number);
            if !named && !unnamed {
                continue;
            }
            for part in stores.map(|store| (requirement, store)) {
                match requirement.number {
                    25 => plan.beside.push(part),
                    1 => plan.last.push(part),
                    _ => plan
                        .first
                        .lock()
                        .expect("no panic in a thread")
                        .push_back(part),
                }
            }
        }
        plan
    }

    /// Returns the first requested requirement that this plan does not contain, if any.
    fn unplanned<'a>(&self, asked: &'a [u8]) -> Option<&'a u8> {
        let first = self.first.lock().expect("no panic in a thread");
        let mut planned = self.beside.iter().chain(first.iter()).chain(&self.last);
        let planned: Vec<_> = planned.by_ref().map(|(plan, _)| plan.number).collect();
        asked.iter().find(|number| !planned.contains(number))
    }

    fn next(&self) -> Option<Part> {
        self.first
            .lock()
            .expect("no panic under this lock")
            .pop_front()
    }

    /// Runs all groups. Of the group `first`, `lanes` requirements run at a time. `time` is the
    /// length of the whole run, and `rest` returns the remaining time.
    fn play(
        &self,
        lanes: u32,
        time: Duration,
        rest: impl Fn() -> Duration,
        ground: impl Fn(Store, Duration) -> Ground + Sync,
    ) -> Vec<Row> {
        let mut rows = Vec::new();
        std::thread::scope(|scope| {
            let beside = self.beside.iter();
            let beside: Vec<_> = beside
                .map(|(requirement, store)| {
                    let ground = ground(*store, time);
                    scope.spawn(move || play(*requirement, &ground))
                })
                .collect();
            let lanes: Vec<_> = (0..lanes.max(1))
                .map(|_| {
                    scope.spawn(|| {
                        let parts = std::iter::from_fn(|| self.next());
                        let rows = parts
                            .map(|(requirement, store)| play(requirement, &ground(store, time)));
                        rows.collect::<Vec<_>>()
                    })
                })
                .collect();
            for lane in lanes {
                rows.extend(lane.join().expect("no panic"));
            }
            for (number, (requirement, store)) in (1..).zip(&self.last) {
                // If the exclusion run has two stores, the first one (Redis) gets three quarters of
                // the remaining time. Redis needs more time than memory for the same number of
                // sections.
                let rest = rest();
                let share = if number < self.last.len() {
                    rest * 3 / 4
                } else {
                    rest
                };
                rows.push(play(
                    *requirement,
                    &ground(*store, share.max(Duration::from_secs(60))),
                ));
            }
            rows.extend(
                beside
                    .into_iter()
                    .map(|part| part.join().expect("no panic")),
            );
        });
        rows
    }
}

fn full(options: &Full) -> bool {
    let seed = options.seed.unwrap_or_else(random_seed);
    println!("chaos: seed {seed}");
    let started = Instant::now();
    let time = Duration::from_secs_f64(options.minutes * 60.0);
    let plan = Plan::new(options);
    if let Some(number) = plan.unplanned(&options.requirement) {
        eprintln!(
            "requirement {number} does not run here: there is none of this number, or it needs another \
             --store or --deployment; docs/reliability/results.md lists them"
        );
        return false;
    }
    let ground = |store, time| Ground {
        program: program(),
        folder: options.folder.clone(),
        seed,
        store,
        size: if options.small {
            Size::Small
        } else {
            Size::Full
        },
        time,
        sections: options.sections,
    };
    let rest = || time.saturating_sub(started.elapsed());
    let mut rows = plan.play(options.lanes, time, rest, ground);
    rows.sort_by_key(|row| row.requirement.number);
    let took = started.elapsed().as_secs_f64() / 60.0;
    println!(
        "\nseed {seed}, {took:.1} minutes\n\n{}",
        table::render(&rows)
    );
    rows.iter().all(|row| row.outcome.passed())
}

fn play(requirement: Requirement, ground: &Ground) -> Row {
    let started = Instant::now();
    let outcome = requirement.outcome(ground);
    let row = Row {
        requirement,
        store: ground.store,
        took: started.elapsed(),
        outcome,
    };
    println!(
        "{} {:2} {:?} {:.0?} {}: {}",
        row.outcome.result(),
        requirement.number,
        ground.store,
        row.took,
        requirement.what,
        row.outcome.numbers()
    );
    row
}

fn program() -> PathBuf {
    std::env::current_exe().expect("this program has a path")
}

fn random_seed() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(1, |since| since.as_secs() % 1_000_000)
}
