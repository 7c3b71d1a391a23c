//! Tests that a transaction with a verified lease commits before another holder gets the lock, or
//! not at all. In these tests leases end in the middle of transactions.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use leasehold::postgres::LEASE_OVER;
use leasehold::{Fence, LockError, LockGuard, LockPool};
use leasehold_tests::postgres::{Database, Postgres};
use leasehold_tests::random::Random;
use leasehold_tests::room;
use tokio::task::JoinSet;
use tokio_postgres::{Client, Error, IsolationLevel};

use super::{LONG, connect};

/// The shortest allowed ttl. Transactions last up to twice as long.
const TTL: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_millis(200);
const PROCESSES: u32 = 3;
const TASKS: u32 = 4;
const KEYS: u64 = 2;
const LENGTH: Duration = Duration::from_secs(8);

/// Number of calls of `leasehold.verify` in a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verify {
    Never,
    /// One call, randomly at the start or at the end of the transaction.
    Once,
}

#[derive(Debug, Default)]
struct Counts {
    committed: AtomicI64,
    /// Transactions rolled back because the lease was over, or because of a serialization failure.
    refused: AtomicI64,
    /// Transactions committed after the end of their lease.
    late: AtomicI64,
}

impl Counts {
    /// True if each of the counted events has happened at least once.
    fn all_happened(&self) -> bool {
        let counts = [&self.committed, &self.refused, &self.late];
        counts.iter().all(|count| 0 < count.load(Ordering::Relaxed))
    }
}

/// Fails if an update is lost: a transaction read before another holder's commit and wrote after
/// it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_update_is_lost() {
    for isolation in [
        IsolationLevel::ReadCommitted,
        IsolationLevel::RepeatableRead,
        IsolationLevel::Serializable,
    ] {
        let (lost, counts) = load(Verify::Once, isolation).await;
        println!("{isolation:?}: {lost} lost, {counts:?}");
        assert_eq!(lost, 0, "{isolation:?}: {counts:?}");
        assert!(counts.all_happened(), "{counts:?}");
    }
}

/// Runs the same load without `verify`. Fails if no update is lost, because the test above would
/// then prove nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn updates_are_lost_without_verify() {
    let (lost, counts) = load(Verify::Never, IsolationLevel::ReadCommitted).await;
    println!("without verify: {lost} lost, {counts:?}");
    assert!(0 < lost, "{counts:?}");
}

/// Makes concurrent tasks add to the numbers in the table `counters`. Returns the number of
/// committed additions that are missing from the sum of these numbers, and the counts of
/// transactions.
async fn load(verify: Verify, isolation: IsolationLevel) -> (i64, Counts) {
    let _room = room::enter();
    let mut random = Random::seeded("exact commits");
    let database = Arc::new(Postgres::shared().migrated());
    let counts = Arc::new(Counts::default());
    let mut tasks = JoinSet::new();
    let client = database.client().await;
    let table = format!(
        "CREATE TABLE counters AS SELECT key, 0::bigint AS value FROM generate_series(0, {KEYS} - 1) AS key"
    );
    client.batch_execute(&table).await.expect("a new table");
    let mut pools = Vec::new();
    for _ in 0..PROCESSES {
        pools.push(connect(&database).await);
    }
    let until = Instant::now() + LENGTH;
    for pool in pools {
        for _ in 0..TASKS {
            let task = Task {
                pool: pool.clone(),
                database: Arc::clone(&database),
                counts: Arc::clone(&counts),
                random: random.fork(),
                verify,
                isolation,
            };
            tasks.spawn(task.run(until));
        }
    }
    while let Some(task) = tasks.join_next().await {
        task.expect("no task panics");
    }
    let sum = "SELECT sum(value)::bigint FROM counters";
    let sum: i64 = client.query_one(sum, &[]).await.expect("a sum").get(0);
    let counts = Arc::into_inner(counts).expect("all tasks have ended");
    (counts.committed.load(Ordering::Relaxed) - sum, counts)
}

struct Task {
    pool: LockPool,
    database: Arc<Database>,
    counts: Arc<Counts>,
    random: Random,
    verify: Verify,
    isolation: IsolationLevel,
}

impl Task {
    async fn run(mut self, until: Instant) {
        let mut client = self.database.client().await;
        while self.goes_on(until) {
            let key = i64::try_from(self.random.below(KEYS)).expect("a small number");
            let request = self.pool.lock(format!("counter:{key}")).ttl(TTL);
            match request.wait(Duration::from_secs(1)).acquire().await {
                Ok(guard) => self.add(&mut client, &guard, key).await,
                Err(error) => assert!(is_expected(&error), "{error}"),
            }
        }
    }

    /// True if the load must continue. With `verify`, it also continues after `until` while one of
    /// the counted events is missing, for at most `LONG`.
    fn goes_on(&self, until: Instant) -> bool {
        let now = Instant::now();
        let is_short = || self.verify == Verify::Once && !self.counts.all_happened();
        now < until || now < until + LONG && is_short()
    }

    async fn add(&mut self, client: &mut Client, guard: &LockGuard, key: i64) {
        let ended = self.transaction(client, guard, key).await;
        let count = match &ended {
            Ok(()) if guard.check().is_err() => {
                self.counts.late.fetch_add(1, Ordering::Relaxed);
                &self.counts.committed
            }
            Ok(()) => &self.counts.committed,
            Err(error) => {
                let code = error.code().map(tokio_postgres::error::SqlState::code);
                let refused = [LEASE_OVER, "40001"].map(Some).contains(&code);
                assert!(refused, "{error:?}");
                &self.counts.refused
            }
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Reads a value, waits, and writes the value plus one.
    async fn transaction(
        &mut self,
        client: &mut Client,
        guard: &LockGuard,
        key: i64,
    ) -> Result<(), Error> {
        let builder = client.build_transaction().isolation_level(self.isolation);
        let transaction = builder.start().await?;
        let fence = guard.fence().map_or(0, Fence::get);
        let fence = i64::try_from(fence).expect("a fence fits a bigint");
        let verify = "SELECT leasehold.verify($1, $2)";
        let is_first = self.random.below(2) == 0;
        if self.verify == Verify::Once && is_first {
            let lock = guard.full_key();
            transaction.query(verify, &[&lock, &fence]).await?;
        }
        let read = "SELECT value FROM counters WHERE key = $1::bigint";
        let value: i64 = transaction.query_one(read, &[&key]).await?.get(0);
        tokio::time::sleep(self.random.duration(LONGEST)).await;
        let write = "UPDATE counters SET value = $2 WHERE key = $1::bigint";
        transaction.execute(write, &[&key, &(value + 1)]).await?;
        if self.verify == Verify::Once && !is_first {
            let lock = guard.full_key();
            transaction.query(verify, &[&lock, &fence]).await?;
        }
        transaction.commit().await
    }
}

fn is_expected(error: &LockError) -> bool {
    error.is_contention() || error.is_unavailable() || error.is_lost()
}
