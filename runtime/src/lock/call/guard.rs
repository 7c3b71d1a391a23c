//! The program's access to its held locks: the guard and the handle.

use std::fmt;
use std::future::poll_fn;
use std::time::Duration;

use crate::base::lease_terms;
use crate::base::outcome::End;
use crate::error::LockError;
use crate::fence::Fence;
use crate::lock::nest::leases::Locks;
use crate::lock::take::held::HeldLocks;
use crate::lock::take::settings::{Lasts, Settings};

/// A held lock.
///
/// Dropping the guard releases the lock in the background; [`release`](Self::release) also waits
/// for the answer.
///
/// Work under a guard is not stopped when the lease is lost. Call [`check`](Self::check) before
/// each step that must not happen without the lock. Or use
/// [`LockRequest::run`](crate::LockRequest::run) or the attribute, which stop the work
/// automatically.
///
/// ```
/// # use std::time::Duration;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::LockError> {
/// # let pool = leasehold::LockPool::connect("memory://").await?;
/// # let ttl = Duration::from_secs(10);
/// let guard = pool.lock("order:42").ttl(ttl).watchdog().acquire().await?;
/// println!("fence {:?}, {:?} left", guard.fence(), guard.remaining());
/// guard.check()?; // before a step that cannot be taken back
/// guard.release().await?;
/// # Ok(()) }
/// ```
#[must_use = "the lock is released when the guard is dropped"]
pub struct LockGuard {
    pub(crate) held: HeldLocks,
    lasts: Lasts,
}

impl LockGuard {
    /// Creates the guard of locks taken with these settings.
    pub(crate) fn new(held: HeldLocks, settings: &Settings) -> Self {
        let lasts = Lasts::of(settings);
        Self { held, lasts }
    }

    /// True if the lock is a share, or has become one.
    pub(crate) fn is_share(&self) -> bool {
        self.locks().are_shared()
    }

    pub(crate) fn into_parts(self) -> (HeldLocks, Lasts) {
        (self.held, self.lasts)
    }

    /// Releases the lock and waits for the store's answer, for at most a tenth of the ttl and at
    /// most 1 s. A missing answer is not an error: the engine retries the release in the background
    /// until the lock has expired.
    ///
    /// With [`min_hold`](crate::LockRequest::min_hold), the lock stays at the store for the rest of
    /// that time, whether the guard is released or dropped.
    ///
    /// Cancel safe: if the future is dropped, the engine still releases the lock.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// # let pool = leasehold::LockPool::connect("memory://").await?;
    /// # let ttl = Duration::from_secs(10);
    /// let guard = pool.lock("order:42").ttl(ttl).acquire().await?;
    /// guard.release().await?;
    /// pool.lock("order:42").ttl(ttl).acquire().await?; // it is free again
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if the lease ended before this call, or if the store answers that it no
    /// longer had the lock. The work under the guard may have overlapped with that of another
    /// holder. With several keys, the error names the first lost one.
    ///
    /// `Ok` does not prove that the store still had the lock. A release also returns `Ok` if it
    /// gets no answer, is retried after a lost answer, or hands the lock over within the process.
    pub async fn release(self) -> Result<(), LockError> {
        self.end(None).await
    }

    /// Like [`release`](Self::release), but keeps the lock for `cooldown` from now, by the store's
    /// clock. `cooldown` is from 1 ms to 24 h. A call in the meantime, such as a second click after
    /// the work is done, is refused, or waits if it has a `wait`. Dropping the guard instead
    /// releases the lock at once. With [`min_hold`](crate::LockRequest::min_hold), the later end
    /// counts.
    ///
    /// The engine does not know `cooldown` in advance. So it estimates the
    /// [`retry_after`](LockError::retry_after) of refused calls from the hold times of this call
    /// site, cooldowns included. `retry_after` is exact with the attribute and with
    /// [`run_with_cooldown`](crate::LockRequest::run_with_cooldown).
    ///
    /// `cooldown` has no effect on a share, or on a lock that this call has entered as
    /// [`reentrant`](crate::LockRequest::reentrant).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// # let pool = leasehold::LockPool::connect("memory://").await?;
    /// # let ttl = Duration::from_secs(10);
    /// let guard = pool.lock("payment:7").ttl(ttl).acquire().await?;
    /// guard.release_after(Duration::from_secs(3)).await?;
    /// let second_click = pool.lock("payment:7").ttl(ttl).acquire().await;
    /// assert!(second_click.unwrap_err().is_contention());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`release`](Self::release), and [`LockError::Config`] for a `cooldown` of less
    /// than a millisecond or more than 24 h, and on `zookeeper://`. Even then, the lock is released
    /// at once.
    pub async fn release_after(self, cooldown: Duration) -> Result<(), LockError> {
        let keep = self.held.can_keep();
        let keep = keep.and_then(|()| lease_terms::check_stay("cooldown", cooldown));
        let ended = self.end(keep.as_ref().ok().copied()).await;
        ended.and(keep.map(drop))
    }

    /// Releases the lock. Cancel safe: all releases are requested before the first wait.
    async fn end(mut self, keep: Option<Duration>) -> Result<(), LockError> {
        let lasted = self.check();
        if lasted.is_err() {
            self.held.ends(End::Lost);
        }
        self.held.begin_release(keep);
        let gone = poll_fn(|cx| self.held.poll_released(cx)).await;
        lasted.and(gone.map_or(Ok(()), |cell| Err(cell.lost_error())))
    }

    /// Turns the lock into a share, so that readers can enter, as if it had been taken with
    /// [`shared`](crate::LockRequest::shared). No other call can take the lock between the two
    /// states. A share cannot be made exclusive again. The downgrade renews the lease once, and
    /// keeps the fence. On a share it does nothing.
    ///
    /// The engine retries until the store has answered or the lease is over. Cancel safe: dropping
    /// the future does not stop the downgrade.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// # let pool = leasehold::LockPool::connect("memory://").await?;
    /// # let ttl = Duration::from_secs(10);
    /// let mut writer = pool.lock("catalog").ttl(ttl).acquire().await?;
    /// writer.downgrade().await?;
    /// let reader = pool.lock("catalog").ttl(ttl).shared().acquire().await?; // beside the first
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if the lease is over before the store has confirmed the downgrade.
    /// [`LockError::Config`] if the guard's call has only entered an enclosing call's lock.
    pub async fn downgrade(&mut self) -> Result<(), LockError> {
        self.held.downgrade().await
    }

    /// Returns a handle for other parts of the program. The handle does not keep the lock.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// # let pool = leasehold::LockPool::connect("memory://").await?;
    /// # let ttl = Duration::from_secs(10);
    /// let guard = pool.lock("order:42").ttl(ttl).acquire().await?;
    /// let handle = guard.handle();
    /// assert!(handle.check().is_ok());
    /// guard.release().await?;
    /// assert!(handle.check().is_err());
    /// # Ok(()) }
    /// ```
    pub fn handle(&self) -> LockHandle {
        LockHandle::new(self.locks().clone())
    }

    fn locks(&self) -> &Locks {
        self.held.locks()
    }
}

/// A view of a held lock, for the body of an annotated function (`guard = name`) and for other
/// parts of the program.
///
/// Cheap to clone. A handle does not keep the lock. After the release, it reports that the lease is
/// over.
///
/// ```
/// use leasehold::{LockError, distributed_lock};
///
/// #[distributed_lock(key = "order:<id>", ttl = "10s", watchdog, guard = lock)]
/// async fn create_order(id: u64) -> Result<(), LockError> {
///     println!("{} with fence {:?}", lock.key(), lock.fence());
///     lock.check() // before a step that cannot be taken back
/// }
/// ```
#[derive(Clone)]
pub struct LockHandle {
    locks: Locks,
}

impl LockHandle {
    pub(crate) fn new(locks: Locks) -> Self {
        Self { locks }
    }

    /// Returns the end of the lease. The tests' oracle uses it to find overlapping holders.
    #[cfg(feature = "__test")]
    pub(crate) fn deadline(&self) -> crate::base::clock::Instant {
        self.locks.deadline()
    }

    /// Like `deadline`, but returns the last confirmed end even after the lease is over.
    #[cfg(feature = "__test")]
    pub(crate) fn confirmed(&self) -> crate::base::clock::Instant {
        self.locks.confirmed()
    }

    /// Like `confirmed`, for one of the keys.
    #[cfg(feature = "__test")]
    pub(crate) fn confirmed_of(&self, key: &str) -> crate::base::clock::Instant {
        self.locks.confirmed_of(key)
    }

    pub(crate) fn locks(&self) -> &Locks {
        &self.locks
    }
}

macro_rules! lease_view {
    ($holder:ident) => {
        impl $holder {
            /// Returns the key without its namespace. With several keys, the first in sorted order.
            ///
            /// ```
            /// # use std::time::Duration;
            /// # #[tokio::main(flavor = "current_thread")]
            /// # async fn main() -> Result<(), leasehold::LockError> {
            /// # let pool = leasehold::LockPool::connect("memory://").await?;
            /// # let ttl = Duration::from_secs(10);
            /// let guard = pool.lock_all(["account:7", "account:3"]).ttl(ttl).acquire().await?;
            /// assert_eq!(guard.key(), "account:3");
            /// # Ok(()) }
            /// ```
            pub fn key(&self) -> &str {
                self.locks().first_name()
            }

            /// Returns the keys without their namespace, sorted and without repeats.
            ///
            /// ```
            /// # use std::time::Duration;
            /// # #[tokio::main(flavor = "current_thread")]
            /// # async fn main() -> Result<(), leasehold::LockError> {
            /// # let pool = leasehold::LockPool::connect("memory://").await?;
            /// # let ttl = Duration::from_secs(10);
            /// let guard = pool.lock_all(["account:7", "account:3"]).ttl(ttl).acquire().await?;
            /// assert!(guard.keys().eq(["account:3", "account:7"]));
            /// # Ok(()) }
            /// ```
            pub fn keys(&self) -> impl Iterator<Item = &str> {
                self.locks().names()
            }

            /// Returns the key at the store, with its namespace. `redis-cli GET` takes this form of
            /// the key, and so do the SQL functions `leasehold.verify` and `leasehold.guard` on
            /// PostgreSQL. With several keys, the first in sorted order.
            ///
            /// ```
            /// # use std::time::Duration;
            /// # #[tokio::main(flavor = "current_thread")]
            /// # async fn main() -> Result<(), leasehold::LockError> {
            /// # let pool = leasehold::LockPool::connect("memory://").await?;
            /// # let ttl = Duration::from_secs(10);
            /// let guard = pool.lock("order:42").ttl(ttl).acquire().await?;
            /// assert_eq!(guard.full_key(), "lock:order:42");
            /// # Ok(()) }
            /// ```
            pub fn full_key(&self) -> &str {
                self.full_keys().next().unwrap_or_default()
            }

            /// Returns every key with its namespace, in the order of [`keys`](Self::keys).
            ///
            /// ```
            /// # use std::time::Duration;
            /// # #[tokio::main(flavor = "current_thread")]
            /// # async fn main() -> Result<(), leasehold::LockError> {
            /// # let pool = leasehold::LockPool::connect("memory://").await?;
            /// # let ttl = Duration::from_secs(10);
            /// let guard = pool.lock_all(["account:7", "account:3"]).ttl(ttl).acquire().await?;
            /// assert!(guard.full_keys().eq(["lock:account:3", "lock:account:7"]));
            /// # Ok(()) }
            /// ```
            pub fn full_keys(&self) -> impl Iterator<Item = &str> {
                self.locks().full_keys()
            }

            /// Returns the fence of this acquisition, which never changes. A later holder of the
            /// key has a greater fence. `None` if the store promises no fence. Also `None` for a
            /// lock of several keys, because each key has its own fence: see
            /// [`fences`](Self::fences) and [`fence_of`](Self::fence_of).
            ///
            /// On PostgreSQL, read the fence while the call holds the lock. A handle that reads it
            /// for the first time after the release gets `None`, because another call of the
            /// process may already have the lock.
            ///
            /// ```
            /// # use std::time::Duration;
            /// # #[tokio::main(flavor = "current_thread")]
            /// # async fn main() -> Result<(), leasehold::LockError> {
            /// # let pool = leasehold::LockPool::connect("memory://").await?;
            /// # let ttl = Duration::from_secs(10);
            /// let first = pool.lock("item:7").ttl(ttl).acquire().await?;
            /// let fence = first.fence();
            /// first.release().await?;
            /// let second = pool.lock("item:7").ttl(ttl).acquire().await?;
            /// assert!(fence < second.fence());
            /// # Ok(()) }
            /// ```
            pub fn fence(&self) -> Option<Fence> {
                self.locks().fence()
            }

            /// Returns every key with its fence, in the order of [`keys`](Self::keys).
            ///
            /// ```
            /// # use std::time::Duration;
            /// # #[tokio::main(flavor = "current_thread")]
            /// # async fn main() -> Result<(), leasehold::LockError> {
            /// # let pool = leasehold::LockPool::connect("memory://").await?;
            /// # let ttl = Duration::from_secs(10);
            /// let guard = pool.lock_all(["account:7", "account:3"]).ttl(ttl).acquire().await?;
            /// for (key, fence) in guard.fences() {
            ///     println!("{key} with fence {fence:?}");
            /// }
            /// # Ok(()) }
            /// ```
            pub fn fences(&self) -> impl Iterator<Item = (&str, Option<Fence>)> {
                self.locks().fences()
            }

            /// Returns the fence of one of the keys. Also `None` if this lock lacks the key.
            ///
            /// ```
            /// # use std::time::Duration;
            /// # #[tokio::main(flavor = "current_thread")]
            /// # async fn main() -> Result<(), leasehold::LockError> {
            /// # let pool = leasehold::LockPool::connect("memory://").await?;
            /// # let ttl = Duration::from_secs(10);
            /// let guard = pool.lock_all(["account:7", "account:3"]).ttl(ttl).acquire().await?;
            /// assert!(guard.fence_of("account:7").is_some());
            /// assert!(guard.fence_of("account:9").is_none());
            /// # Ok(()) }
            /// ```
            pub fn fence_of(&self, key: &str) -> Option<Fence> {
                self.fences().find(|(name, _)| *name == key)?.1
            }

            /// Returns the time until the lease's deadline. A lease that is not renewed is given up
            /// ttl/20 earlier (at least 50 ms, at most ttl/4); then this is zero. With several
            /// keys, the lease that ends first counts, also for `check` and `lost`.
            ///
            /// ```
            /// # use std::time::Duration;
            /// # #[tokio::main(flavor = "current_thread")]
            /// # async fn main() -> Result<(), leasehold::LockError> {
            /// # let pool = leasehold::LockPool::connect("memory://").await?;
            /// # let ttl = Duration::from_secs(10);
            /// let guard = pool.lock("order:42").ttl(ttl).acquire().await?;
            /// assert!(guard.remaining() < ttl); // the lease is given up before the key expires
            /// # Ok(()) }
            /// ```
            pub fn remaining(&self) -> Duration {
                self.locks().remaining()
            }

            /// Checks that the lease still lasts. Call this before a step that must not happen
            /// without the lock. The answer can be out of date a moment later, so let the resource
            /// check the [`fence`](Self::fence) as well.
            ///
            /// ```
            /// # use std::time::Duration;
            /// # #[tokio::main(flavor = "current_thread")]
            /// # async fn main() -> Result<(), leasehold::LockError> {
            /// # let pool = leasehold::LockPool::connect("memory://").await?;
            /// # let ttl = Duration::from_secs(10);
            /// let guard = pool.lock("order:42").ttl(ttl).acquire().await?;
            /// guard.check()?;
            /// println!("the lock is still held: charge the customer");
            /// # Ok(()) }
            /// ```
            ///
            /// # Errors
            ///
            /// [`LockError::Lost`] once the lease is over.
            pub fn check(&self) -> Result<(), LockError> {
                self.locks().check()
            }

            /// Completes when the lease is over: lost or released. Cancel safe.
            ///
            /// ```
            /// # async fn work() {}
            /// # async fn example(guard: leasehold::LockGuard) {
            /// tokio::select! {
            ///     () = guard.lost() => println!("the lease is over"),
            ///     () = work() => println!("done"),
            /// }
            /// # }
            /// ```
            pub async fn lost(&self) {
                self.locks().over().await;
            }
        }

        impl fmt::Debug for $holder {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($holder))
                    .field("fences", &Fences(self.locks()))
                    .field("remaining", &self.remaining())
                    .finish_non_exhaustive()
            }
        }
    };
}

lease_view!(LockGuard);
lease_view!(LockHandle);

/// `Debug` output of the keys with their fences.
struct Fences<'a>(&'a Locks);

impl fmt::Debug for Fences<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.peek_fences()).finish()
    }
}
