//! Leases that a client keeps renewed, and the lateness of each renewal.

use std::sync::Arc;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::Report;
use crate::clock;
use crate::contestants::{Fault, Keeps, Kept};
use crate::plan::{Plan, Work};
use crate::record::{self, Record};

/// Number of steps in which a client takes its leases, except with the work `KeepBurst`. The steps
/// are spread over the time between two renewals, so that the renewals are spread as well. At a ttl
/// of 10 s, a step ("tick") takes about 10 ms.
const TICKS: u32 = 330;

pub(super) async fn run<K: Keeps>(keeper: K, plan: &Plan) -> Result<Report, Fault> {
    // The leases are taken before the client reports `ready`, so that the time to take them is not
    // measured.
    let leases = take(Arc::new(keeper), plan).await?;
    let start = super::start().await?;
    let from = start + clock::nanos(plan.warmup());
    let watched = watch(&leases, plan, from).await;
    record::write(&plan.file, watched.records)?;
    Ok(Report {
        lost: watched.lost,
        looking_ns: watched.looking_ns,
        ..Report::default()
    })
}

/// Takes all leases: at once with the work `KeepBurst`, otherwise spread over the time between two
/// renewals.
async fn take<K: Keeps>(keeper: Arc<K>, plan: &Plan) -> Result<Vec<K::Lease>, Fault> {
    let ticks = if plan.work == Work::KeepBurst {
        1
    } else {
        TICKS
    };
    let tick = plan.ttl() / 3 / ticks;
    let mut next = Instant::now();
    let mut tasks = JoinSet::new();
    for number in 0..ticks {
        for lease in share(plan.tasks, ticks, number) {
            let (keeper, key) = (Arc::clone(&keeper), plan.key(lease));
            tasks.spawn(async move { keeper.keep(&key).await });
        }
        next += tick;
        if ticks > 1 {
            sleep_until(next).await;
        }
    }
    let leases = timeout(plan.patience(), tasks.join_all()).await;
    leases
        .map_err(|_| "some leases were never taken")?
        .into_iter()
        .collect()
}

/// Splits the numbers below `count` into `parts` ranges of about equal length. Returns the range
/// with the index `part`.
fn share(count: u32, parts: u32, part: u32) -> std::ops::Range<u32> {
    let cut = |part: u32| {
        let cut = u64::from(count) * u64::from(part) / u64::from(parts);
        u32::try_from(cut).unwrap_or(count)
    };
    cut(part)..cut(part + 1)
}

#[derive(Default)]
struct Watched {
    records: Vec<Record>,
    /// Leases lost before the end.
    lost: u64,
    /// CPU time spent on observing the leases in the measured window. It does not count as a cost
    /// of renewing.
    looking_ns: u64,
}

/// Reads the send time of every lease slightly more often than the lease is renewed, so that no
/// renewal is missed. Returns a record for each renewal: `asked` is the time at which the renewal
/// was due, and `entered` the time at which it was sent.
async fn watch<L: Kept>(leases: &[L], plan: &Plan, from: u64) -> Watched {
    let interval = clock::nanos(plan.ttl() / 3);
    let end = from + clock::nanos(plan.window());
    let mut watched = Watched::default();
    // This first reading is in the warm-up. A renewal is detected by comparing two readings.
    let mut seen: Vec<Option<u64>> = leases.iter().map(L::sent).collect();
    while clock::now() < end {
        sleep((plan.ttl() * 3 / 10).min(clock::until(end))).await;
        let (in_window, began) = (clock::now() < end, clock::of_thread());
        for (task, (lease, before)) in leases.iter().zip(&mut seen).enumerate() {
            let sent = lease.sent();
            if let (Some(last), Some(sent)) = (*before, sent)
                && let Some(record) = renewal(task, last, sent, interval)
            {
                watched.records.push(record);
            }
            *before = sent.filter(|_| before.is_some());
        }
        if in_window {
            watched.looking_ns += clock::of_thread() - began;
        }
    }
    watched.lost = seen.iter().filter(|sent| sent.is_none()).count() as u64;
    watched
}

/// Returns the renewal between the readings `last` and `sent` of a lease's send time, if there was
/// one. Ignores small differences, because some contestants compute the send time from the lease's
/// remaining time. Two of their readings differ by some nanoseconds even without a renewal.
fn renewal(task: usize, last: u64, sent: u64, interval: u64) -> Option<Record> {
    (sent.saturating_sub(last) > interval / 10).then(|| Record {
        task: task as u64,
        asked: last + interval,
        entered: sent,
        left: sent,
        released: sent,
    })
}
