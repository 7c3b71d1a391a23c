//! The full run of the fault harness, for people: `scripts/chaos --help`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::{Args, Parser, Subcommand, ValueEnum};
use leasehold_tests::chaos::ground::{Ground, Requirement, Size, Store};
use leasehold_tests::chaos::table::{self, Row};
use leasehold_tests::chaos::{REQUIREMENTS, seeded, worker};
use leasehold_tests::oracle;

/// Faults against real servers and processes, with an oracle that watches: every requirement of
/// docs/reliability.md with its full number. Exit code 1: a promise was broken.
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
    /// Checks the history of an earlier run again.
    Check {
        /// A `history.jsonl`.
        file: PathBuf,
    },
    /// Plays the scenario of each seeded bug, with the bug and without.
    Bugs,
    /// Runs a job; for the harness itself.
    #[command(hide = true)]
    Worker {
        /// The job, as JSON.
        job: String,
    },
}

#[derive(Args)]
struct Full {
    /// How long the whole run may take, about; the exclusion run gets what the others leave, at least a minute.
    #[arg(long, default_value_t = 15.0)]
    minutes: f64,
    /// How many sections the exclusion run wants; it ends with them or with the time.
    #[arg(long, default_value_t = 1_000_000)]
    sections: u64,
    /// Repeats the schedule of an earlier run.
    #[arg(long)]
    seed: Option<u64>,
    /// Only these requirements; can be given several times.
    #[arg(long)]
    requirement: Vec<u8>,
    /// Only this store.
    #[arg(long)]
    store: Option<Only>,
    /// The small numbers of the test suite.
    #[arg(long)]
    small: bool,
    /// Where histories are kept.
    #[arg(long, default_value = "target/chaos")]
    folder: PathBuf,
}

#[derive(Clone, Copy, ValueEnum)]
enum Only {
    Redis,
    Memory,
}

fn main() -> ExitCode {
    let command = Command::parse();
    let well = match command.other {
        None => full(&command.full),
        Some(Other::Check { file }) => check(&file),
        Some(Other::Bugs) => bugs(&command.full),
        Some(Other::Worker { job }) => {
            worker::main(&job);
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

fn bugs(options: &Full) -> bool {
    let program = program();
    let mut well = true;
    println!("| bug | caught as | scenario |\n|---|---|---|");
    for case in seeded::CASES {
        let bad = case.play(&program, &options.folder, true);
        let good = case.play(&program, &options.folder, false);
        let caught = bad.count(case.kind) > 0 && good.violations.is_empty();
        well &= caught;
        let kind = if caught {
            case.kind.to_string()
        } else {
            "NOT CAUGHT".to_owned()
        };
        println!("| `{}` | {kind} | {} |", case.bug, case.what);
    }
    well
}

fn full(options: &Full) -> bool {
    let seed = options.seed.unwrap_or_else(random_seed);
    println!("chaos: seed {seed}");
    let started = Instant::now();
    let time = Duration::from_secs_f64(options.minutes * 60.0);
    let mut rows = Vec::new();
    let stores = match options.store {
        Some(Only::Redis) => vec![Store::Redis],
        Some(Only::Memory) => vec![Store::Memory],
        None => vec![Store::Redis, Store::Memory],
    };
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
    let wanted = |requirement: &Requirement, store| {
        let numbers = &options.requirement;
        requirement.stores.contains(&store)
            && (numbers.is_empty() || numbers.contains(&requirement.number))
    };
    std::thread::scope(|scope| {
        // The soak goes on beside everything else.
        let (soak, others): (Vec<_>, Vec<_>) = REQUIREMENTS
            .into_iter()
            .partition(|requirement| requirement.number == 25);
        let soaks: Vec<_> = stores
            .iter()
            .flat_map(|store| soak.iter().map(|requirement| (*requirement, *store)))
            .filter(|(requirement, store)| wanted(requirement, *store))
            .map(|(requirement, store)| {
                let ground = ground(store, time);
                scope.spawn(move || play(requirement, &ground))
            })
            .collect();
        // The exclusion runs come last and share the rest of the time.
        let (last, first): (Vec<_>, Vec<_>) = others
            .into_iter()
            .partition(|requirement| requirement.number == 1);
        for requirement in first {
            for store in stores.iter().filter(|store| wanted(&requirement, **store)) {
                rows.push(play(requirement, &ground(*store, time)));
            }
        }
        let mut parts = u32::try_from(stores.len()).unwrap_or(1);
        for requirement in last {
            for store in stores.iter().filter(|store| wanted(&requirement, **store)) {
                let rest = time.saturating_sub(started.elapsed()) / parts;
                parts -= 1;
                rows.push(play(
                    requirement,
                    &ground(*store, rest.max(Duration::from_secs(60))),
                ));
            }
        }
        rows.extend(soaks.into_iter().map(|soak| soak.join().expect("no panic")));
    });
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
    let result = if row.outcome.passed() { "pass" } else { "FAIL" };
    println!(
        "{result} {:2} {:?} {:.0?} {}: {}",
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
