//! Looking at the locks of a pool's store, and taking them away.
//!
//! [`locks`] is the list as a stream. [`observer`] looks at the store, apart from the pool's
//! engine: a long list delays no renewal.

pub(crate) mod locks;
pub(crate) mod observer;
#[cfg(feature = "__remote")]
mod thread;

use self::locks::Locks;
use super::LockPool;
use crate::base::full_key::FullKey;
use crate::error::LockError;
use crate::inspect::info::LockInfo;
use crate::inspect::pattern::Pattern;
use crate::key;

/// Seeing locks, and taking them away. These methods work on every store and under every executor,
/// also when the pool is shut down.
///
/// A pool on a server looks at locks over a connection of its own. The first look opens the
/// connection, and it is closed after 10 s without a look. So a long list does not delay a lock.
impl LockPool {
    /// What the store knows of the lock `key`: its state, its holders and the processes that wait.
    /// One round trip (two on etcd and ZooKeeper), which takes and changes nothing. A lock that no
    /// call has is [`Free`](crate::LockState::Free).
    ///
    /// It takes at most about three times the pool's `io_timeout`.
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

    /// The locks that are not free and whose keys match `pattern`, in no order. `*` stands for any
    /// text, `?` for one character, and `\` takes the character after it as it is.
    ///
    /// The stream reads the store page by page (`SCAN`), as fast as it is polled, and keeps one
    /// page in memory. So it is a list of many moments: a lock that comes or goes meanwhile may be
    /// missing, and one that stays may come twice. After an error the stream ends.
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
    /// database is a lock: one that this library did not write is told as foreign.
    pub fn locks(&self, pattern: &str) -> Locks {
        Locks::new(self.clone(), Pattern::new(pattern))
    }

    /// Takes the lock `key` away from its holders, and says what was there; none if it was free.
    ///
    /// A holder whose process is connected is told at once: its body is dropped and its call ends
    /// with [`LockError::Lost`]. The lock comes free as soon as the body has ended, and after 3
    /// seconds at the latest. So two bodies do not overlap, unless one goes on for longer than
    /// that: a thread that is blocked, a process that is stopped, `on_lost = "continue"`.
    ///
    /// A lock whose holder cannot be told comes free at once: the process is dead or cut off, or it
    /// is another client. If such a holder is alive it notices at its next renewal, or at the end
    /// of its lease. Only the [fence](crate::Fence) keeps its writes out until then.
    ///
    /// On etcd and ZooKeeper the server does not know whether a process lives. This returns there
    /// when the holder has given the lock back, or after 3 seconds, and then the lock is free.
    ///
    /// A lock that `hold` keeps, and one that was handed to a process, comes free at once. A
    /// process that waits is next. A second call for a lock that is being taken away changes
    /// nothing.
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
    /// As [`inspect`](Self::inspect). After [`LockError::Unavailable`] the lock may have been taken
    /// away; if this future is dropped, too. [`LockError::Config`] for a lock that a transaction
    /// [pins](crate::LockState::Pinned), with the statement that ends its session.
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
