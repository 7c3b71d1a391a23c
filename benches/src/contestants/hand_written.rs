//! Code that a careful developer writes by hand: `SET NX PX` with a random value, and
//! compare-and-delete. All requests use one multiplexed connection. A kept lease (`Keeps`) has a
//! task that renews it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Script, cmd};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use super::{Fault, Keeps, Kept, Locks};
use crate::clock;
use crate::plan::Plan;

const DELETE_IF: &str =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
const EXTEND_IF: &str = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0";

/// One connection and the two scripts.
pub(crate) struct HandWritten {
    connection: MultiplexedConnection,
    delete: Script,
    extend: Arc<Script>,
    ttl: Duration,
}

impl HandWritten {
    pub(crate) async fn connect(plan: &Plan) -> Result<Self, Fault> {
        let client = redis::Client::open(plan.url.as_str())?;
        // By default, a command fails after half a second. In a benchmark that loads the server on
        // purpose, a command can take longer.
        let config =
            redis::AsyncConnectionConfig::new().set_response_timeout(Some(plan.patience()));
        let connection = client
            .get_multiplexed_async_connection_with_config(&config)
            .await?;
        Ok(Self {
            connection,
            delete: Script::new(DELETE_IF),
            extend: Arc::new(Script::new(EXTEND_IF)),
            ttl: plan.ttl(),
        })
    }

    /// Makes one attempt to take the lock. Returns the token if the lock was free.
    pub(crate) async fn take(&self, key: &str) -> Result<Option<String>, Fault> {
        let token = format!("{:032x}", rand::random::<u128>());
        let mut set = cmd("SET");
        set.arg(key).arg(&token).arg("NX");
        set.arg("PX").arg(millis(self.ttl));
        let mut connection = self.connection.clone();
        let answer: Option<String> = set.query_async(&mut connection).await?;
        Ok(answer.map(|_| token))
    }

    /// Releases the lock.
    pub(crate) async fn give_back(&self, key: &str, token: &str) -> Result<(), Fault> {
        let mut connection = self.connection.clone();
        let mut release = self.delete.key(key);
        let deleted: bool = release.arg(token).invoke_async(&mut connection).await?;
        deleted.then_some(()).ok_or_else(|| lost(key))
    }
}

impl Locks for HandWritten {
    async fn inside<B>(&self, key: &str, body: B) -> Result<B::Output, Fault>
    where
        B: Future + Send,
        B::Output: Send,
    {
        let token = self.take(key).await?;
        let token = token.ok_or_else(|| format!("{key} is held by another"))?;
        let output = body.await;
        self.give_back(key, &token).await?;
        Ok(output)
    }
}

impl Keeps for HandWritten {
    type Lease = Renewed;

    async fn keep(&self, key: &str) -> Result<Renewed, Fault> {
        let sent = Arc::new(AtomicU64::new(clock::now()));
        let token = self.take(key).await?;
        let lease = Lease {
            connection: self.connection.clone(),
            extend: Arc::clone(&self.extend),
            key: key.to_owned(),
            token: token.ok_or_else(|| format!("{key} is held by another"))?,
            ttl: self.ttl,
            sent: Arc::clone(&sent),
        };
        let task = tokio::spawn(lease.renew());
        Ok(Renewed { sent, task })
    }
}

/// A lock, and the task that renews it.
pub(crate) struct Renewed {
    sent: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl Kept for Renewed {
    fn sent(&self) -> Option<u64> {
        (!self.task.is_finished()).then(|| self.sent.load(Ordering::Relaxed))
    }
}

struct Lease {
    connection: MultiplexedConnection,
    extend: Arc<Script>,
    key: String,
    token: String,
    ttl: Duration,
    sent: Arc<AtomicU64>,
}

impl Lease {
    /// Renews the lock until it is lost or a request fails.
    async fn renew(mut self) {
        let mut next = Instant::now();
        loop {
            next += self.ttl / 3;
            sleep_until(next).await;
            let sent = clock::now();
            let mut extend = self.extend.key(&self.key);
            extend.arg(&self.token).arg(millis(self.ttl));
            match extend.invoke_async::<bool>(&mut self.connection).await {
                Ok(true) => self.sent.store(sent, Ordering::Relaxed),
                _ => return,
            }
        }
    }
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn lost(key: &str) -> Fault {
    format!("{key} was another's when it was to be released").into()
}
