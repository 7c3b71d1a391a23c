//! Tasks that repeatedly take a lock, run a critical section, and release the lock.

use std::future::ready;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::{ERRORS, Report};
use crate::clock;
use crate::contestants::{Fault, Locks};
use crate::plan::Plan;
use crate::record::{self, Record};

/// The records of a task. They are shared, because a task that still waits for the lock at the end
/// cannot return them. Until the end, no other task locks this mutex, so the task never waits for
/// it.
type Log = Arc<Mutex<Vec<Record>>>;

pub(super) async fn run<L: Locks>(locks: Arc<L>, plan: &Plan) -> Result<Report, Fault> {
    let start = super::start().await?;
    let end = start + clock::nanos(plan.warmup() + plan.window());
    let mut logs = Vec::new();
    let mut tasks = JoinSet::new();
    for number in 0..plan.tasks {
        let log = Log::default();
        logs.push(Arc::clone(&log));
        let task = Task {
            locks: Arc::clone(&locks),
            plan: plan.clone(),
            number,
            log,
        };
        tasks.spawn(async move { task.run(end).await });
    }
    let report = settle(tasks, clock::until(end) + plan.patience()).await;
    let records = logs.iter().flat_map(taken);
    record::write(&plan.file, records)?;
    Ok(report)
}

/// Runs `plan.tasks` pairs (an acquire and a release), one after another. Keeps no records.
pub(super) async fn pairs<L: Locks>(locks: &L, plan: &Plan) -> Result<Report, Fault> {
    super::start().await?;
    let key = plan.key(0);
    for _ in 0..plan.tasks {
        locks.inside(&key, ready(())).await?;
    }
    Ok(Report::default())
}

/// Waits until all tasks have ended. A task that fails, or has not ended after `limit`, counts as
/// lost.
async fn settle(mut tasks: JoinSet<Result<(), Fault>>, limit: Duration) -> Report {
    let mut report = Report::default();
    let ended = timeout(limit, async {
        while let Some(task) = tasks.join_next().await {
            let error = match task {
                Ok(Ok(())) => continue,
                Ok(Err(error)) => error.to_string(),
                Err(error) => error.to_string(),
            };
            report.lost += 1;
            report.errors.push(error);
        }
    });
    if ended.await.is_err() {
        let waiting = tasks.len();
        report.lost += waiting as u64;
        report
            .errors
            .push(format!("{waiting} waiters were never served"));
    }
    report.errors.truncate(ERRORS);
    report
}

struct Task<L> {
    locks: Arc<L>,
    plan: Plan,
    number: u32,
    log: Log,
}

impl<L: Locks> Task<L> {
    /// Runs critical sections until `end`, or until taking or releasing the lock fails.
    async fn run(self, end: u64) -> Result<(), Fault> {
        let key = self.plan.key(self.number);
        loop {
            let asked = clock::now();
            if asked >= end {
                return Ok(());
            }
            let (entered, left) = self
                .locks
                .inside(&key, section(self.plan.section()))
                .await?;
            let record = Record {
                task: u64::from(self.number),
                asked,
                entered,
                left,
                released: clock::now(),
            };
            self.log
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(record);
            if !self.plan.think().is_zero() {
                sleep(self.plan.think()).await;
            }
        }
    }
}

/// Runs the body of a critical section. Returns the times at which it began and ended.
async fn section(length: Duration) -> (u64, u64) {
    let entered = clock::now();
    if !length.is_zero() {
        // A blocking thread sleeps, because tokio's timer counts in whole milliseconds. It would
        // sleep 2 ms instead of 1 ms.
        let slept = tokio::task::spawn_blocking(move || std::thread::sleep(length));
        // No error: the blocking task cannot panic, and is not cancelled while the runtime runs.
        let _ = slept.await;
    }
    (entered, clock::now())
}

fn taken(log: &Log) -> Vec<Record> {
    std::mem::take(&mut log.lock().unwrap_or_else(PoisonError::into_inner))
}
