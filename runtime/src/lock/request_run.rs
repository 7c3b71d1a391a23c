//! What a request does: it takes its locks, and runs a body inside them.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use super::acquire::begin;
use super::call_site::At;
use super::guard::LockGuard;
use super::leases::Locks;
use super::observed;
use super::request::LockRequest;
use crate::error::LockError;

impl LockRequest {
    /// Takes the lock; of several keys all or none.
    ///
    /// Cancel safe: a dropped future leaves no place in the queue and no lock. After the first poll
    /// the request need not have been sent. Now and then a call lets the other tasks of its runtime
    /// go first, within its wait.
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
    /// - [`LockError::Unavailable`] if the store does not serve.
    /// - [`LockError::Lost`] if the lease was over before this call saw its grant.
    /// - [`LockError::InvalidKey`] and [`LockError::ShuttingDown`].
    /// - [`LockError::WouldDeadlock`] if this call is nested in a body that holds the key.
    /// - [`LockError::Config`] for a ttl, interval, `max_hold`, `at_least`, `permits` or number of
    ///   keys that is not possible.
    pub async fn acquire(self) -> Result<LockGuard, LockError> {
        let (at, locks) = (At::Call(self.at), Locks::checked(self.keys));
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
    /// As [`acquire`](Self::acquire), and [`LockError::Lost`] if the lease was lost before the
    /// body's end.
    ///
    /// # Panics
    ///
    /// If the body panics: the panic goes on after the release.
    pub async fn run<F: Future>(self, body: F) -> Result<F::Output, LockError> {
        let mut call = self.call();
        call.run(pin!(Some(body))).await
    }

    /// As [`run`](Self::run), and if the body returns `Ok` the lock stays for `hold` from then on,
    /// by the store's clock; `hold` is from 1 ms to 24 h. A call that tries meanwhile is refused,
    /// with the time that is left in `retry_after`. For a second click that comes after the first
    /// one is done. After `Err`, a panic or a loss, and when this future is dropped, the lock is
    /// released at once.
    ///
    /// A call that enters a lock as [`reentrant`](Self::reentrant) does not keep it. With
    /// [`at_least`](Self::at_least) the later of both ends counts.
    ///
    /// ```
    /// # use leasehold::LockError;
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// # let pool = leasehold::LockPool::connect("memory://").await?;
    /// # let ttl = Duration::from_secs(10);
    /// let hold = Duration::from_secs(3);
    /// let pay = async { Ok::<_, LockError>("paid") };
    /// assert_eq!(pool.lock("payment:7").ttl(ttl).run_then_hold(hold, pay).await??, "paid");
    ///
    /// let second_click = pool.lock("payment:7").ttl(ttl).acquire().await.unwrap_err();
    /// assert!(second_click.retry_after() <= Some(hold));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run), and [`LockError::Config`] for a `hold` of less than a millisecond or
    /// more than 24 h, and for a share of a lock.
    pub async fn run_then_hold<T, E, F>(
        mut self,
        hold: Duration,
        body: F,
    ) -> Result<Result<T, E>, LockError>
    where
        F: Future<Output = Result<T, E>>,
    {
        self.settings.hold = Some(hold);
        let mut call = self.call();
        call.run_keeping(pin!(Some(body)), Some(Result::is_ok))
            .await
    }

    /// As [`run`](Self::run), and the body runs to its end even if this future is dropped: inside
    /// the lock, which is then released. Once the lock is held, the body is a task of the caller's
    /// tokio runtime.
    ///
    /// Cancel safe while the call waits for the lock: a dropped future leaves no lock, and the body
    /// does not run. If the body panics, this future panics too, if it still exists.
    ///
    /// The task is in the present tracing span and [`LockPool::scope`](crate::LockPool::scope); it
    /// is nested in no lock but its own. A call that enters a lock as
    /// [`reentrant`](Self::reentrant) is a part of that body, and ends with it.
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
    /// As [`run`](Self::run). Also [`LockError::Config`] outside of a tokio runtime, and
    /// [`LockError::Lost`] if the runtime shut down before the body's end.
    pub async fn run_detached<F>(self, body: F) -> Result<F::Output, LockError>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.call().run_detached(body).await
    }
}
