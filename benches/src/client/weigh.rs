//! The memory that a held lease or a waiting caller needs: the growth of the process's memory,
//! divided by the number of leases or callers. For a result that the option `replay` keeps, the
//! memory of the server is measured instead.

use std::future::{pending, ready};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::Report;
use crate::contestants::{Fault, Keeps, Locks};
use crate::plan::Plan;

/// Number of callers that wait for each key: a little below leasehold's default limit of 1,000.
const WAITERS: u32 = 900;
/// Number of requests in flight at once. It is low, so that their buffers need little memory.
const AT_ONCE: u32 = 100;
/// Pause before each weighing. It is long enough that all requests in flight have been answered.
const SETTLE: Duration = Duration::from_millis(1_500);
/// Number of leases or results before the first weighing. They make the process or the server
/// allocate the memory that all leases or results share.
const BEFORE: u32 = 500;

/// Measures the bytes for each held lease, including its renewal.
pub(super) async fn held<K: Keeps>(keeper: K, plan: &Plan) -> Result<Report, Fault> {
    super::start().await?;
    let mut leases = Vec::with_capacity(plan.tasks as usize);
    for number in 0..BEFORE {
        leases.push(keeper.keep(&plan.key(number)).await?);
    }
    sleep(SETTLE).await;
    let before = resident()?;
    let keeper = Arc::new(keeper);
    let mut number = BEFORE;
    while number < plan.tasks {
        let mut tasks = JoinSet::new();
        for number in number..plan.tasks.min(number + AT_ONCE) {
            let (keeper, key) = (Arc::clone(&keeper), plan.key(number));
            tasks.spawn(async move { keeper.keep(&key).await });
        }
        number += AT_ONCE;
        for lease in tasks.join_all().await {
            leases.push(lease?);
        }
    }
    sleep(SETTLE).await;
    let report = weighed(before, plan.tasks - BEFORE)?;
    drop(leases);
    Ok(report)
}

/// Measures the bytes for each waiting caller, including its task.
pub(super) async fn waiting<L: Locks>(locks: Arc<L>, plan: &Plan) -> Result<Report, Fault> {
    super::start().await?;
    let mut tasks = JoinSet::new();
    for key in 0..plan.tasks.div_ceil(WAITERS) {
        let (locks, key) = (Arc::clone(&locks), plan.key(key));
        tasks.spawn(async move { locks.inside(&key, pending::<()>()).await });
    }
    sleep(SETTLE).await;
    let before = resident()?;
    for number in 0..plan.tasks {
        let (locks, key) = (Arc::clone(&locks), plan.key(number / WAITERS));
        tasks.spawn(async move { locks.inside(&key, pending::<()>()).await });
        if number % AT_ONCE == 0 {
            tokio::task::yield_now().await;
        }
    }
    sleep(SETTLE).await;
    if let Some(ended) = tasks.try_join_next() {
        ended??;
    }
    weighed(before, plan.tasks)
}

/// Measures the server's bytes for each kept result, including its key. All locks are released
/// before the server is weighed.
pub(super) async fn results<L: Locks>(locks: Arc<L>, plan: &Plan) -> Result<Report, Fault> {
    super::start().await?;
    let server = Server::connect(plan).await?;
    run_each(&locks, plan, 0..BEFORE).await?;
    let (before, keys) = server.weigh().await?;
    run_each(&locks, plan, BEFORE..plan.tasks).await?;
    let (after, all) = server.weigh().await?;
    let count = plan.tasks - BEFORE;
    if all - keys != u64::from(count) {
        return Err(format!("{} keys for {count} results", all - keys).into());
    }
    Ok(bytes_each(after.saturating_sub(before), count))
}

async fn run_each<L: Locks>(locks: &Arc<L>, plan: &Plan, all: Range<u32>) -> Result<(), Fault> {
    let mut numbers = all.peekable();
    while numbers.peek().is_some() {
        let mut tasks = JoinSet::new();
        for number in numbers.by_ref().take(AT_ONCE as usize) {
            let (locks, key) = (Arc::clone(locks), plan.key(number));
            tasks.spawn(async move { locks.inside(&key, ready(())).await });
        }
        for ended in tasks.join_all().await {
            ended?;
        }
    }
    Ok(())
}

/// The server that keeps the results.
struct Server(MultiplexedConnection);

impl Server {
    async fn connect(plan: &Plan) -> Result<Self, Fault> {
        let client = redis::Client::open(plan.masters().next().ok_or("no server")?)?;
        Ok(Self(client.get_multiplexed_async_connection().await?))
    }

    /// Waits until the server is idle. Returns the memory that it uses and the number of its keys.
    async fn weigh(&self) -> Result<(u64, u64), Fault> {
        let mut server = self.0.clone();
        sleep(SETTLE).await;
        let info: String = redis::cmd("INFO")
            .arg("memory")
            .query_async(&mut server)
            .await?;
        let line = info
            .lines()
            .find_map(|line| line.strip_prefix("used_memory:"));
        let used = line.ok_or("INFO has no used_memory")?.trim().parse()?;
        let keys = redis::cmd("DBSIZE").query_async(&mut server).await?;
        Ok((used, keys))
    }
}

fn weighed(before: u64, count: u32) -> Result<Report, Fault> {
    Ok(bytes_each(resident()?.saturating_sub(before), count))
}

fn bytes_each(grown: u64, count: u32) -> Report {
    #[allow(clippy::cast_precision_loss, reason = "memory is far below 2^52 bytes")]
    let bytes = grown as f64 / f64::from(count);
    Report {
        bytes: Some(bytes),
        ..Report::default()
    }
}

/// Returns the memory of this process, in bytes.
fn resident() -> Result<u64, Fault> {
    let status = std::fs::read_to_string("/proc/self/status")
        .map_err(|error| format!("memory is read from /proc, which is not here: {error}"))?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib = line.and_then(|line| line.split_ascii_whitespace().nth(1));
    let kib: u64 = kib.ok_or("/proc/self/status has no VmRSS")?.parse()?;
    Ok(kib * 1024)
}
