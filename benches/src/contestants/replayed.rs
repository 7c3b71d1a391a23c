//! This project with `replay`: does the same work as `leasehold`, but keeps each result.

use ::leasehold::{LockError, LockPool, distributed_lock};

use super::{Contestant, Fault, Locks, leasehold as plain};
use crate::plan::Plan;

/// Length of a result in JSON, in bytes, like that of a small order.
const RESULT: usize = 500;

/// A pool, and the result that each call keeps.
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

    /// Runs `body`, and writes its output to `output`. The store keeps `self.result`.
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
