//! Kept results of `replay` calls: their maximum length, and their removal.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use tokio::sync::oneshot;

use super::LockPool;
use super::builder::LockPoolBuilder;
use crate::engine::core::acquire::unanswered;
use crate::engine::driver::command::Command;
use crate::error::LockError;
use crate::key;

/// Maximum for `replay_limit`. The Redis client refuses replies of more than 16 MiB.
const MOST_KEPT: usize = 8 * 1024 * 1024;

impl LockPoolBuilder {
    /// Sets the maximum length of a kept result of a `replay` call, in bytes of JSON. A longer
    /// result is returned to its caller but not kept. A warning (`result-too-large`) is logged, and
    /// the next call runs its body again. With zero, no result is kept. Default: 64 KiB. With more
    /// than 8 MiB, connecting fails with [`LockError::Config`](crate::LockError::Config).
    ///
    /// Every result stays in the store's memory for the time set by `replay`. A server that runs
    /// out of memory refuses new locks.
    ///
    /// ```
    /// # use leasehold::{LockError, LockPool};
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), LockError> {
    /// let pool = LockPool::builder().url("memory://").replay_limit(4 * 1024).connect().await?;
    /// # Ok(()) }
    /// ```
    #[cfg_attr(docsrs, doc(cfg(feature = "replay")))]
    pub fn replay_limit(mut self, bytes: usize) -> Self {
        self.replay_limit = bytes;
        self
    }

    pub(super) fn check_replay_limit(&self) -> Result<(), LockError> {
        if self.replay_limit <= MOST_KEPT {
            return Ok(());
        }
        Err(LockError::config(
            "`replay_limit` must be at most 8 MiB; the default is 64 KiB",
        ))
    }
}

impl LockPool {
    /// Removes the kept results of all functions for `key`, even if the lock is held. Returns true
    /// if there were any. The next `replay` call runs its body. A call that still runs stores its
    /// result when it ends: call this method again after that.
    ///
    /// Takes at most the pool's `io_timeout`. After [`LockError::Unavailable`], or if the future is
    /// dropped, the result may or may not be removed. A request that was held up on its way may
    /// also remove a result that a call has kept in the meantime.
    ///
    /// ```
    /// # use leasehold::LockError;
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), LockError> {
    /// # let pool = leasehold::LockPool::connect("memory://").await?;
    /// let order = |number: u32| {
    ///     let day = Duration::from_secs(24 * 60 * 60);
    ///     let request = pool.lock("order:42").ttl(Duration::from_secs(10));
    ///     request.run_replayed(day, async move { Ok::<_, LockError>(number) })
    /// };
    /// assert_eq!((order(1).await??, order(2).await??), (1, 1));
    /// assert!(pool.forget("order:42").await?);
    /// assert_eq!(order(3).await??, 3);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`LockError::InvalidKey`] for a key that no lock can have. [`LockError::Unavailable`] if the
    /// store cannot serve. [`LockError::Config`] on `redlock://`, `etcd://` and `zookeeper://`,
    /// which keep no results.
    #[cfg_attr(docsrs, doc(cfg(feature = "replay")))]
    pub async fn forget(&self, key: &str) -> Result<bool, LockError> {
        let key = self.full_key(&key::check(key.to_owned())?);
        let (reply, mut forgotten) = oneshot::channel();
        let engine = self.engine();
        engine.send(Command::ForgetResult { key, reply })?;
        let (since, (caller, mut late)) = (engine.clock().now(), oneshot::channel());
        let at = since + self.inner.options.io_timeout;
        engine.send(Command::Wake { at, caller })?;
        poll_fn(|cx| {
            if let Poll::Ready(forgotten) = Pin::new(&mut forgotten).poll(cx) {
                let stopped = || LockError::unavailable("stopped", "the pool's engine has stopped");
                return Poll::Ready(forgotten.unwrap_or_else(|_| Err(stopped())));
            }
            let late = Pin::new(&mut late).poll(cx);
            late.map(|_| Err(unanswered(engine.clock().now().since(since))))
        })
        .await
    }
}
