//! The data with which another process adopts a held lock.

use std::fmt;
use std::time::Duration;

use crate::base::token::Token;
use crate::fence::Fence;

/// A held lock on its way to another process, made by [`LockGuard::hand_over`]. The other process
/// takes over the lock with [`LockPool::adopt`].
///
/// A handover can be used once. No process renews the lock until it is adopted. So the lock must be
/// adopted within the rest of the lease: at most a ttl, counted from the last renewal. After that
/// the lock expires, as if its process had died.
///
/// With the feature `serde`, a handover is serialized as a map: `key`, `namespace`, `token`,
/// `fence`, and `ttl`, `watchdog` and `max_hold` in milliseconds. A client with the token can
/// release the lock, so let only the adopting process read the handover. `Debug` does not show the
/// token.
///
/// A handover may be altered on its way, so `adopt` checks it. The key and the token must be those
/// of a held lock. A fence that the store has not given to this lock is replaced by the greatest
/// fence that the store has given to it. The durations must be valid for an ordinary call, and are
/// not checked further.
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
/// let handover = guard.hand_over()?;
/// assert_eq!((handover.key(), handover.ttl()), ("order:42", Duration::from_secs(10)));
///
/// let guard = pool.adopt(handover).await?; // in the worker
/// guard.release().await?;
/// # Ok(()) }
/// ```
#[derive(Clone, PartialEq, Eq)]
#[must_use = "the lock is held until it is adopted or expires"]
pub struct Handover {
    pub(crate) key: String,
    pub(crate) namespace: String,
    pub(crate) token: Token,
    pub(crate) fence: Option<Fence>,
    pub(crate) ttl: Duration,
    /// Renewal interval. None if the guard had no watchdog.
    pub(crate) watchdog: Option<Duration>,
    pub(crate) max_hold: Option<Duration>,
}

impl Handover {
    /// Returns the key without its namespace.
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

    /// Returns the fence of the lock, which stays the same when the lock is adopted. See
    /// [`LockGuard::fence`](crate::LockGuard::fence).
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

    /// Returns the lock's ttl. The lock must be adopted within this time after its last renewal.
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

impl fmt::Debug for Handover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handover")
            .field("key", &self.key)
            .field("fence", &self.fence)
            .field("ttl", &self.ttl)
            .finish_non_exhaustive()
    }
}
