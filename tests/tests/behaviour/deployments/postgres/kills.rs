//! Tests that no update is lost under load, while clients, sessions and servers are killed and a
//! standby takes over.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use leasehold::postgres::LEASE_OVER;
use leasehold::{LockGuard, LockPool};
use leasehold_tests::postgres::Postgres;
use leasehold_tests::random::Random;
use leasehold_tests::room;
use leasehold_tests::wait;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error, IsolationLevel};

use super::LONG;
use super::fail_over::{Pair, Replication, commits_beyond, connected};

/// The shortest allowed ttl. Transactions last up to twice as long.
const TTL: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_millis(200);
const POOLS: u32 = 3;
const TASKS: u32 = 4;
const KEYS: u64 = 2;
/// Duration of a phase in which random sessions are ended. There is a phase before each kill of a
/// server and one after the fail-over.
const ROUND: Duration = Duration::from_millis(2_500);
/// Longest pause before a session is ended, and before a killed primary starts again.
const PAUSE: Duration = Duration::from_millis(150);
/// Duration before the fail-over in which the standby receives nothing.
const LAG: Duration = Duration::from_millis(400);
/// Number of kills and restarts of the primary.
const RESTARTS: u32 = 2;
/// On average, one of this many transactions is abandoned halfway, because its client is dropped.
const MORTAL: u64 = 12;

/// Ends a random session of the tests' databases. The session belongs to a pool or to an
/// application.
const END_A_SESSION: &str = "SELECT count(pg_terminate_backend(pid)) FROM (SELECT pid FROM pg_stat_activity WHERE datname LIKE 'test\\_%' ORDER BY random() LIMIT 1) s";

/// Fails if an update is lost: a transaction read before another holder's commit and wrote after
/// it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_update_is_lost() {
    for replication in [Replication::Asynchronous, Replication::Synchronous] {
        let found = load(replication, true).await;
        println!("{replication:?}: {found:?}");
        let broken = (found.overlaps, found.lost);
        assert_eq!(broken, (0, 0), "{replication:?}: {found:?}");
        let happened = [
            found.before,
            found.after,
            found.late,
            found.refused,
            found.clients,
            found.sessions,
        ];
        assert!(!happened.contains(&0), "{found:?}");
    }
}

/// Runs the same load without `verify`. Fails if no update is lost, because the test above would
/// then prove nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn updates_are_lost_without_verify() {
    let found = load(Replication::Asynchronous, false).await;
    println!("without verify: {found:?}");
    assert!(0 < found.overlaps || found.lost != 0, "{found:?}");
}

/// Data on the new primary, and counts of events at the clients and servers.
#[derive(Debug)]
struct Found {
    /// Number of commits from before the fail-over that the new primary has, and number of commits
    /// after the fail-over.
    before: u64,
    after: u64,
    /// Commits that read the same value as another commit.
    overlaps: i64,
    /// Number of lost updates: the commits minus the sum of the values.
    lost: i64,
    /// Number of transactions that have committed after the end of their lease.
    late: u64,
    /// Transactions rolled back because the lease was over.
    refused: u64,
    /// Clients dropped in the middle of a transaction.
    clients: u64,
    sessions: u64,
}

#[derive(Debug, Default)]
struct Counts {
    late: AtomicU64,
    refused: AtomicU64,
    clients: AtomicU64,
}

impl Counts {
    /// Waits until each counted event has happened, which takes longer on a busy machine.
    async fn all_happen(&self) {
        let counts = [&self.late, &self.refused, &self.clients];
        let all = || counts.iter().all(|count| 0 < count.load(Ordering::Relaxed));
        wait::until_async("each of them happens", LONG, all).await;
    }
}

async fn load(replication: Replication, verifies: bool) -> Found {
    let _room = room::enter();
    let mut random = Random::seeded("kills");
    let pair = Pair::start(replication);
    let client = pair.database.client().await;
    let tables = format!(
        "CREATE TABLE counters AS SELECT key, 0::bigint AS value FROM generate_series(0, {KEYS} - 1) AS key;
         CREATE TABLE commits (key bigint, seen bigint)"
    );
    client.batch_execute(&tables).await.expect("new tables");
    let (counts, over) = (
        Arc::new(Counts::default()),
        Arc::new(AtomicBool::new(false)),
    );
    let mut tasks = JoinSet::new();
    for _ in 0..POOLS {
        let pool = pair.pool().await;
        for _ in 0..TASKS {
            let task = Task {
                pool: pool.clone(),
                url: pair.url.clone(),
                counts: Arc::clone(&counts),
                random: random.fork(),
                verifies,
            };
            tasks.spawn(task.run(Arc::clone(&over)));
        }
    }
    let url = pair.url.clone();
    let struck = tokio::task::spawn_blocking(move || strike(pair, random));
    let (pair, before, sessions) = struck.await.expect("every server comes back");
    let client = connected(&url).await.expect("the new primary answers");
    commits_beyond(&client, before.cast_signed()).await;
    if verifies {
        counts.all_happen().await;
    }
    over.store(true, Ordering::Relaxed);
    while let Some(task) = tasks.join_next().await {
        task.expect("no task panics");
    }
    let sums = "SELECT (SELECT count(*) FROM commits), (SELECT count(DISTINCT (key, seen)) FROM commits), (SELECT sum(value)::bigint FROM counters)";
    let row = client.query_one(sums, &[]).await.expect("the sums");
    let (all, distinct, sum): (i64, i64, i64) = (row.get(0), row.get(1), row.get(2));
    drop(pair);
    let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
    Found {
        before,
        after: all.unsigned_abs() - before,
        overlaps: all - distinct,
        lost: all - sum,
        late: count(&counts.late),
        refused: count(&counts.refused),
        clients: count(&counts.clients),
        sessions,
    }
}

/// Ends sessions, kills and restarts the primary, and promotes the standby. Returns the number of
/// commits on the new primary right after the fail-over, and the number of ended sessions.
fn strike(mut pair: Pair, mut random: Random) -> (Pair, u64, u64) {
    let mut sessions = 0;
    for _ in 0..RESTARTS {
        sessions += end_sessions(&pair.primary, &mut random);
        pair.primary.kill();
        std::thread::sleep(random.duration(PAUSE));
        pair.primary.restart();
    }
    sessions += end_sessions(&pair.primary, &mut random);
    pair.replicates();
    pair.fail_over(LAG);
    let commits = pair
        .database
        .on(&pair.standby)
        .probe("lock:")
        .value("SELECT count(*) FROM commits");
    sessions += end_sessions(&pair.standby, &mut random);
    (pair, commits.parse().expect("a count"), sessions)
}

fn end_sessions(server: &Postgres, random: &mut Random) -> u64 {
    let (mut ended, until) = (0, Instant::now() + ROUND);
    while Instant::now() < until {
        std::thread::sleep(random.duration(PAUSE));
        ended += u64::from(server.ask(END_A_SESSION) == "1");
    }
    ended
}

struct Task {
    pool: LockPool,
    url: String,
    counts: Arc<Counts>,
    random: Random,
    verifies: bool,
}

impl Task {
    async fn run(mut self, over: Arc<AtomicBool>) {
        let mut idle = None;
        while !over.load(Ordering::Relaxed) {
            let connected = match idle.take() {
                Some(client) => Some(client),
                None => self.connected().await,
            };
            let Some(mut client) = connected else {
                continue;
            };
            let key = self.random.below(KEYS);
            let request = self.pool.lock(format!("counter:{key}")).ttl(TTL);
            let request = request.wait(Duration::from_millis(500));
            // A call that gets no lock does not use the client, so the next call can use it.
            let is_of_use = match request.acquire().await {
                Ok(guard) => self.add(&mut client, &guard, key).await,
                Err(_) => true,
            };
            idle = is_of_use.then_some(client);
        }
    }

    async fn connected(&self) -> Option<Client> {
        let connected = timeout(Duration::from_secs(1), connected(&self.url)).await;
        let connected = connected.ok().flatten();
        if connected.is_none() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        connected
    }

    /// Runs a transaction, or a part of it if the client must be dropped. Returns true if the
    /// client can be used again.
    async fn add(&mut self, client: &mut Client, guard: &LockGuard, key: u64) -> bool {
        let dies = (self.random.below(MORTAL) == 0).then(|| self.random.duration(LONGEST));
        let transaction = self.transaction(client, guard, key);
        // A client that must not be dropped has no time limit.
        let lives = dies.unwrap_or(Duration::MAX);
        let Ok(ended) = timeout(lives, transaction).await else {
            self.counts.clients.fetch_add(1, Ordering::Relaxed);
            return false;
        };
        match &ended {
            Ok(()) => {
                let late = u64::from(guard.check().is_err());
                self.counts.late.fetch_add(late, Ordering::Relaxed);
                true
            }
            Err(error) => {
                let code = error.code().map(SqlState::code);
                let refused = [LEASE_OVER, "40001"].map(Some).contains(&code);
                self.counts
                    .refused
                    .fetch_add(u64::from(refused), Ordering::Relaxed);
                // After a refusal, the client still works. After another error, a new client
                // replaces it. The commit may then have succeeded without an answer, and only the
                // table shows this.
                refused
            }
        }
    }

    /// Reads a value, waits, and writes the value plus one.
    async fn transaction(
        &mut self,
        client: &mut Client,
        guard: &LockGuard,
        key: u64,
    ) -> Result<(), Error> {
        let key = i64::try_from(key).expect("a small number");
        let isolation = match self.random.below(3) {
            0 if self.verifies => IsolationLevel::RepeatableRead,
            1 if self.verifies => IsolationLevel::Serializable,
            // Without `verify`, only this level is used. At higher levels the database itself
            // refuses lost updates, so the test could detect none.
            _ => IsolationLevel::ReadCommitted,
        };
        let builder = client.build_transaction().isolation_level(isolation);
        let transaction = builder.start().await?;
        let fence = guard.fence().expect("PostgreSQL gives fences").as_i64();
        let lock = guard.full_key();
        let verify = "SELECT leasehold.verify($1, $2)";
        let is_first = self.random.below(2) == 0;
        if self.verifies && is_first {
            transaction.query(verify, &[&lock, &fence]).await?;
        }
        let read = "SELECT value FROM counters WHERE key = $1::bigint";
        let seen: i64 = transaction.query_one(read, &[&key]).await?.get(0);
        tokio::time::sleep(self.random.duration(LONGEST)).await;
        let write = "UPDATE counters SET value = $2 WHERE key = $1::bigint";
        transaction.execute(write, &[&key, &(seen + 1)]).await?;
        let note = "INSERT INTO commits (key, seen) VALUES ($1, $2)";
        transaction.execute(note, &[&key, &seen]).await?;
        if self.verifies && !is_first {
            transaction.query(verify, &[&lock, &fence]).await?;
        }
        transaction.commit().await
    }
}
