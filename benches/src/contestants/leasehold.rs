//! This project as a contestant. In rows that run critical sections (trait `Locks`), each is the
//! body of an annotated function, as users write it. In rows that only renew locks (trait `Keeps`),
//! each lock is a guard.

use std::time::Duration;

use leasehold::{Fairness, LockError, LockGuard, LockPool, distributed_lock};

use super::{Contestant, Fault, Keeps, Kept, Locks};
use crate::clock;
use crate::plan::Plan;

/// Limit of the pool's queue. It is greater than any benchmark needs, so that no waiting call is
/// refused.
const MAX_WAITERS: usize = 100_000;

/// A pool, and the settings of its locks.
pub(crate) struct Leasehold {
    pool: LockPool,
    ttl: Duration,
    patience: Duration,
}

impl Leasehold {
    pub(crate) async fn connect(who: Contestant, plan: &Plan) -> Result<Self, Fault> {
        Ok(Self {
            pool: pool(who, plan).await?,
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

/// Connects to the servers of the plan: several masters form a quorum, but `leasehold_single` uses
/// only the first one.
pub(super) async fn pool(who: Contestant, plan: &Plan) -> Result<LockPool, Fault> {
    let masters: Vec<&str> = plan.masters().collect();
    let url = match masters[..] {
        // A plan for an engine other than Redis has two URLs: the engine's server, and a Redis for
        // comparison.
        [engine, redis] if !engine.starts_with("redis:") => {
            let on_redis = who == Contestant::LeaseholdOnRedis;
            if on_redis { redis } else { engine }.to_owned()
        }
        [_, _, ..] if who != Contestant::LeaseholdSingle => quorum(&masters),
        _ => masters
            .first()
            .map_or_else(String::new, ToString::to_string),
    };
    let builder = LockPool::builder()
        .url(url)
        .fairness(Fairness::default().max_waiters(MAX_WAITERS));
    Ok(builder.connect().await?)
}

/// Returns the URL of a quorum, from the URLs of its servers.
fn quorum(masters: &[&str]) -> String {
    let hosts = masters.iter().map(|url| {
        let host = url.strip_prefix("redis://").unwrap_or(url);
        host.trim_end_matches('/')
    });
    let hosts: Vec<&str> = hosts.collect();
    format!("redlock://{}/", hosts.join(","))
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
    /// Returns the lease's deadline, which is later than the send time by a constant. This constant
    /// does not matter, because only differences of send times are measured.
    fn sent(&self) -> Option<u64> {
        let remaining = self.remaining();
        (!remaining.is_zero()).then(|| clock::now() + clock::nanos(remaining))
    }
}
