//! `pg_advisory_lock` with the crate sqlx. Each caller that holds the lock, or waits for it, needs
//! a connection. There is no lease and no fence. A caller is not notified if its connection ends.

use sqlx::PgPool;

use super::upsert::connect;
use super::{Fault, Locks};
use crate::plan::Plan;

/// Maximum number of connections of a process: one for each of 64 tasks.
const CONNECTIONS: u32 = 64;

/// A pool of connections.
pub(crate) struct Advisory(PgPool);

impl Advisory {
    pub(crate) async fn connect(plan: &Plan) -> Result<Self, Fault> {
        Ok(Self(connect(plan, CONNECTIONS.min(plan.tasks)).await?))
    }
}

impl Locks for Advisory {
    async fn inside<B>(&self, key: &str, body: B) -> Result<B::Output, Fault>
    where
        B: Future + Send,
        B::Output: Send,
    {
        let mut connection = self.0.acquire().await?;
        sqlx::query("SELECT pg_advisory_lock(hashtextextended($1, 0))")
            .bind(key)
            .execute(&mut *connection)
            .await?;
        let output = body.await;
        sqlx::query("SELECT pg_advisory_unlock(hashtextextended($1, 0))")
            .bind(key)
            .execute(&mut *connection)
            .await?;
        Ok(output)
    }
}
