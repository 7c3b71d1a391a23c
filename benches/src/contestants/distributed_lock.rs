//! The Redis part of the crate distributed-lock. The crate's main package is not used, because it
//! also contains the parts for four other databases.
//!
//! The crate's `acquire` with a timeout does not wait, but gives up after one attempt. So this code
//! repeats the attempt every 50 ms.

use std::time::Duration;

use distributed_lock_core::traits::{DistributedLock as _, LockHandle as _, LockProvider as _};
use distributed_lock_redis::RedisLockProvider;
use tokio::time::{Instant, sleep};

use super::polling::PAUSE;
use super::{Fault, Locks};
use crate::plan::Plan;

pub(crate) struct DistributedLock {
    provider: RedisLockProvider,
    patience: Duration,
}

impl DistributedLock {
    pub(crate) async fn connect(plan: &Plan) -> Result<Self, Fault> {
        let provider = RedisLockProvider::builder()
            .url(&plan.url)
            .expiry(plan.ttl())
            .extension_cadence(plan.ttl() / 3)
            // An acquired lock must be valid for at least 90 % of this ttl. By default, the crate
            // requires 90 % of 30 s for any ttl, which a lock with a ttl of 10 s never has.
            .min_validity(plan.ttl() * 9 / 10)
            .build()
            .await?;
        Ok(Self {
            provider,
            patience: plan.patience(),
        })
    }
}

impl Locks for DistributedLock {
    async fn inside<B>(&self, key: &str, body: B) -> Result<B::Output, Fault>
    where
        B: Future + Send,
        B::Output: Send,
    {
        let asked = Instant::now();
        let handle = loop {
            // Each attempt uses a new lock object. Callers must not share one, because it contains
            // the value that identifies the holder.
            if let Some(handle) = self.provider.create_lock(key).try_acquire().await? {
                break handle;
            }
            if asked.elapsed() >= self.patience {
                return Err(format!("{key} was not free within {:?}", self.patience).into());
            }
            sleep(PAUSE).await;
        };
        let output = body.await;
        handle.release().await?;
        Ok(output)
    }
}
