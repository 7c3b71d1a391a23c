//! What one process gives another with a held lock.

use std::fmt;
use std::time::Duration;

use crate::base::token::Token;
use crate::fence::Fence;

/// A held lock on its way to another process, by [`LockGuard::hand_over`]. That process takes it
/// with [`LockPool::adopt`].
///
/// It can be used once. Until it is adopted no process renews the lock, so it must be adopted
/// within the rest of the lease: a ttl at most, counted from the last renewal. After that the lock
/// expires, as if the process had died.
///
/// With the feature `serde` it is a map: `key`, `namespace`, `token`, `fence`, and `ttl`,
/// `watchdog` and `max_hold` in milliseconds. A client that knows the token can release the lock,
/// so send the baggage where the job goes, and nowhere else. `Debug` does not show the token.
///
/// Baggage may be altered on its way. The key and the token must be those of a held lock. A fence
/// that the store has not given to this lock is replaced by the greatest that it has given. The
/// times are believed, within the bounds of a usual call.
///
/// [`LockGuard::hand_over`]: crate::LockGuard::hand_over
/// [`LockPool::adopt`]: crate::LockPool::adopt
///
/// ```
/// # use std::time::Duration;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::LockError> {
/// # let pool = leasehold::LockPool::connect("memory://").await?;
/// let guard = pool.lock("order:42").ttl(Duration::from_secs(10)).acquire().await?;
/// let baggage = guard.hand_over()?;
/// assert_eq!((baggage.key(), baggage.ttl()), ("order:42", Duration::from_secs(10)));
///
/// let guard = pool.adopt(baggage).await?; // in the worker
/// guard.release().await?;
/// # Ok(()) }
/// ```
#[derive(Clone, PartialEq, Eq)]
#[must_use = "the lock is held until it is adopted or expires"]
pub struct Baggage {
    pub(crate) key: String,
    pub(crate) namespace: String,
    pub(crate) token: Token,
    pub(crate) fence: Option<Fence>,
    pub(crate) ttl: Duration,
    /// How often the lock was renewed, if it was.
    pub(crate) watchdog: Option<Duration>,
    pub(crate) max_hold: Option<Duration>,
}

impl Baggage {
    /// The key without its namespace.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// # let pool = leasehold::LockPool::connect("memory://").await?;
    /// let guard = pool.lock("order:42").ttl(Duration::from_secs(10)).acquire().await?;
    /// assert_eq!(guard.hand_over()?.key(), "order:42");
    /// # Ok(()) }
    /// ```
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The fence that the lock keeps, as [`LockGuard::fence`](crate::LockGuard::fence).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// # let pool = leasehold::LockPool::connect("memory://").await?;
    /// let guard = pool.lock("order:42").ttl(Duration::from_secs(10)).acquire().await?;
    /// let fence = guard.fence();
    /// let adopted = pool.adopt(guard.hand_over()?).await?;
    /// assert_eq!(adopted.fence(), fence);
    /// # Ok(()) }
    /// ```
    pub fn fence(&self) -> Option<Fence> {
        self.fence
    }

    /// The lock's ttl, which is also the longest time until it must be adopted.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// # let pool = leasehold::LockPool::connect("memory://").await?;
    /// let guard = pool.lock("order:42").ttl(Duration::from_secs(10)).acquire().await?;
    /// assert_eq!(guard.hand_over()?.ttl(), Duration::from_secs(10));
    /// # Ok(()) }
    /// ```
    pub fn ttl(&self) -> Duration {
        self.ttl
    }
}

impl fmt::Debug for Baggage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Baggage")
            .field("key", &self.key)
            .field("fence", &self.fence)
            .field("ttl", &self.ttl)
            .finish_non_exhaustive()
    }
}
