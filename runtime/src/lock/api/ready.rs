//! The readiness probe of a pool: checks that a lock can be taken now.

use std::future::poll_fn;
use std::panic::Location;
use std::time::Duration;

use crate::base::seeded::seeded;
use crate::engine::core::ticket::Acquire;
use crate::error::LockError;
use crate::key::RESERVED;
use crate::lock::nest::call_site::At;
use crate::lock::take::acquire::acquire;
use crate::lock::take::pending::PendingLock;
use crate::lock::take::settings::Settings;
use crate::pool::LockPool;

/// The ttl of the probe's lock, which every store accepts. If the release gets lost, the lock ends
/// after this time.
const TTL: Duration = Duration::from_secs(2);

impl LockPool {
    /// Returns `Ok` only if this pool can take a lock now. For readiness probes.
    ///
    /// It takes a lock and releases it, over the pool's own connection: two requests. The key is
    /// new each time, and begins with `%leasehold:ready:` in the pool's namespace. No other key can
    /// be the same, because callers cannot lock such keys. So a replica, a full server, a missing
    /// permission, and a pool that was shut down are errors. [`check`](Self::check) explains them,
    /// with one more connection and more requests.
    ///
    /// In a cluster, the key is in a random slot, and each master must be reachable. At
    /// `etcd://` and `zookeeper://`, regular probes keep one session of a few seconds open. The
    /// lock counts only in metrics without the label `lock`.
    ///
    /// Takes at most the pool's `io_timeout`, and up to 200 ms more for the release. A store that
    /// answers only after two seconds is not ready, because the lock is over by then. While the
    /// pool knows that its store is away, this returns within 10 ms. It works under every executor.
    /// Cancel safe: after a dropped call, the engine removes the lock.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// # let pool = leasehold::LockPool::connect("memory://").await?;
    /// let status = if pool.ready().await.is_ok() { 200 } else { 503 };
    /// assert_eq!(status, 200);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`LockError::Unavailable`] if the store cannot be reached, or refuses the lock.
    /// [`LockError::ShuttingDown`] after [`shutdown`](Self::shutdown).
    pub async fn ready(&self) -> Result<(), LockError> {
        if seeded!(ReadyUnasked) {
            return Ok(());
        }
        let mut lock = PendingLock::ask(self.clone(), self.trial()?)?;
        poll_fn(|cx| lock.poll_taken(cx)).await?;
        lock.begin_release(None);
        poll_fn(|cx| lock.poll_released(cx).map(drop)).await;
        Ok(())
    }

    /// Returns the parameters of a lock that no other call takes.
    fn trial(&self) -> Result<Acquire, LockError> {
        let key = self.full_key(&format!("{RESERVED}:ready:{}", self.token().hex()));
        let settings = Settings {
            ttl: Some(TTL),
            wait: Some(Duration::ZERO),
            ..Settings::default()
        };
        let plan = settings.plan(self)?;
        let at = At::Call(Location::caller());
        Ok(acquire(key, self, &plan, at, at.label(), Duration::ZERO))
    }
}
