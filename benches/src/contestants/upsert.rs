//! A row for each lock in PostgreSQL, taken by one statement, as in ShedLock (`JdbcTemplate`
//! provider with `usingDbTime`). This code uses the crate sqlx, and repeats a failed attempt every
//! 50 ms.

use std::time::Duration;

use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use tokio::time::{Instant, sleep};

use super::polling::PAUSE;
use super::{Fault, Locks};
use crate::plan::Plan;

/// Creates the table. The advisory lock prevents two processes from creating it at the same time.
const TABLE: &str = "SELECT pg_advisory_xact_lock(20261124);
    CREATE TABLE IF NOT EXISTS shedlock (name varchar(64) PRIMARY KEY, lock_until timestamp NOT NULL,
        locked_at timestamp NOT NULL, locked_by varchar(255) NOT NULL)";

const TAKE: &str = "INSERT INTO shedlock (name, lock_until, locked_at, locked_by)
    VALUES ($1, timezone('utc', CURRENT_TIMESTAMP) + $2 * interval '1 millisecond', timezone('utc', CURRENT_TIMESTAMP), $3)
    ON CONFLICT (name) DO UPDATE SET lock_until = excluded.lock_until, locked_at = excluded.locked_at, locked_by = excluded.locked_by
    WHERE shedlock.lock_until <= timezone('utc', CURRENT_TIMESTAMP)";

const GIVE_BACK: &str = "UPDATE shedlock SET lock_until = timezone('utc', CURRENT_TIMESTAMP) WHERE name = $1 AND locked_by = $2";

/// Number of connections of a process. All of its tasks share them.
const CONNECTIONS: u32 = 16;

/// A pool of connections, and the name under which this process takes its locks.
pub(crate) struct Upsert {
    pool: PgPool,
    owner: String,
    ttl_ms: i64,
    patience: Duration,
}

impl Upsert {
    pub(crate) async fn connect(plan: &Plan) -> Result<Self, Fault> {
        let pool = connect(plan, CONNECTIONS).await?;
        sqlx::raw_sql(TABLE).execute(&pool).await?;
        Ok(Self {
            pool,
            owner: format!("{:032x}", rand::random::<u128>()),
            ttl_ms: i64::try_from(plan.ttl_ms)?,
            patience: plan.patience(),
        })
    }

    async fn takes(&self, key: &str) -> Result<bool, Fault> {
        let taken = sqlx::query(TAKE)
            .bind(key)
            .bind(self.ttl_ms)
            .bind(&self.owner)
            .execute(&self.pool)
            .await?;
        Ok(taken.rows_affected() == 1)
    }
}

impl Locks for Upsert {
    async fn inside<B>(&self, key: &str, body: B) -> Result<B::Output, Fault>
    where
        B: Future + Send,
        B::Output: Send,
    {
        let asked = Instant::now();
        while !self.takes(key).await? {
            if asked.elapsed() >= self.patience {
                return Err(format!("{key} was not free within {:?}", self.patience).into());
            }
            sleep(PAUSE).await;
        }
        let output = body.await;
        let given = sqlx::query(GIVE_BACK)
            .bind(key)
            .bind(&self.owner)
            .execute(&self.pool)
            .await?;
        if given.rows_affected() == 1 {
            Ok(output)
        } else {
            Err(format!("{key} was another's when it was to be released").into())
        }
    }
}

/// Opens all connections to the PostgreSQL of the plan, before the first call.
pub(super) async fn connect(plan: &Plan, most: u32) -> Result<PgPool, Fault> {
    let url = plan.masters().next().unwrap_or_default();
    let pool = PgPoolOptions::new()
        .min_connections(most)
        .max_connections(most)
        .acquire_timeout(plan.patience())
        .test_before_acquire(false)
        .connect(url)
        .await?;
    Ok(pool)
}
