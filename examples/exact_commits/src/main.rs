//! Clerks add to accounts at the same time, under leases that often end too early. With
//! `leasehold.verify` in their transactions, no addition is lost.
//!
//! ```sh
//! cargo run -p leasehold-exact-commits -- --store postgres://user:password@127.0.0.1/database
//! ```
//!
//! The program drops the table `leasehold_example_accounts` and creates it again. It also creates
//! the tables of the locks if they are missing. Exit code 1 means that an addition was lost, as
//! happens with `--without-verify`.

mod account;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use diesel_async::{AsyncConnection as _, AsyncPgConnection};
use leasehold::LockPool;
use tokio::task::JoinSet;

use account::AddError;

const ACCOUNTS: i64 = 2;

/// Adds to accounts under short leases, and counts the lost additions.
#[derive(Debug, Clone, Parser)]
#[command(name = "exact_commits")]
struct Args {
    /// PostgreSQL database for the locks and the table `leasehold_example_accounts`, which is
    /// created again: `postgres://user:password@host/database`
    #[arg(long, value_name = "URL")]
    store: String,

    /// Duration of the run, in seconds
    #[arg(long, default_value_t = 5)]
    seconds: u64,

    /// Number of clerks, each with its own lock pool and connection
    #[arg(long, default_value_t = 6)]
    clerks: u64,

    /// Leaves `leasehold.verify` out, to show its effect
    #[arg(long)]
    without_verify: bool,
}

#[derive(Debug, Default)]
struct Counts {
    committed: i64,
    /// Committed additions whose lease had already ended.
    late: i64,
    /// Additions rolled back because the lease was over.
    refused: i64,
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> ExitCode {
    match run(Args::parse()).await {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("exact_commits: {error}");
            ExitCode::from(2)
        }
    }
}

/// Runs the clerks, and returns the number of lost additions.
async fn run(args: Args) -> Result<i64, Failure> {
    let mark = if args.store.contains('?') { '&' } else { '?' };
    let locks = format!("{}{mark}migrate=1", args.store);
    let mut db = AsyncPgConnection::establish(&args.store).await?;
    account::open_accounts(&mut db, ACCOUNTS).await?;
    let until = Instant::now() + Duration::from_secs(args.seconds);
    let mut clerks = JoinSet::new();
    for number in 0..args.clerks {
        let pool = LockPool::connect(&locks).await?;
        let db = AsyncPgConnection::establish(&args.store).await?;
        clerks.spawn(work(pool, db, number, until, !args.without_verify));
    }
    let mut all = Counts::default();
    while let Some(clerk) = clerks.join_next().await {
        let counts = clerk??;
        all.committed += counts.committed;
        all.late += counts.late;
        all.refused += counts.refused;
    }
    let lost = all.committed - account::total(&mut db).await?;
    println!(
        "{} additions committed, {} of them after their lease; {} refused; {lost} lost",
        all.committed, all.late, all.refused
    );
    Ok(lost)
}

async fn work(
    pool: LockPool,
    mut db: AsyncPgConnection,
    number: u64,
    until: Instant,
    verifies: bool,
) -> Result<Counts, Failure> {
    let mut counts = Counts::default();
    let mut round = number;
    while Instant::now() < until {
        round += 1;
        // The pause of this round, from zero to twice the ttl, before or inside the transaction.
        let takes = Duration::from_millis(round * 37 % 200);
        let takes = match round % 3 {
            0 => [takes, Duration::ZERO],
            _ => [Duration::ZERO, takes],
        };
        let account = i64::try_from(round)? % ACCOUNTS;
        match account::add(&pool, &mut db, account, takes, verifies).await {
            Ok(late) => {
                counts.committed += 1;
                counts.late += i64::from(late);
            }
            Err(AddError::LeaseOver) => counts.refused += 1,
            // The body did not begin, because other clerks had the lock all the time, or the
            // machine was too slow. A slow machine fails to acquire the lock, or loses it before
            // the body begins.
            Err(AddError::Lock(error))
                if error.is_contention() || error.is_lost() || error.is_unavailable() => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(counts)
}
