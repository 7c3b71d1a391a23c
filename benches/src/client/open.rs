//! The open loop: starts each pair (acquire and release of one lock) when it is due, even if the
//! answers to earlier pairs are late.
//!
//! A pair's time counts from the time at which the pair was due. So if the server or the runtime
//! stalls, all pairs that are due during the stall are late.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::alarm::Alarm;
use super::arrivals::Arrivals;
use super::{ERRORS, Report, bystander, histogram};
use crate::clock;
use crate::contestants::{Fault, Locks};
use crate::plan::Plan;

/// Measured values of an open loop, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct OpenLoop {
    pub(crate) least_ns: u64,
    pub(crate) p50_ns: u64,
    pub(crate) p99_ns: u64,
    /// Pairs that ended in the window.
    pub(crate) ended: u64,
    /// CPU time of the process for each pair. It is measured from the first pair that ended in the
    /// window to the first pair that ended after the window.
    pub(crate) cpu_ns: Option<u64>,
    /// The 99th percentile of the lateness of the bystander, a task that shares the runtime.
    pub(crate) bystander_p99_ns: u64,
}

pub(super) async fn run<L: Locks>(locks: Arc<L>, plan: &Plan) -> Result<Report, Fault> {
    let start = super::start().await?;
    let (under_way, mut none_under_way) = mpsc::channel(1);
    let load = Load::new(locks, plan, start)?;
    let to = load.to;
    // The bystander runs after the window, under the same load. During the window, its CPU time
    // would count as a cost of the pairs.
    let end = to + clock::nanos(plan.window() / 3);
    let watching = tokio::spawn(bystander::lateness(to, end));
    let arriving = tokio::spawn(arrive(
        Arc::clone(&load),
        plan.clone(),
        start,
        end,
        under_way,
    ));
    let arrived = arriving.await??;
    let late = watching.await??;
    // Nothing is ever sent on this channel. `recv` returns when the last pair has dropped its
    // sender.
    let _ = timeout(plan.patience(), none_under_way.recv()).await;
    Ok(load.tally().report(arrived, &late))
}

/// State shared by all pairs.
struct Load<L> {
    locks: Arc<L>,
    /// Beginning and end of the measured window, in nanoseconds of `CLOCK_MONOTONIC`.
    from: u64,
    to: u64,
    tally: Mutex<Tally>,
}

impl<L: Locks> Load<L> {
    fn new(locks: Arc<L>, plan: &Plan, start: u64) -> Result<Arc<Self>, Fault> {
        let from = start + clock::nanos(plan.warmup());
        Ok(Arc::new(Self {
            locks,
            from,
            to: from + clock::nanos(plan.window()),
            tally: Mutex::new(Tally::new()?),
        }))
    }

    /// Runs one pair, which was due at `due`.
    async fn pair(&self, key: &str, due: u64) {
        let outcome = self.locks.inside(key, std::future::ready(())).await;
        let ended = clock::now();
        let mut tally = self.tally();
        match outcome {
            Ok(()) => {
                self.count(&mut tally, ended);
                if self.in_window(due) {
                    tally.spans.saturating_record(ended - due);
                }
            }
            Err(error) => tally.errors.push(error.to_string()),
        }
    }

    /// Counts a successful pair. Reads the CPU time if this pair is the first to end in the window,
    /// or the first to end after it.
    fn count(&self, tally: &mut Tally, ended: u64) {
        tally.served += 1;
        tally.ended += u64::from(self.in_window(ended));
        if ended >= self.from && tally.before.is_none() {
            tally.before = Some(Usage::now(tally.served));
        }
        if ended >= self.to && tally.after.is_none() {
            tally.after = Some(Usage::now(tally.served));
        }
    }

    fn in_window(&self, stamp: u64) -> bool {
        (self.from..self.to).contains(&stamp)
    }

    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Tally {
    /// Times of the pairs due in the window, from the time when each was due to its confirmed
    /// release.
    spans: Histogram<u64>,
    /// Number of successful pairs: in total, and those that ended in the window.
    served: u64,
    ended: u64,
    /// Usage of the process at two times: when the first pair ended in the window, and when the
    /// first pair ended after the window.
    before: Option<Usage>,
    after: Option<Usage>,
    errors: Vec<String>,
}

impl Tally {
    fn new() -> Result<Self, Fault> {
        Ok(Self {
            spans: histogram()?,
            served: 0,
            ended: 0,
            before: None,
            after: None,
            errors: Vec::new(),
        })
    }

    fn report(&self, arrived: u64, late: &Histogram<u64>) -> Report {
        let mut errors = self.errors.clone();
        let lost = arrived - self.served;
        let unserved = lost.saturating_sub(errors.len() as u64);
        if unserved > 0 {
            errors.push(format!("{unserved} waiters were never served"));
        }
        errors.truncate(ERRORS);
        Report {
            lost,
            errors,
            open_loop: Some(OpenLoop {
                least_ns: self.spans.min(),
                p50_ns: self.spans.value_at_quantile(0.5),
                p99_ns: self.spans.value_at_quantile(0.99),
                ended: self.ended,
                cpu_ns: self.cpu_of_a_pair(),
                bystander_p99_ns: late.value_at_quantile(0.99),
            }),
            ..Report::default()
        }
    }

    fn cpu_of_a_pair(&self) -> Option<u64> {
        let (before, after) = (self.before?, self.after?);
        (after.cpu - before.cpu).checked_div(after.served - before.served)
    }
}

/// CPU time that the process had used at one point in time, and the number of successful pairs
/// until then.
#[derive(Clone, Copy)]
struct Usage {
    cpu: u64,
    served: u64,
}

impl Usage {
    fn now(served: u64) -> Self {
        Self {
            cpu: clock::of_process(),
            served,
        }
    }
}

/// Starts each pair when it is due. Each pair has a separate key. Returns the number of started
/// pairs.
async fn arrive<L: Locks>(
    load: Arc<Load<L>>,
    plan: Plan,
    start: u64,
    end: u64,
    under_way: mpsc::Sender<()>,
) -> Result<u64, Fault> {
    let alarm = Alarm::new()?;
    let mut arrived = 0;
    let arrivals = Arrivals::new(start, plan.tasks, plan.seed);
    for (number, due) in (0..).zip(arrivals.take_while(|due| *due < end)) {
        alarm.until(due).await?;
        arrived += 1;
        let (load, key, under_way) = (Arc::clone(&load), plan.key(number), under_way.clone());
        tokio::spawn(async move {
            load.pair(&key, due).await;
            drop(under_way);
        });
    }
    Ok(arrived)
}
