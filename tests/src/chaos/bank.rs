//! The tables of requirement 36, the transactions on them, and the SQL that finds a lost update.
//!
//! A transaction reads the last number of its key, and commits the next one. A key with an even
//! number is read from its counter. One with an odd number is read from the commits themselves, so
//! that no isolation level has a row in which two of its transactions meet.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error, IsolationLevel, NoTls};

use crate::postgres::{Database, Postgres, PostgresProbe};
use crate::proxy::Proxy;
use crate::wait;

/// How many keys there are.
pub(super) const KEYS: u64 = 2;

/// A transaction whose answer is lost is given up after this.
const PATIENCE: Duration = Duration::from_secs(2);
const LONG: Duration = Duration::from_secs(30);

/// One transaction.
#[derive(Debug, Clone)]
pub(super) struct Deal {
    pub(super) key: i64,
    pub(super) lock: String,
    pub(super) fence: i64,
    pub(super) isolation: IsolationLevel,
    /// True if it begins with `verify`; otherwise `verify` is its last statement.
    pub(super) verifies_first: bool,
    /// Between reading and writing, and before the second phase of a commit in two phases.
    pub(super) pause: Duration,
}

/// The counts of a run that SQL does not show.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Transactions with `LH001` or `40001`.
    pub(super) refused: AtomicU64,
    /// Transactions without an answer to their commit.
    pub(super) unanswered: AtomicU64,
    /// Transactions that were committed in two phases.
    pub(super) prepared: AtomicU64,
}

/// The tables and the clients of an application.
pub(super) struct Bank {
    database: Database,
    /// The network of the clients that commit in one phase.
    pub(super) proxy: Proxy,
    idle: Mutex<VecDeque<Client>>,
    pub(super) counts: Counts,
}

impl Bank {
    /// Makes the tables of locks and of numbers.
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

    /// The URL of the locks.
    pub(super) fn url(&self) -> String {
        self.database.url()
    }

    fn probe(&self) -> PostgresProbe {
        self.database.probe("lock:")
    }

    /// Commits in one phase, over the network. Each way to end is counted.
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
            // A client that is dropped in the middle of a transaction ends with it.
            self.idle().push_back(client);
            Ok(())
        });
        match ended.await {
            Ok(ended) => self.count(ended),
            Err(_) => self.unanswered(),
        }
    }

    /// Prepares a transaction. It is committed a little later, also if the caller goes away.
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
            // It was refused, or its first phase is under way.
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

    /// Commits what was prepared and never finished, and ends what else is open. No client is left
    /// that could commit it.
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

    /// How many transactions were committed, by SQL.
    pub(super) fn committed(&self) -> u64 {
        self.number("SELECT count(*) FROM commits")
    }

    /// How many of them have the number of an earlier one, by SQL.
    pub(super) fn lost(&self) -> u64 {
        self.number("SELECT count(*) - count(DISTINCT (key, value)) FROM commits")
    }

    /// How many counters are not what was committed, by SQL.
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

/// The second phase of a commit, which comes whatever becomes of the first one's caller.
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

/// Reads the last number, and writes the next one.
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
