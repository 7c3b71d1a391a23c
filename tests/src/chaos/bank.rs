//! The tables of requirement 36, the transactions on them, and the SQL that finds a lost update.
//!
//! A transaction reads the last number of its key, and commits the next number. For an even key, a
//! counter has the last number. For an odd key, the last number is the greatest one among the
//! commits. So two transactions on an odd key never write the same row, at any isolation level.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error, IsolationLevel, NoTls};

use crate::postgres::{Database, Postgres, PostgresProbe};
use crate::proxy::Proxy;
use crate::wait;

/// Number of keys. The keys are 0 (even) and 1 (odd).
pub(super) const KEYS: u64 = 2;

/// Time after which a client abandons an unanswered transaction, or the second phase of a commit.
const PATIENCE: Duration = Duration::from_secs(2);
const LONG: Duration = Duration::from_secs(30);

/// The parameters of one transaction.
#[derive(Debug, Clone)]
pub(super) struct Deal {
    pub(super) key: i64,
    pub(super) lock: String,
    pub(super) fence: i64,
    pub(super) isolation: IsolationLevel,
    /// True if `leasehold.verify` is the first statement of the transaction. Otherwise it is last.
    pub(super) verifies_first: bool,
    /// Pause between reading and writing, and before the second phase of a two-phase commit.
    pub(super) pause: Duration,
}

/// Counts that cannot be computed from the tables after a run.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Transactions that failed with SQLSTATE `LH001` (lease over), `40001` (serialization failure)
    /// or `40P01` (deadlock).
    pub(super) refused: AtomicU64,
    /// Transactions with any other error, or without an answer in time.
    pub(super) unanswered: AtomicU64,
    /// Transactions committed in two phases.
    pub(super) prepared: AtomicU64,
}

/// The tables, and the clients that run transactions on them.
pub(super) struct Bank {
    database: Database,
    /// The proxy for the clients that commit in one phase.
    pub(super) proxy: Proxy,
    idle: Mutex<VecDeque<Client>>,
    pub(super) counts: Counts,
}

impl Bank {
    /// Creates leasehold's tables, and the tables `counters` and `commits`.
    pub(super) fn open(server: &Postgres) -> Self {
        let database = server.migrated();
        let bank = Self {
            proxy: Proxy::start_postgres(database.address()),
            database,
            idle: Mutex::default(),
            counts: Counts::default(),
        };
        let made = format!(
            "CREATE TABLE counters AS SELECT key, 0::bigint AS value FROM generate_series(0, {KEYS} - 1) AS key"
        );
        bank.probe().value(&made);
        let made = "CREATE TABLE commits (key bigint, value bigint)";
        bank.probe().value(made);
        let made = "CREATE INDEX ON commits (key, value)";
        bank.probe().value(made);
        bank
    }

    pub(super) fn url(&self) -> String {
        self.database.url()
    }

    fn probe(&self) -> PostgresProbe {
        self.database.probe("lock:")
    }

    /// Runs the transaction of `deal` through the proxy, and commits in one phase. Counts a refusal
    /// or a missing answer.
    pub(super) async fn commit(self: Arc<Self>, deal: Deal) {
        let ended = tokio::time::timeout(PATIENCE, async {
            let over = self.database.url_over(self.proxy.address());
            let idle = self.idle().pop_front();
            let mut client = match idle {
                Some(client) if !client.is_closed() => client,
                _ => connect(&over).await?,
            };
            let transaction = client.build_transaction().isolation_level(deal.isolation);
            let transaction = transaction.start().await?;
            write(&transaction, &deal).await?;
            transaction.commit().await?;
            // Only clients with a completed transaction are reused. Any other client is dropped,
            // which closes its connection.
            self.idle().push_back(client);
            Ok(())
        });
        match ended.await {
            Ok(ended) => self.count(ended),
            Err(_) => self.unanswered(),
        }
    }

    /// Prepares the transaction of `deal`: the first phase of a two-phase commit. The second phase
    /// begins after `deal.pause`, even if the future of this function is dropped.
    pub(super) async fn prepare(self: Arc<Self>, deal: Deal) {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let id = format!("deal-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let prepared = async {
            let mut client = connect(&self.database.url()).await?;
            let transaction = client.build_transaction().isolation_level(deal.isolation);
            let transaction = transaction.start().await?;
            write(&transaction, &deal).await?;
            let _second = SecondPhase {
                bank: Arc::clone(&self),
                id: id.clone(),
                after: deal.pause,
            };
            let prepare = format!("PREPARE TRANSACTION '{id}'");
            transaction.batch_execute(&prepare).await
        };
        self.count(prepared.await);
    }

    async fn second_phase(&self, id: &str) {
        let end = Instant::now() + PATIENCE;
        let finish = format!("COMMIT PREPARED '{id}'");
        while Instant::now() < end {
            let done = match connect(&self.database.url()).await {
                Ok(client) => client.batch_execute(&finish).await.is_ok(),
                Err(_) => false,
            };
            if done {
                self.counts.prepared.fetch_add(1, Ordering::Relaxed);
                return;
            }
            // `COMMIT PREPARED` fails if the first phase is not over yet, so it is repeated. If the
            // transaction was refused, every attempt fails.
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    fn count(&self, ended: Result<(), Error>) {
        let Err(error) = ended else { return };
        let code = error.code().map(SqlState::code);
        let known = [leasehold::postgres::LEASE_OVER, "40001", "40P01"];
        if code.is_some_and(|code| known.contains(&code)) {
            self.counts.refused.fetch_add(1, Ordering::Relaxed);
        } else {
            self.unanswered();
        }
    }

    fn unanswered(&self) {
        self.counts.unanswered.fetch_add(1, Ordering::Relaxed);
    }

    /// Commits the prepared transactions whose clients are gone, and ends all other open
    /// transactions.
    pub(super) fn finish(&self) {
        let probe = self.probe();
        wait::until("all transactions have ended", LONG, || {
            let left = probe.value("SELECT min(gid) FROM pg_prepared_xacts");
            if !left.is_empty() {
                self.database.try_run(&format!("COMMIT PREPARED '{left}'"));
            }
            let open = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name NOT LIKE 'leasehold:%'";
            left.is_empty() && probe.value(open) == "0"
        });
    }

    /// Returns the number of committed transactions.
    pub(super) fn committed(&self) -> u64 {
        self.number("SELECT count(*) FROM commits")
    }

    /// Returns the number of lost updates: commits that repeat the number of an earlier commit of
    /// their key.
    pub(super) fn lost(&self) -> u64 {
        self.number("SELECT count(*) - count(DISTINCT (key, value)) FROM commits")
    }

    /// Returns the number of counters that differ from the number of commits of their key.
    pub(super) fn wrong(&self) -> u64 {
        self.number("SELECT count(*) FROM counters c WHERE c.key % 2 = 0 AND c.value <> (SELECT count(*) FROM commits m WHERE m.key = c.key)")
    }

    fn number(&self, sql: &str) -> u64 {
        self.probe().value(sql).parse().expect("a count")
    }

    fn idle(&self) -> MutexGuard<'_, VecDeque<Client>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Guard that starts the second phase of a commit when dropped. So the second phase runs even if
/// the future of the first phase is dropped.
struct SecondPhase {
    bank: Arc<Bank>,
    id: String,
    after: Duration,
}

impl Drop for SecondPhase {
    fn drop(&mut self) {
        let (bank, id, after) = (Arc::clone(&self.bank), self.id.clone(), self.after);
        tokio::spawn(async move {
            tokio::time::sleep(after).await;
            bank.second_phase(&id).await;
        });
    }
}

async fn connect(url: &str) -> Result<Client, Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// Reads the last number of the key, and writes the next number. Calls `leasehold.verify` first or
/// last.
async fn write(transaction: &tokio_postgres::Transaction<'_>, deal: &Deal) -> Result<(), Error> {
    let verify = "SELECT leasehold.verify($1, $2)";
    if deal.verifies_first {
        transaction
            .query(verify, &[&deal.lock, &deal.fence])
            .await?;
    }
    let has_counter = deal.key % 2 == 0;
    let read = if has_counter {
        "SELECT value FROM counters WHERE key = $1::bigint"
    } else {
        "SELECT coalesce(max(value), 0) FROM commits WHERE key = $1"
    };
    let last: i64 = transaction.query_one(read, &[&deal.key]).await?.get(0);
    tokio::time::sleep(deal.pause).await;
    if has_counter {
        let write = "UPDATE counters SET value = $2 WHERE key = $1::bigint";
        transaction
            .execute(write, &[&deal.key, &(last + 1)])
            .await?;
    }
    let write = "INSERT INTO commits VALUES ($1, $2)";
    transaction
        .execute(write, &[&deal.key, &(last + 1)])
        .await?;
    if !deal.verifies_first {
        transaction
            .query(verify, &[&deal.lock, &deal.fence])
            .await?;
    }
    Ok(())
}
