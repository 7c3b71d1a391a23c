//! Held locks, as the program sees them: the guard and the handle.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::held::HeldLocks;
use super::leases::Locks;
use crate::base::lease_terms;
use crate::engine::lease_cell::LeaseCell;
use crate::error::LockError;
use crate::fence::Fence;

/// A held lock.
///
/// Dropping the guard releases the lock in the background; [`release`](Self::release) also waits
/// for the answer.
///
/// Work under a guard is not dropped when the lease is lost. Call [`check`](Self::check) before
/// each step that matters. Or use [`LockRequest::run`](crate::LockRequest::run) or the attribute:
/// these stop the work themselves.
#[must_use = "the lock is released when the guard is dropped"]
pub struct LockGuard {
    held: HeldLocks,
}

impl LockGuard {
    pub(crate) fn new(held: HeldLocks) -> Self {
        Self { held }
    }

    /// Releases the lock and waits for the store's answer, at most a tenth of the ttl and at most 1
    /// s. Without an answer the engine tries the release again in the background until the lock has
    /// expired. That is not an error.
    ///
    /// Cancel safe: a dropped future has released the lock all the same.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if the lease was lost before: it had ended by this call, or the store
    /// answers that it no longer has the lock. The work under the guard may have overlapped with
    /// another holder's. Of several keys the error names the first that is gone.
    ///
    /// `Ok` does not prove that the store still had the lock. A release also returns `Ok` if it
    /// gets no answer, is tried again after a lost answer, or hands the lock over inside the
    /// process.
    pub async fn release(self) -> Result<(), LockError> {
        let lasted = self.check();
        let gone = self.held.release_and_tell(None).await;
        lasted.and(not_gone(gone))
    }

    /// As [`release`](Self::release), and the lock stays for `hold` from now, by the store's clock;
    /// `hold` is from 1 ms to 24 h. A call that tries meanwhile is refused, with the time that is
    /// left in `retry_after`. For a second click that comes after the work is done. Dropping the
    /// guard releases at once.
    ///
    /// Two kinds of lock do not stay longer: a share, and a lock that this call has entered as
    /// [`reentrant`](crate::LockRequest::reentrant).
    ///
    /// # Errors
    ///
    /// As [`release`](Self::release), and [`LockError::Config`] for a `hold` of less than a
    /// millisecond or more than 24 h. In that case the lock is released at once.
    pub async fn release_after(self, hold: Duration) -> Result<(), LockError> {
        let lasted = self.check();
        let keep = lease_terms::check_hold(hold);
        let gone = self
            .held
            .release_and_tell(keep.as_ref().ok().copied())
            .await;
        lasted.and(not_gone(gone)).and(keep.map(drop))
    }

    /// Lets readers in: the lock becomes a share, as if it had been taken with
    /// [`shared`](crate::LockRequest::shared). No other call can take the lock in between. There is
    /// no way back. The downgrade renews the lease once; the fence stays. On a share it does
    /// nothing.
    ///
    /// The engine tries until the store has answered or the lease is over. Cancel safe: a dropped
    /// future does not stop the downgrade.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if the lease is over before the store has confirmed the downgrade.
    /// [`LockError::Config`] for a lock that a nested call has entered.
    pub async fn downgrade(&mut self) -> Result<(), LockError> {
        self.held.downgrade().await
    }

    /// A handle to give to other parts of the program. It does not keep the lock.
    pub fn handle(&self) -> LockHandle {
        LockHandle::new(self.locks().clone())
    }

    fn locks(&self) -> &Locks {
        self.held.locks()
    }
}

/// What the body of an annotated function sees of its lock (`guard = name`).
///
/// Cheap to clone. It does not keep the lock: after the function's end it says that the lease is
/// over.
#[derive(Clone)]
pub struct LockHandle {
    locks: Locks,
}

/// The error for a lock that the store no longer had at its release.
fn not_gone(gone: Option<Arc<LeaseCell>>) -> Result<(), LockError> {
    gone.map_or(Ok(()), |cell| Err(cell.lost_error()))
}

impl LockHandle {
    pub(crate) fn new(locks: Locks) -> Self {
        Self { locks }
    }

    /// For the oracle of the tests.
    #[cfg(feature = "__test")]
    pub(crate) fn deadline(&self) -> crate::base::clock::Instant {
        self.locks.deadline()
    }

    /// For the oracle of the tests.
    #[cfg(feature = "__test")]
    pub(crate) fn confirmed(&self) -> crate::base::clock::Instant {
        self.locks.confirmed()
    }

    /// For the oracle of the tests.
    #[cfg(feature = "__test")]
    pub(crate) fn confirmed_of(&self, key: &str) -> crate::base::clock::Instant {
        self.locks.confirmed_of(key)
    }

    fn locks(&self) -> &Locks {
        &self.locks
    }
}

macro_rules! lease_view {
    ($holder:ident) => {
        impl $holder {
            /// The key without its namespace. Of several keys, the first in their order.
            pub fn key(&self) -> &str {
                self.locks().first_name()
            }

            /// The keys without their namespace, sorted, each once.
            pub fn keys(&self) -> impl Iterator<Item = &str> {
                self.locks().names()
            }

            /// The key as the store knows it, with its namespace: what `leasehold.verify` and
            /// `leasehold.guard` in a PostgreSQL database are asked with, and `redis-cli GET`. Of
            /// several keys, the first in their order.
            pub fn full_key(&self) -> &str {
                self.full_keys().next().unwrap_or_default()
            }

            /// Every key as the store knows it, in the order of [`keys`](Self::keys).
            pub fn full_keys(&self) -> impl Iterator<Item = &str> {
                self.locks().full_keys()
            }

            /// The number that this acquisition got; a later holder of the key has a greater one.
            /// It belongs to the acquisition and never changes. `None` if the store promises no
            /// fence. Also `None` for a lock of several keys, each of which has its own:
            /// [`fences`](Self::fences), [`fence_of`](Self::fence_of).
            pub fn fence(&self) -> Option<Fence> {
                self.locks().fence()
            }

            /// Every key with its fence, in the order of [`keys`](Self::keys).
            pub fn fences(&self) -> impl Iterator<Item = (&str, Option<Fence>)> {
                self.locks().fences()
            }

            /// The fence of one of the keys. Also `None` for a key that this lock does not have.
            pub fn fence_of(&self, key: &str) -> Option<Fence> {
                self.fences().find(|(name, _)| *name == key)?.1
            }

            /// How long the lease lasts if it is not renewed; zero once it is over. Of several
            /// keys, the lease that ends first counts, here and in the methods below.
            pub fn remaining(&self) -> Duration {
                self.locks().remaining()
            }

            /// Whether the lease still lasts. Call this before a step that must not happen without
            /// the lock. The answer can be out of date a moment later, so let the resource check
            /// the [`fence`](Self::fence) as well.
            ///
            /// # Errors
            ///
            /// [`LockError::Lost`] once the lease is over.
            pub fn check(&self) -> Result<(), LockError> {
                self.locks().check()
            }

            /// Ends when the lease is over: lost, or released. Cancel safe.
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

/// The keys with their fences, for `Debug`.
struct Fences<'a>(&'a Locks);

impl fmt::Debug for Fences<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.fences()).finish()
    }
}
