//! Handing a held lock over to another process, and adopting it there.

use std::panic::Location;

use super::acquire::begin_adoption;
use super::baggage::Baggage;
use super::call_site::At;
use super::guard::LockGuard;
use super::leases::Locks;
use super::settings::{Beat, Settings};
use crate::engine::core::ticket::Adoption;
use crate::error::LockError;
use crate::pool::LockPool;

impl LockGuard {
    /// Ends this guard without a release. The lock stays at the store, and another process can
    /// [adopt](LockPool::adopt) it. This process no longer renews or releases the lock, and sends
    /// nothing to the store.
    ///
    /// Use this in a handler that queues a job and keeps the order locked until the job is done.
    /// The lease continues to run, so the lock must be adopted before its end, at most a ttl from
    /// now. Without a watchdog, [`remaining`](Self::remaining) returns that time. A lock that is
    /// not adopted in time expires, as if this process had died.
    ///
    /// The adopted lock has the same key, fence, ttl and watchdog. A `max_hold` starts again. An
    /// [`at_least`](crate::LockRequest::at_least) is not handed over.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// # let pool = leasehold::LockPool::connect("memory://").await?;
    /// let ttl = Duration::from_secs(30);
    /// let guard = pool.lock("order:42").ttl(ttl).watchdog().acquire().await?;
    /// let baggage = guard.hand_over()?; // put it on the queue, with the job
    ///
    /// let second_click = pool.lock("order:42").ttl(ttl).acquire().await;
    /// assert!(second_click.unwrap_err().is_contention()); // until the job is done
    ///
    /// let guard = pool.adopt(baggage).await?; // in the worker
    /// guard.release().await?; // the job is done
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// - [`LockError::Lost`] if the lease is over.
    /// - [`LockError::Config`] for a share, for several keys, for a lock that a nested call has
    ///   entered, and on `redlock://`, `etcd://` and `zookeeper://`. The lock is released.
    pub fn hand_over(self) -> Result<Baggage, LockError> {
        self.check()?;
        if self.is_share() {
            return Err(refused());
        }
        let (held, lasts) = self.into_parts();
        let lock = held.into_one().ok_or_else(refused)?;
        lock.pool().can_hand_over()?;
        let (key, fence) = (lock.cell().key().name().to_owned(), lock.cell().fence());
        let namespace = lock.pool().namespace().to_owned();
        let token = lock.give_away()?;
        Ok(Baggage {
            key,
            namespace,
            token,
            fence,
            ttl: lasts.ttl,
            watchdog: lasts.watchdog,
            max_hold: lasts.max_hold,
        })
    }
}

impl LockPool {
    /// Takes over a lock that another process has [handed over](LockGuard::hand_over). The returned
    /// guard has the same lease and the same fence, and is renewed if the first guard was.
    ///
    /// One request to the store checks that the lock is still the handed-over one, gives it a new
    /// token, and renews it. So if two calls adopt the same baggage, one of them is refused. The
    /// pool must have the same store and namespace as the pool of the first process.
    ///
    /// Takes at most the pool's `io_timeout`. Cancel safe: a dropped future leaves no lock. If
    /// nothing was sent yet, the lock stays as it was.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// # let pool = leasehold::LockPool::connect("memory://").await?;
    /// # let guard = pool.lock("order:42").ttl(Duration::from_secs(10)).acquire().await?;
    /// let baggage = guard.hand_over()?;
    /// let guard = pool.adopt(baggage.clone()).await?;
    /// assert!(pool.adopt(baggage).await.unwrap_err().is_lost()); // once is enough
    /// guard.release().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// - [`LockError::Lost`] if the lock no longer exists: it expired, was already adopted, or was
    ///   released. The job's work may be done, so take the lock again and check.
    /// - [`LockError::Unavailable`] if the store does not serve. A lock that this call may have
    ///   adopted is then removed in the background.
    /// - [`LockError::Config`] for baggage of another namespace, and on `redlock://`, `etcd://` and
    ///   `zookeeper://`.
    /// - [`LockError::ShuttingDown`].
    #[track_caller]
    pub fn adopt(
        &self,
        baggage: Baggage,
    ) -> impl Future<Output = Result<LockGuard, LockError>> + Send + use<> {
        let (pool, at) = (self.clone(), Location::caller());
        async move { adopt(pool, baggage, at).await }
    }
}

async fn adopt(
    pool: LockPool,
    baggage: Baggage,
    at: &'static Location<'static>,
) -> Result<LockGuard, LockError> {
    pool.can_hand_over()?;
    if pool.namespace() != baggage.namespace {
        return Err(LockError::config(format!(
            "the lock `{}` was handed over in the namespace `{}`, and this pool has the namespace `{}`; give both pools the same",
            baggage.key,
            baggage.namespace,
            pool.namespace()
        )));
    }
    let settings = Settings {
        ttl: Some(baggage.ttl),
        watchdog: baggage.watchdog.map(Beat::Every),
        max_hold: baggage.max_hold,
        ..Settings::default()
    };
    let locks = Locks::checked(vec![baggage.key])?;
    let adoption = Adoption {
        from: baggage.token,
        fence: baggage.fence,
    };
    let taking = begin_adoption(pool, locks, &settings, At::Call(at), adoption)?;
    Ok(LockGuard::new(taking.taken().await?, &settings))
}

fn refused() -> LockError {
    LockError::config(
        "a lock that is handed over is exclusive, has one key, and was taken by the call itself; this one is a share, has several \
         keys, or was entered by a nested call, and is released",
    )
}
