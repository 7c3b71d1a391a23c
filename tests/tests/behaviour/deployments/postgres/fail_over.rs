//! Tests of a primary whose standby takes over. Pools must connect to the new primary, and no two
//! transactions with verified locks may overlap.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use leasehold::postgres::LEASE_OVER;
use leasehold::{LockGuard, LockPool};
use leasehold_tests::postgres::{Database, Postgres};
use leasehold_tests::random::Random;
use leasehold_tests::room;
use leasehold_tests::wait;
use tokio::task::JoinSet;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, GenericClient, NoTls};

use super::{LONG, TTL, take, works};

/// The standby's name at the primary.
const STANDBY: &str = "standby";
/// The ttl of a lease that a watchdog keeps, even on a busy machine.
const KEPT: Duration = Duration::from_secs(8);

/// Replication mode. With synchronous replication, a commit waits for the standby.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Replication {
    Synchronous,
    Asynchronous,
}

/// A primary and its standby.
pub(super) struct Pair {
    pub(super) primary: Postgres,
    pub(super) standby: Postgres,
    pub(super) database: Database,
    pub(super) url: String,
}

impl Pair {
    pub(super) fn start(replication: Replication) -> Self {
        // With this setting, the standby connects to a restarted primary at once. By default it
        // waits five seconds between attempts.
        let primary = Postgres::start_with(&["fsync=off", "wal_retrieve_retry_interval=100ms"]);
        let database = primary.migrated();
        let standby = primary.standby(STANDBY);
        if replication == Replication::Synchronous {
            primary.set("synchronous_standby_names", STANDBY);
        }
        primary.wait_for(STANDBY);
        let url = database.url_on(&[&primary, &standby]);
        Self {
            primary,
            standby,
            database,
            url,
        }
    }

    pub(super) async fn pool(&self) -> LockPool {
        wait::connected(LockPool::builder().url(&*self.url)).await
    }

    /// Waits until the standby has at least one commit of the load, which takes longer on a busy
    /// machine.
    pub(super) fn replicates(&self) {
        self.primary.wait_for(STANDBY);
        let standby = self.database.on(&self.standby).probe("lock:");
        let count = "SELECT count(*) FROM commits";
        wait::until("a commit arrives", LONG, || standby.value(count) != "0");
    }

    /// Cuts the standby off for `misses`, then kills the primary and promotes the standby.
    pub(super) fn fail_over(&mut self, misses: Duration) {
        self.standby.pause();
        self.primary.cut_standbys_off();
        std::thread::sleep(misses);
        self.primary.kill();
        self.standby.resume();
        self.standby.promote();
    }
}

/// Fails if a granted lock is lost although the standby has it, or if a pool does not follow the
/// fail-over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pools_follow_a_fail_over_and_keep_locks() {
    let mut pair = Pair::start(Replication::Synchronous);
    let pool = pair.pool().await;
    let other = LockPool::builder().url(&*pair.url).io_timeout(LONG);
    let other = wait::connected(other).await;
    let watched = pool.lock("watched").ttl(LONG).wait(LONG).watchdog();
    let watched = watched.acquire().await.expect("it is free");
    let kept = take(&pool, "kept").await;
    let fence = kept.fence();
    pair.primary.kill();
    pair.standby.promote();
    works(&other, "after").await;
    for key in ["watched", "kept"] {
        let refused = other.lock(key).ttl(TTL).acquire().await;
        assert!(refused.is_err(), "{key} is held");
    }
    watched.release().await.expect("its lease was kept");
    kept.release().await.expect("still held");
    assert!(fence < take(&other, "kept").await.fence(), "fences grow");
    let report = other.check().await.expect("the new primary answers");
    assert!(report.is_ready(), "{report}");
}

/// The primary hangs, and its standby is promoted. Fails if a pool waits for the hanging primary,
/// or if a lease is not renewed on the new primary.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hanging_primary_is_abandoned() {
    let pair = Pair::start(Replication::Asynchronous);
    let pool = pair.pool().await;
    works(&pool, "before").await;
    pair.primary.pause();
    pair.standby.promote();
    // The paused primary still accepts connections but does not answer, so the new primary must
    // serve this call.
    works(&pool, "after").await;
    let new = pair.pool().await;
    let held = new.lock("held").ttl(KEPT).wait(LONG).watchdog();
    let held = held.acquire().await.expect("it is free");
    tokio::time::sleep(KEPT + Duration::from_secs(1)).await;
    held.check().expect("the new primary renews");
    held.release().await.expect("still held");
    pair.primary.resume();
}

/// The table of the new primary contains locks from before the fail-over. Fails if `verify` accepts
/// such a lock, because the new primary may lack data that its holder has read. Also fails if
/// `verify` refuses a lock after a crash without a fail-over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_from_before_a_fail_over_does_not_verify() {
    let mut pair = Pair::start(Replication::Synchronous);
    let pool = pair.pool().await;
    let lock = |key| pool.lock(key).ttl(TTL).wait(LONG);
    let alone = lock("alone").acquire().await.expect("it is free");
    let reader = lock("shared").shared().acquire().await;
    let reader = reader.expect("it is free");
    let mut downgraded = lock("downgraded").acquire().await.expect("it is free");
    downgraded.downgrade().await.expect("still held");
    pair.primary.restart();
    pair.primary.wait_for(STANDBY);
    let client = connected(&pair.url).await.expect("it answers");
    for guard in [&alone, &reader, &downgraded] {
        let verified = verify(&client, guard).await;
        verified.expect("a crash forgets none");
    }
    pair.primary.kill();
    pair.standby.promote();
    let client = connected(&pair.url).await.expect("it answers");
    for guard in [&alone, &reader, &downgraded] {
        let refused = verify(&client, guard).await.expect_err("it is of before");
        assert_eq!(refused.code().map(SqlState::code), Some(LEASE_OVER));
    }
    works(&pool, "after").await;
    let later = take(&pool, "later").await;
    let verified = verify(&client, &later).await;
    verified.expect("it is of the new primary");
}

async fn verify(client: &impl GenericClient, guard: &LockGuard) -> Result<(), Error> {
    let fence = guard.fence().expect("PostgreSQL gives fences").as_i64();
    let verify = "SELECT leasehold.verify($1, $2)";
    let arguments: [&(dyn ToSql + Sync); 2] = [&guard.full_key(), &fence];
    client.query(verify, &arguments).await.map(drop)
}

/// Under load, a standby that has missed the latest locks takes over. Fails if two transactions
/// with verified locks have read the same value, or if an update is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verified_commits_do_not_overlap() {
    for replication in [Replication::Asynchronous, Replication::Synchronous] {
        let found = load(replication, true).await;
        println!("{replication:?}: {found:?}");
        let broken = (found.overlaps, found.lost);
        assert_eq!(broken, (0, 0), "{replication:?}: {found:?}");
        assert!(0 < found.before && 0 < found.after, "{found:?}");
        if replication == Replication::Synchronous {
            assert_eq!(found.together, 0, "{found:?}");
        }
    }
}

/// Runs the same load without `verify`. Fails if no commits overlap, because the test above would
/// then prove nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_overlap_without_verify() {
    for _ in 0..3 {
        let found = load(Replication::Asynchronous, false).await;
        println!("without verify: {found:?}");
        if 0 < found.overlaps || found.lost != 0 {
            return;
        }
    }
    panic!("no commit overlaps another one");
}

const POOLS: u32 = 3;
const TASKS: u32 = 8;
const KEYS: u64 = 16;
/// The ttl of the load's locks. It is longer than the fail-over. So holders whose locks the standby
/// has missed still run when other calls get these locks.
const LEASE: Duration = Duration::from_secs(6);
/// Longest pause of a body between its read of a counter and its write.
const SECTION: Duration = Duration::from_secs(4);
/// Duration before the kill of the primary in which the standby receives nothing.
const LAG: Duration = Duration::from_millis(1_200);
const BEFORE: Duration = Duration::from_secs(4);
const AFTER: Duration = Duration::from_secs(8);

/// Data on the new primary, and observations of the bodies.
#[derive(Debug)]
struct Found {
    /// Number of commits before and after the fail-over.
    before: i64,
    after: i64,
    /// Commits that read the same value as another commit.
    overlaps: i64,
    /// Number of lost updates: the commits minus the sum of the counters. Negative if a commit has
    /// read a value that the new primary never had.
    lost: i64,
    /// Number of bodies that began while another body had a lease on the same key.
    together: usize,
}

/// Runs sections with random keys during a fail-over. A section reads the counter of its key,
/// waits, and writes the counter plus one. With `verifies`, the transaction of the write also calls
/// `verify`.
async fn load(replication: Replication, verifies: bool) -> Found {
    let _room = room::enter();
    let mut random = Random::seeded("fail-over");
    let mut pair = Pair::start(replication);
    let client = pair.database.client().await;
    let tables = format!(
        "CREATE TABLE counters AS SELECT key, 0::bigint AS value FROM generate_series(0, {KEYS} - 1) AS key;
         CREATE TABLE commits (key bigint, seen bigint, fence bigint)"
    );
    client.batch_execute(&tables).await.expect("new tables");
    let over = Arc::new(AtomicBool::new(false));
    let bodies = Arc::new(Bodies::default());
    let mut tasks = JoinSet::new();
    for _ in 0..POOLS {
        let pool = pair.pool().await;
        for _ in 0..TASKS {
            let task = Task {
                pool: pool.clone(),
                url: pair.url.clone(),
                bodies: Arc::clone(&bodies),
                random: random.fork(),
                verifies,
            };
            tasks.spawn(task.run(Arc::clone(&over)));
        }
    }
    tokio::time::sleep(BEFORE).await;
    let pair = tokio::task::spawn_blocking(move || {
        pair.replicates();
        pair.fail_over(LAG);
        pair
    });
    let pair = pair.await.expect("it takes over");
    let client = connected(&pair.url).await.expect("it answers");
    let count = "SELECT count(*) FROM commits";
    let before: i64 = client.query_one(count, &[]).await.expect("a count").get(0);
    tokio::time::sleep(AFTER).await;
    commits_beyond(&client, before).await;
    over.store(true, Ordering::Relaxed);
    while let Some(task) = tasks.join_next().await {
        task.expect("no task panics");
    }
    let all: i64 = client.query_one(count, &[]).await.expect("a count").get(0);
    let overlaps = "SELECT count(*) - count(DISTINCT (key, seen)) FROM commits";
    let overlaps: i64 = client
        .query_one(overlaps, &[])
        .await
        .expect("a count")
        .get(0);
    let sum = "SELECT sum(value)::bigint FROM counters";
    let sum: i64 = client.query_one(sum, &[]).await.expect("a sum").get(0);
    Found {
        before,
        after: all - before,
        overlaps,
        lost: all - sum,
        together: bodies.together(),
    }
}

/// Waits until there are more than `before` commits, which takes longer on a busy machine.
pub(super) async fn commits_beyond(client: &Client, before: i64) {
    let count = "SELECT count(*) FROM commits";
    let more = async {
        while client
            .query_one(count, &[])
            .await
            .expect("a count")
            .get::<_, i64>(0)
            <= before
        {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    wait::within("the new primary serves", LONG, more).await;
}

/// Connects a client to the primary, like an application.
pub(super) async fn connected(url: &str) -> Option<Client> {
    let url = format!("{url}?target_session_attrs=read-write");
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.ok()?;
    tokio::spawn(connection);
    Some(client)
}

/// Running bodies with the ends of their leases, and the number of bodies that overlapped.
#[derive(Debug, Default)]
struct Bodies(std::sync::Mutex<(Vec<(u64, Instant)>, usize)>);

impl Bodies {
    fn enter(&self, key: u64, guard: &LockGuard) -> Instant {
        let now = Instant::now();
        let until = now + guard.remaining();
        let mut bodies = self.0.lock().expect("no panic");
        let (inside, together) = &mut *bodies;
        *together += usize::from(inside.iter().any(|(held, end)| *held == key && now < *end));
        inside.push((key, until));
        until
    }

    fn leave(&self, key: u64, until: Instant) {
        let mut bodies = self.0.lock().expect("no panic");
        bodies.0.retain(|body| *body != (key, until));
    }

    fn together(&self) -> usize {
        self.0.lock().expect("no panic").1
    }
}

struct Task {
    pool: LockPool,
    url: String,
    bodies: Arc<Bodies>,
    random: Random,
    verifies: bool,
}

impl Task {
    async fn run(mut self, over: Arc<AtomicBool>) {
        let mut client = None;
        while !over.load(Ordering::Relaxed) {
            let key = self.random.below(KEYS);
            let request = self.pool.lock(format!("counter:{key}")).ttl(LEASE);
            // If the call gets no lock or finds no server, the loop makes another call.
            let Ok(guard) = request.wait(Duration::from_millis(500)).acquire().await else {
                continue;
            };
            let lease = self.bodies.enter(key, &guard);
            let takes = self.random.duration(SECTION);
            let section = self.section(&mut client, &guard, key, takes);
            // The body ends with its lease, so that only the fail-over can cause overlaps.
            if tokio::time::timeout(guard.remaining(), section)
                .await
                .is_err()
            {
                client = None;
            }
            self.bodies.leave(key, lease);
            // An error is ignored, because the lock may be lost with the primary.
            let _ = guard.release().await;
        }
    }

    /// Runs one section. If a read or a write fails, `client` becomes `None`, so that the next use
    /// opens a new connection.
    async fn section(
        &self,
        client: &mut Option<Client>,
        guard: &LockGuard,
        key: u64,
        takes: Duration,
    ) {
        let number = i64::try_from(key).expect("a small number");
        let Some(seen) = self.read(client, number).await else {
            *client = None;
            return;
        };
        tokio::time::sleep(takes).await;
        // The write is repeated, because by now there may be another primary, or no primary yet.
        while guard.check().is_ok() {
            if self.write(client, guard, number, seen).await {
                return;
            }
            *client = None;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn read(&self, client: &mut Option<Client>, key: i64) -> Option<i64> {
        let client = self.client(client).await?;
        let read = "SELECT value FROM counters WHERE key = $1::bigint";
        Some(client.query_one(read, &[&key]).await.ok()?.get(0))
    }

    async fn client<'a>(&self, client: &'a mut Option<Client>) -> Option<&'a mut Client> {
        if client.is_none() {
            *client = connected(&self.url).await;
        }
        client.as_mut()
    }

    /// Returns true if the server has answered `verify` with an error, or if a commit was sent.
    /// Returns false if the write can be repeated.
    async fn write(
        &self,
        client: &mut Option<Client>,
        guard: &LockGuard,
        key: i64,
        seen: i64,
    ) -> bool {
        let fence = guard.fence().expect("PostgreSQL gives fences").as_i64();
        let Some(client) = self.client(client).await else {
            return false;
        };
        let Ok(transaction) = client.transaction().await else {
            return false;
        };
        if self.verifies
            && let Err(error) = verify(&transaction, guard).await
        {
            return error.code().is_some();
        }
        let write = "UPDATE counters SET value = $2 WHERE key = $1::bigint";
        let note = "INSERT INTO commits (key, seen, fence) VALUES ($1, $2, $3)";
        let written = transaction.execute(write, &[&key, &(seen + 1)]).await;
        if written.is_err() {
            return false;
        }
        let noted = transaction.execute(note, &[&key, &seen, &fence]).await;
        if noted.is_err() {
            return false;
        }
        // A commit without an answer may have succeeded or failed, and only the table shows which.
        // The write is not repeated, because the number could then be added twice.
        let _ = transaction.commit().await;
        true
    }
}
