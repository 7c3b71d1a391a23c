//! Taking the locks of a request, and running a body inside them.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use super::request::LockRequest;
use crate::error::LockError;
use crate::lock::call::guard::LockGuard;
use crate::lock::nest::leases::Locks;
use crate::lock::take::acquire::begin;
use crate::lock::take::observed;

impl LockRequest {
    /// Takes the lock. With several keys, takes all or none.
    ///
    /// Cancel safe: a dropped future leaves no place in the queue and no lock. The first poll does
    /// not always send the request: the engine may collect it with others, for at most 20 ms.
    /// Sometimes a call lets other tasks of its runtime run before it returns its lock. Otherwise,
    /// a task that takes one lock after another could keep them from running.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// # let pool = leasehold::LockPool::connect("memory://").await?;
    /// # let ttl = Duration::from_secs(10);
    /// let guard = pool.lock("order:42").ttl(ttl).acquire().await?;
    /// match pool.lock("order:42").ttl(ttl).acquire().await {
    ///     Err(error) if error.is_contention() => println!("already being processed: {error}"),
    ///     _ => unreachable!("the first call holds the lock"),
    /// }
    /// guard.release().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// - [`LockError::Contended`], [`LockError::TimedOut`] or [`LockError::QueueFull`] if another
    ///   call has the lock, or queues for it first.
    /// - [`LockError::Unavailable`] if the store does not answer in time, or answers that it cannot
    ///   serve.
    /// - [`LockError::Lost`] if a granted lease ended before this call could return it.
    /// - [`LockError::InvalidKey`] and [`LockError::ShuttingDown`].
    /// - [`LockError::WouldDeadlock`] if this call is nested in a body that holds the key.
    /// - [`LockError::Config`] for an invalid ttl, interval, `max_hold`, `min_hold`, `permits` or
    ///   number of keys, and for a `fingerprint` without `run_replayed`.
    pub async fn acquire(self) -> Result<LockGuard, LockError> {
        let (at, locks) = (self.at, Locks::checked(self.keys));
        let label = self.settings.label(at);
        let locks = locks.inspect_err(|error| observed::refused(label, error))?;
        let taking = begin(self.pool, locks, &self.settings, at)?;
        Ok(LockGuard::new(taking.taken().await?, &self.settings))
    }

    /// Runs `body` inside the lock. The body is polled only while the lease lasts, and dropped if
    /// the lease is lost. The lock is released when the body ends or panics, or when this future is
    /// dropped.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// # let pool = leasehold::LockPool::connect("memory://").await?;
    /// # let ttl = Duration::from_secs(10);
    /// let sum = pool.lock("sum").ttl(ttl).run(async { 1 + 1 }).await?;
    /// assert_eq!(sum, 2);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`acquire`](Self::acquire), and [`LockError::Lost`] if the lease was lost
    /// before the body's end.
    ///
    /// # Panics
    ///
    /// If the body panics. The panic continues after the release.
    pub async fn run<F: Future>(self, body: F) -> Result<F::Output, LockError> {
        let mut call = self.call();
        call.run(pin!(Some(body))).await
    }

    /// Like [`run`](Self::run), but after `Ok` the lock stays taken for `cooldown`, by the store's
    /// clock. `cooldown` is from 1 ms to 24 h. A call that tries in the meantime is refused, with
    /// the remaining time in `retry_after`, or waits if it has a `wait`. For example, this refuses
    /// a second click that comes after the first one is done. After `Err`, a panic or a loss, or if
    /// this future is dropped, the lock is released at once.
    ///
    /// A call that enters a lock as [`reentrant`](Self::reentrant) does not keep it. With
    /// [`min_hold`](Self::min_hold), the lock stays taken until both times are over.
    ///
    /// ```
    /// # use leasehold::LockError;
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// # let pool = leasehold::LockPool::connect("memory://").await?;
    /// # let ttl = Duration::from_secs(10);
    /// let cooldown = Duration::from_secs(3);
    /// let pay = async { Ok::<_, LockError>("paid") };
    /// let paid = pool.lock("payment:7").ttl(ttl).run_with_cooldown(cooldown, pay).await??;
    /// assert_eq!(paid, "paid");
    ///
    /// let second_click = pool.lock("payment:7").ttl(ttl).acquire().await.unwrap_err();
    /// assert!(second_click.retry_after() <= Some(cooldown));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`run`](Self::run), and [`LockError::Config`] for a `cooldown` of less than
    /// 1 ms or more than 24 h, for a share, and on `zookeeper://`.
    pub async fn run_with_cooldown<T, E, F>(
        mut self,
        cooldown: Duration,
        body: F,
    ) -> Result<Result<T, E>, LockError>
    where
        F: Future<Output = Result<T, E>>,
    {
        self.settings.cooldown = Some(cooldown);
        let mut call = self.call();
        call.run_keeping(pin!(Some(body)), Some(Result::is_ok))
            .await
    }

    /// Like [`run`](Self::run), but the body runs to its end inside the lock even if this future is
    /// dropped. The lock is released after the body's end. The body runs as a task on the caller's
    /// tokio runtime, once the lock is held.
    ///
    /// Cancel safe while the call waits for the lock: a dropped future leaves no lock, and the body
    /// does not run. If the body panics, this future panics too, if it still exists.
    ///
    /// The task has the current tracing span and [`LockPool::scope`](crate::LockPool::scope). Calls
    /// in the body are nested in this call's lock, but not in the locks of enclosing bodies. A call
    /// that enters a lock as [`reentrant`](Self::reentrant) starts no task: its body is a part of
    /// the enclosing body, and ends with it.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// # let pool = leasehold::LockPool::connect("memory://").await?;
    /// # let ttl = Duration::from_secs(10);
    /// let body = async { "paid, even if the client has hung up" };
    /// println!("{}", pool.lock("order:42").ttl(ttl).run_detached(body).await?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`run`](Self::run), [`LockError::Config`] outside of a tokio runtime, and
    /// [`LockError::Lost`] if the runtime shut down before the body's end.
    pub async fn run_detached<F>(self, body: F) -> Result<F::Output, LockError>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.call().run_detached(body).await
    }
}
