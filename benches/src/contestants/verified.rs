//! This project on PostgreSQL. Each critical section runs a transaction that verifies the lock.

use std::time::Duration;

use leasehold::{Fence, LockError, LockHandle, LockPool, distributed_lock};
use sqlx::PgPool;

use super::leasehold::pool;
use super::{Contestant, Fault, Locks, upsert};
use crate::plan::Plan;

const TABLE: &str = "SELECT pg_advisory_xact_lock(20261124);
    CREATE TABLE IF NOT EXISTS sections (key text PRIMARY KEY, count bigint NOT NULL)";

const COUNT: &str = "INSERT INTO sections AS s (key, count) VALUES ($1, 1)
    ON CONFLICT (key) DO UPDATE SET count = s.count + 1";

/// Number of connections of a process for its transactions, which all of its tasks share.
const CONNECTIONS: u32 = 16;

/// A lock pool, and a pool of connections for the transactions.
pub(crate) struct Verified {
    locks: LockPool,
    data: PgPool,
    ttl: Duration,
    patience: Duration,
}

impl Verified {
    pub(crate) async fn connect(plan: &Plan) -> Result<Self, Fault> {
        let data = upsert::connect(plan, CONNECTIONS).await?;
        sqlx::raw_sql(TABLE).execute(&data).await?;
        Ok(Self {
            locks: pool(Contestant::LeaseholdVerified, plan).await?,
            data,
            ttl: plan.ttl(),
            patience: plan.patience(),
        })
    }

    #[distributed_lock(key = "bench:<key>", ttl = self.ttl, wait = self.patience, pool = self.locks, guard = lock, on_error = failed)]
    async fn locked<B>(&self, key: &str, body: B) -> Result<B::Output, Fault>
    where
        B: Future + Send,
        B::Output: Send,
    {
        let output = body.await;
        self.count(&lock).await?;
        Ok(output)
    }

    async fn count(&self, lock: &LockHandle) -> Result<(), Fault> {
        let fence = lock.fence().map(Fence::as_i64);
        let mut transaction = self.data.begin().await?;
        sqlx::query("SELECT leasehold.verify($1, $2)")
            .bind(lock.full_key())
            .bind(fence)
            .execute(&mut *transaction)
            .await?;
        sqlx::query(COUNT)
            .bind(lock.full_key())
            .execute(&mut *transaction)
            .await?;
        Ok(transaction.commit().await?)
    }
}

fn failed<T>(error: LockError) -> Result<T, Fault> {
    Err(error.into())
}

impl Locks for Verified {
    async fn inside<B>(&self, key: &str, body: B) -> Result<B::Output, Fault>
    where
        B: Future + Send,
        B::Output: Send,
    {
        self.locked(key, body).await
    }
}
