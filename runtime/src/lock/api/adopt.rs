//! Handing a held lock over to another process, and adopting it there.

use std::panic::Location;

use super::handover::Handover;
use crate::engine::core::ticket::Adoption;
use crate::error::LockError;
use crate::lock::call::guard::LockGuard;
use crate::lock::nest::call_site::At;
use crate::lock::nest::leases::Locks;
use crate::lock::take::acquire::begin_adoption;
use crate::lock::take::settings::{Beat, Settings};
use crate::pool::LockPool;

impl LockGuard {
    /// Ends this guard without a release. The lock stays at the store, and another process can
    /// [adopt](LockPool::adopt) it. This process no longer renews or releases the lock, and sends
    /// nothing to the store.
    ///
    /// Use this in a request handler that queues a job, if the lock must stay held until the job is
    /// done. The lock must be adopted before the lease ends, at most a ttl from now. To get the
    /// time left, call [`remaining`](Self::remaining) before this method. A lock that is not
    /// adopted in time expires, as if this process had died.
    ///
    /// The adopted lock has the same key, fence, ttl and watchdog. A `max_hold` starts again. A
    /// [`min_hold`](crate::LockRequest::min_hold) is not handed over.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// # let pool = leasehold::LockPool::connect("memory://").await?;
    /// let ttl = Duration::from_secs(30);
    /// let guard = pool.lock("order:42").ttl(ttl).watchdog().acquire().await?;
    /// let handover = guard.hand_over()?; // put it on the queue, with the job
    ///
    /// let second_click = pool.lock("order:42").ttl(ttl).acquire().await;
    /// assert!(second_click.unwrap_err().is_contention()); // until the job is done
    ///
    /// let guard = pool.adopt(handover).await?; // in the worker
    /// guard.release().await?; // the job is done
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// - [`LockError::Lost`] if the lease is over.
    /// - [`LockError::Unavailable`] if the store has not answered an earlier request for this lock,
    ///   for example on a connection that broke. That request could take the lock again after its
    ///   adoption. The lock is released.
    /// - [`LockError::Config`] for a share, for several keys, and on `redlock://`, `etcd://` and
    ///   `zookeeper://`: the locks are released. Also if the guard's call has only entered an
    ///   enclosing call's lock, which the enclosing call then still holds. A lock counts as a share
    ///   as soon as its [`downgrade`](Self::downgrade) has begun.
    pub fn hand_over(self) -> Result<Handover, LockError> {
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
        Ok(Handover {
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
    /// guard has the same ttl and fence as the first guard. A watchdog renews the lock if the first
    /// guard had one.
    ///
    /// One request to the store checks that the lock is still the handed-over one, gives it a new
    /// token, and renews it. So if two calls adopt the same handover, one of them is refused. The
    /// pool must have the same store and namespace as the pool of the first process.
    ///
    /// Takes at most the pool's `io_timeout`. Cancel safe: if the future is dropped after the
    /// request was sent, the engine removes the adopted lock. If it is dropped earlier, the
    /// handed-over lock stays as it was.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// # let pool = leasehold::LockPool::connect("memory://").await?;
    /// # let guard = pool.lock("order:42").ttl(Duration::from_secs(10)).acquire().await?;
    /// let handover = guard.hand_over()?;
    /// let guard = pool.adopt(handover.clone()).await?;
    /// assert!(pool.adopt(handover).await.unwrap_err().is_lost()); // once is enough
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
    /// - [`LockError::Config`] for a handover of another namespace, for invalid durations, and on
    ///   `redlock://`, `etcd://` and `zookeeper://`.
    /// - [`LockError::InvalidKey`] for a handover with an invalid key.
    /// - [`LockError::ShuttingDown`].
    #[track_caller]
    pub fn adopt(
        &self,
        handover: Handover,
    ) -> impl Future<Output = Result<LockGuard, LockError>> + Send + use<> {
        let (pool, at) = (self.clone(), Location::caller());
        async move { adopt(pool, handover, at).await }
    }
}

async fn adopt(
    pool: LockPool,
    handover: Handover,
    at: &'static Location<'static>,
) -> Result<LockGuard, LockError> {
    pool.can_hand_over()?;
    if pool.namespace() != handover.namespace {
        return Err(LockError::config(format!(
            "the lock `{}` was handed over in the namespace `{}`, but this pool has the namespace \
             `{}`; give both pools the same namespace",
            handover.key,
            handover.namespace,
            pool.namespace()
        )));
    }
    let settings = Settings {
        ttl: Some(handover.ttl),
        watchdog: handover.watchdog.map(Beat::Every),
        max_hold: handover.max_hold,
        ..Settings::default()
    };
    let locks = Locks::checked(vec![handover.key])?;
    let adoption = Adoption {
        from: handover.token,
        fence: handover.fence,
    };
    let taking = begin_adoption(pool, locks, &settings, At::Call(at), adoption)?;
    Ok(LockGuard::new(taking.taken().await?, &settings))
}

fn refused() -> LockError {
    LockError::config(
        "only an exclusive lock with one key can be handed over, by the call that took it; this \
         one is shared, has several keys or was entered by a nested call, so its guard is dropped",
    )
}
