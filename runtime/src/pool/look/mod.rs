//! Inspecting the locks at a pool's store, and taking locks away by force.
//!
//! [`lock_list`] has the stream that lists locks. [`observer`] reads the store separately from the
//! pool's engine, so that a long list delays no renewal.

pub(crate) mod lock_list;
pub(crate) mod observer;
mod thread;

use self::lock_list::LockList;
use super::LockPool;
use crate::base::full_key::FullKey;
use crate::error::LockError;
use crate::inspect::info::LockInfo;
use crate::inspect::pattern::Pattern;
use crate::key;

/// Inspecting locks, and taking them away. These methods work on every store and with every
/// executor, even after the pool is shut down.
///
/// If the store is on a server, the pool inspects locks over a separate connection, so that a long
/// list does not delay other calls. This connection opens at its first use and closes after 10 s
/// without use.
impl LockPool {
    /// Returns information from the store about the lock `key`: its state, its holders and the
    /// waiting processes. This costs one round trip (two on etcd and ZooKeeper), and changes
    /// nothing. A lock that is not in use has the state [`Free`](crate::LockState::Free).
    ///
    /// This takes at most about three times the pool's `io_timeout`.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// # let pool = leasehold::LockPool::connect("memory://").await?;
    /// let guard = pool.lock("order:42").ttl(Duration::from_secs(10)).acquire().await?;
    /// let lock = pool.inspect("order:42").await?;
    /// assert!(lock.is_taken());
    /// assert_eq!(lock.holders[0].fence, guard.fence());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`LockError::Unavailable`] if the store cannot be reached or refuses this client, and
    /// [`LockError::InvalidKey`] for a key that no lock can have.
    pub async fn inspect(&self, key: impl Into<String>) -> Result<LockInfo, LockError> {
        let key = self.checked(key)?;
        self.observer().look(key).await
    }

    /// Lists the locks that are not free and whose keys match `pattern`, in no particular order.
    /// `*` matches any text, `?` matches one character, and `\` makes the next character literal.
    ///
    /// The stream reads the store page by page (`SCAN`), as fast as it is polled, and keeps one
    /// page in memory. So the list is not a snapshot. A lock taken or released in the meantime may
    /// be missing, and a lock held the whole time may appear twice. After an error, the stream
    /// ends.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// # let pool = leasehold::LockPool::connect("memory://").await?;
    /// let guard = pool.lock("order:42").ttl(Duration::from_secs(10)).acquire().await?;
    /// let mut locks = pool.locks("order:*");
    /// while let Some(lock) = locks.next().await {
    ///     println!("{}", lock?.key);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// With an empty [namespace](crate::LockPoolBuilder::namespace) on Redis, every string in the
    /// database is a lock. A string that this library did not write is reported as foreign.
    pub fn locks(&self, pattern: &str) -> LockList {
        LockList::new(self.clone(), Pattern::new(pattern))
    }

    /// Takes the lock `key` away from its holders, and returns the lock's previous state; none if
    /// the lock was free.
    ///
    /// A holder with a connected process is notified at once: its body is dropped and its call ends
    /// with [`LockError::Lost`]. The lock becomes free as soon as the body has ended, and after 3
    /// seconds at the latest. So the bodies of this holder and of the next one do not overlap,
    /// unless the first body continues for more than 3 seconds. That can happen with a blocked
    /// thread, a stopped process, or `on_lost = "continue"`.
    ///
    /// A holder cannot be notified if its process is dead or disconnected, or if the holder is a
    /// client without leasehold. Then the lock becomes free at once. If such a holder is alive, it
    /// notices the loss at its next renewal, or at the end of its lease. Until then, only the
    /// [fence](crate::Fence) can protect data from its writes.
    ///
    /// On etcd and ZooKeeper, the server does not know if a process is alive. On these stores, this
    /// method returns when the holder has released the lock, or after 3 seconds. The lock is then
    /// free.
    ///
    /// A lock that is kept by `cooldown`, or reserved for a waiting process, becomes free at once.
    /// Then the first waiting process gets it. While a lock is already being taken away, a second
    /// call of this method changes nothing.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// # let pool = leasehold::LockPool::connect("memory://").await?;
    /// let guard = pool.lock("order:42").ttl(Duration::from_secs(10)).acquire().await?;
    /// let was = pool.force_release("order:42").await?;
    /// assert_eq!(was.expect("it was held").fence, guard.fence());
    /// guard.lost().await;
    /// assert!(guard.check().unwrap_err().is_lost());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`inspect`](Self::inspect). After [`LockError::Unavailable`], or if this
    /// future is dropped, the request may have been carried out, or may still be, even if the lock
    /// has its next holder by then. So inspect the lock before you try again. If the request
    /// arrives more than twice the pool's `io_timeout` later, the next holder keeps its lock.
    ///
    /// [`LockError::Config`] for a lock that a transaction [pins](crate::LockState::Pinned), with
    /// the statement that ends its session.
    pub async fn force_release(
        &self,
        key: impl Into<String>,
    ) -> Result<Option<LockInfo>, LockError> {
        let key = self.checked(key)?;
        let was = self.observer().take_away(key).await?;
        let was = Some(was).filter(|was| was.is_taken() || !was.holders.is_empty());
        Ok(was)
    }

    fn checked(&self, key: impl Into<String>) -> Result<FullKey, LockError> {
        let key = key::check(key.into())?;
        Ok(self.full_key(&key))
    }
}
