//! A client process, which the harness starts and which runs one contestant.
//!
//! Clients of every language use the same protocol. The client connects, prints `ready`, and reads
//! `go START`, where START is a stamp of `CLOCK_MONOTONIC`. The client works from START until the
//! warm-up and the window are over. Then it writes its records to the file that its arguments name,
//! and prints one JSON object, `{"lost": N, "errors": [...], "bytes": N or null}`. Clients in Rust
//! may add fields. Some clients, such as that of an open loop, write no records: their results are
//! in the JSON object.

mod alarm;
mod arrivals;
mod bystander;
mod keep;
mod open;
mod sections;
mod weigh;

use std::io::{self, Write as _};
use std::sync::Arc;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use tokio::runtime::Builder;

use self::open::OpenLoop;
use crate::contestants::advisory::Advisory;
use crate::contestants::distributed_lock::DistributedLock;
use crate::contestants::hand_written::HandWritten;
use crate::contestants::leasehold::Leasehold;
use crate::contestants::polling::Polling;
#[cfg(feature = "replay")]
use crate::contestants::replayed::Replayed;
use crate::contestants::ring::Ring;
use crate::contestants::rslock::Rslock;
use crate::contestants::seeded::{Nothing, SeededLoss, SeededOverlap, SeededSpin, SeededStall};
use crate::contestants::upsert::Upsert;
use crate::contestants::verified::Verified;
use crate::contestants::{Contestant, Fault, Keeps, Locks};
use crate::plan::{Plan, Work};
use crate::setup::Runtime;
use crate::{clock, observed};

/// Maximum number of errors that a client reports.
const ERRORS: usize = 5;

/// Report of a client at its end.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Report {
    /// Number of lost leases or, if the client keeps no leases, of waiters that failed or never got
    /// the lock.
    pub(crate) lost: u64,
    /// CPU time in the window that the client spent on observing its leases.
    #[serde(default)]
    pub(crate) looking_ns: u64,
    /// Errors, at most [`ERRORS`] texts.
    #[serde(default)]
    pub(crate) errors: Vec<String>,
    /// The memory in bytes that each lease, waiter or result needs.
    #[serde(default)]
    pub(crate) bytes: Option<f64>,
    #[serde(default)]
    pub(crate) open_loop: Option<OpenLoop>,
}

/// Runs `contestant`, which must be a contestant in Rust.
pub(crate) fn main(contestant: Contestant, plan: &Plan) -> Result<(), Fault> {
    let runtime = runtime(plan.runtime)?;
    let report = runtime.block_on(work(contestant, plan))?;
    println!("{}", serde_json::to_string(&report)?);
    io::stdout().flush()?;
    // This call does not wait for tasks that still wait for a lock.
    runtime.shutdown_background();
    Ok(())
}

fn runtime(kind: Option<Runtime>) -> io::Result<tokio::runtime::Runtime> {
    match kind {
        None => tokio::runtime::Runtime::new(),
        Some(Runtime::MultiThread) => Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build(),
        Some(Runtime::CurrentThread) => Builder::new_current_thread().enable_all().build(),
    }
}

async fn work(contestant: Contestant, plan: &Plan) -> Result<Report, Fault> {
    match contestant {
        Contestant::Leasehold | Contestant::LeaseholdSingle | Contestant::LeaseholdOnRedis => {
            keep_or_lock(Leasehold::connect(contestant, plan).await?, plan).await
        }
        Contestant::LeaseholdObserved => {
            observed::install()?;
            keep_or_lock(Leasehold::connect(contestant, plan).await?, plan).await
        }
        #[cfg(feature = "replay")]
        Contestant::LeaseholdReplayed => lock(Replayed::connect(plan).await?, plan).await,
        Contestant::HandWritten => keep_or_lock(HandWritten::connect(plan).await?, plan).await,
        Contestant::LeaseholdVerified => lock(Verified::connect(plan).await?, plan).await,
        Contestant::Upsert => lock(Upsert::connect(plan).await?, plan).await,
        Contestant::Advisory => lock(Advisory::connect(plan).await?, plan).await,
        Contestant::Poll50ms => lock(Polling::connect(plan).await?, plan).await,
        Contestant::Ring => lock(Ring::connect(plan).await?, plan).await,
        Contestant::Rslock => lock(Rslock::new(plan), plan).await,
        Contestant::DistributedLock => lock(DistributedLock::connect(plan).await?, plan).await,
        Contestant::SeededOverlap => lock(SeededOverlap, plan).await,
        Contestant::SeededLoss => lock(SeededLoss::default(), plan).await,
        Contestant::Nothing => lock(Nothing, plan).await,
        Contestant::SeededStall => lock(SeededStall::default(), plan).await,
        Contestant::SeededSpin => lock(SeededSpin, plan).await,
        _ => Err(format!("{contestant} is not in this program").into()),
    }
}

async fn keep_or_lock<L: Locks + Keeps>(locks: L, plan: &Plan) -> Result<Report, Fault> {
    match plan.work {
        Work::Keep | Work::KeepBurst => keep::run(locks, plan).await,
        Work::WeighHeld => weigh::held(locks, plan).await,
        _ => lock(locks, plan).await,
    }
}

async fn lock<L: Locks>(locks: L, plan: &Plan) -> Result<Report, Fault> {
    match plan.work {
        Work::Hot | Work::Distinct => sections::run(Arc::new(locks), plan).await,
        Work::Open => open::run(Arc::new(locks), plan).await,
        Work::Pairs => sections::pairs(&locks, plan).await,
        Work::WeighWaiting => weigh::waiting(Arc::new(locks), plan).await,
        Work::WeighResults => weigh::results(Arc::new(locks), plan).await,
        Work::Keep | Work::KeepBurst | Work::WeighHeld => {
            Err("this contestant does not renew here".into())
        }
    }
}

/// Returns a histogram of times up to ten minutes, in nanoseconds, with three significant digits.
fn histogram() -> Result<Histogram<u64>, Fault> {
    const LONGEST: Duration = Duration::from_mins(10);
    Ok(Histogram::new_with_bounds(1, clock::nanos(LONGEST), 3)?)
}

/// Notifies the harness that the client is ready. Reads the start time that the harness sends,
/// sleeps until then, and returns it.
async fn start() -> Result<u64, Fault> {
    println!("ready");
    io::stdout().flush()?;
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    let start = line
        .trim()
        .strip_prefix("go ")
        .ok_or("the harness is gone")?;
    let start = start.parse()?;
    tokio::time::sleep(clock::until(start)).await;
    Ok(start)
}
