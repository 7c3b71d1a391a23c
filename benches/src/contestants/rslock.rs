//! The crate rslock with its defaults: `acquire` tries until it has the lock, and pauses for up to
//! 200 ms after each attempt.

use std::time::Duration;

use rslock::LockManager;

use super::{Fault, Locks};
use crate::plan::Plan;

pub(crate) struct Rslock {
    manager: LockManager,
    ttl: Duration,
}

impl Rslock {
    pub(crate) fn new(plan: &Plan) -> Self {
        Self {
            manager: LockManager::new(plan.masters().collect::<Vec<_>>()),
            ttl: plan.ttl(),
        }
    }
}

impl Locks for Rslock {
    async fn inside<B>(&self, key: &str, body: B) -> Result<B::Output, Fault>
    where
        B: Future + Send,
        B::Output: Send,
    {
        let guard = self.manager.acquire(key, self.ttl).await?;
        let output = body.await;
        guard.release().await;
        Ok(output)
    }
}
