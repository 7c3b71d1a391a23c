//! This project with `replay`: the same work, but each result is kept.

use ::leasehold::{LockError, LockPool, distributed_lock};

use super::{Contestant, Fault, Locks, leasehold as plain};
use crate::plan::Plan;

/// Length of a result in JSON, in bytes, like that of a small order.
const RESULT: usize = 500;

/// A pool, and the results of its calls.
pub(crate) struct Replayed {
    pool: LockPool,
    plan: Plan,
    result: String,
}

impl Replayed {
    pub(crate) async fn connect(plan: &Plan) -> Result<Self, Fault> {
        Ok(Self {
            pool: plain::pool(Contestant::LeaseholdReplayed, plan).await?,
            plan: plan.clone(),
            // JSON adds two quotation marks.
            result: "x".repeat(RESULT - 2),
        })
    }

    /// Runs `body`, and keeps a result that does not depend on its output.
    #[distributed_lock(
        key = "bench:<key>", ttl = self.plan.ttl(), wait = self.plan.patience(), pool = self.pool,
        replay = "10m"
    )]
    async fn locked<B>(
        &self,
        key: &str,
        body: B,
        output: &mut Option<B::Output>,
    ) -> Result<String, LockError>
    where
        B: Future + Send,
        B::Output: Send,
    {
        *output = Some(body.await);
        Ok(self.result.clone())
    }
}

impl Locks for Replayed {
    async fn inside<B>(&self, key: &str, body: B) -> Result<B::Output, Fault>
    where
        B: Future + Send,
        B::Output: Send,
    {
        let mut output = None;
        self.locked(key, body, &mut output).await?;
        output.ok_or_else(|| "a kept result answered, of a key that was new".into())
    }
}
