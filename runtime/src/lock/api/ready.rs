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

/// Ttl of the probe's lock. Every store accepts this ttl. If the release does not reach the store,
/// the lock expires after this time.
const TTL: Duration = Duration::from_secs(2);

impl LockPool {
    /// Returns `Ok` only if this pool can take a lock now. Use this for readiness probes.
    ///
    /// The probe takes a lock and releases it, by two requests on the pool's own connection. So it
    /// fails on a replica, on a full server, without the permission to take a lock, and after a
    /// shutdown of the pool. [`check`](Self::check) explains these errors, with one more connection
    /// and more requests, and finds all missing permissions. The key is new each time, and begins
    /// with `%leasehold:ready:` in the pool's namespace. Callers cannot lock such a key, so the
    /// probe never conflicts with another lock.
    ///
    /// In a cluster, the key is in a random slot, and the probe also fails while the master of any
    /// other slot is known to be away. On `etcd://` and `zookeeper://`, regular probes keep one
    /// session of a few seconds open. The probe counts only in metrics without the label `lock`.
    ///
    /// Takes at most the pool's `io_timeout`, and up to 200 ms more for the release. A store whose
    /// answer takes more than two seconds is not ready, because the probe's lease is over by then.
    /// While the pool knows that its store is away, the probe fails within 10 ms. It works under
    /// every executor. Cancel safe: if the future is dropped, the engine removes the probe's lock.
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

    /// Returns the parameters of the probe's lock. Its key contains a new token, so no other call
    /// takes it.
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
