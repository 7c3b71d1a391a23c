//! This project: an annotated function, as its users write it.

use std::time::Duration;

use leasehold::{LockError, LockGuard, LockPool, distributed_lock};

use super::{Fault, Keeps, Kept, Locks};
use crate::clock;
use crate::plan::Plan;

/// More than any row needs, so that no waiter is refused.
const MAX_WAITERS: usize = 100_000;

/// A pool.
pub(crate) struct Leasehold {
    pool: LockPool,
    ttl: Duration,
    patience: Duration,
}

impl Leasehold {
    pub(crate) async fn connect(plan: &Plan) -> Result<Self, Fault> {
        let pool = LockPool::builder()
            .url(&plan.url)
            .max_waiters(MAX_WAITERS)
            .connect()
            .await?;
        Ok(Self {
            pool,
            ttl: plan.ttl(),
            patience: plan.patience(),
        })
    }

    #[distributed_lock(key = "bench:<key>", ttl = self.ttl, wait = self.patience, pool = self.pool)]
    async fn locked<B>(&self, key: &str, body: B) -> Result<B::Output, LockError>
    where
        B: Future + Send,
        B::Output: Send,
    {
        Ok(body.await)
    }
}

impl Locks for Leasehold {
    async fn inside<B>(&self, key: &str, body: B) -> Result<B::Output, Fault>
    where
        B: Future + Send,
        B::Output: Send,
    {
        Ok(self.locked(key, body).await?)
    }
}

impl Keeps for Leasehold {
    type Lease = LockGuard;

    async fn keep(&self, key: &str) -> Result<LockGuard, Fault> {
        let request = self.pool.lock(key).ttl(self.ttl).watchdog();
        Ok(request.wait(self.patience).acquire().await?)
    }
}

impl Kept for LockGuard {
    /// The deadline: it lies a constant span after the send time.
    fn sent(&self) -> Option<u64> {
        let remaining = self.remaining();
        (!remaining.is_zero()).then(|| clock::now() + clock::nanos(remaining))
    }
}
