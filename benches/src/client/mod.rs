//! A client process: one contestant at work, as the harness tells it.
//!
//! Every language's client speaks the same: it connects, prints `ready`, reads `go START` (a stamp of
//! `CLOCK_MONOTONIC`), works from START to the end of warm-up and window, writes its records to the file and
//! prints one JSON object, `{"lost": N, "errors": [...], "bytes": N or null}`.

mod keep;
mod sections;
mod weigh;

use std::io::{self, Write as _};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::clock;
use crate::contestants::baton::Baton;
use crate::contestants::distributed_lock::DistributedLock;
use crate::contestants::hand_written::HandWritten;
use crate::contestants::leasehold::Leasehold;
use crate::contestants::polling::Polling;
use crate::contestants::rslock::Rslock;
use crate::contestants::seeded::{SeededLoss, SeededOverlap};
use crate::contestants::{Contestant, Fault, Keeps, Locks};
use crate::plan::{Plan, Work};

/// What a client says at its end.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Report {
    /// Waiters that were never served.
    pub(crate) lost: u64,
    /// CPU time in the window that was spent on looking at what is measured.
    #[serde(default)]
    pub(crate) looking_ns: u64,
    /// What went wrong, a few of them.
    #[serde(default)]
    pub(crate) errors: Vec<String>,
    /// The memory that each lease or waiter needs.
    #[serde(default)]
    pub(crate) bytes: Option<f64>,
}

/// Runs `contestant`, which is one of the Rust ones.
pub(crate) fn main(contestant: Contestant, plan: &Plan) -> Result<(), Fault> {
    let runtime = tokio::runtime::Runtime::new()?;
    let report = runtime.block_on(work(contestant, plan))?;
    println!("{}", serde_json::to_string(&report)?);
    io::stdout().flush()?;
    // Whoever still waits is not waited for.
    runtime.shutdown_background();
    Ok(())
}

async fn work(contestant: Contestant, plan: &Plan) -> Result<Report, Fault> {
    match contestant {
        Contestant::Leasehold | Contestant::LeaseholdSingle => {
            keep_or_lock(Leasehold::connect(contestant, plan).await?, plan).await
        }
        Contestant::HandWritten => keep_or_lock(HandWritten::connect(plan).await?, plan).await,
        Contestant::Poll50ms => lock(Polling::connect(plan).await?, plan).await,
        Contestant::Baton => lock(Baton::connect(plan).await?, plan).await,
        Contestant::Rslock => lock(Rslock::new(plan), plan).await,
        Contestant::DistributedLock => lock(DistributedLock::connect(plan).await?, plan).await,
        Contestant::SeededOverlap => lock(SeededOverlap, plan).await,
        Contestant::SeededLoss => lock(SeededLoss::default(), plan).await,
        _ => Err(format!("{contestant} has a program of its own").into()),
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
        Work::WeighWaiting => weigh::waiting(Arc::new(locks), plan).await,
        Work::Keep | Work::KeepBurst | Work::WeighHeld => {
            Err("this contestant does not renew here".into())
        }
    }
}

/// Tells the harness that all is prepared, and waits for the moment that it names.
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
