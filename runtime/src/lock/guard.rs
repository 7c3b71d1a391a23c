//! Held locks, as their holders see them.

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
/// It is released when this is dropped, in the background, or by [`release`](Self::release). Work under a guard is not
/// dropped when the lease is lost: ask [`check`](Self::check) before each step that matters, or use
/// [`LockRequest::run`](crate::LockRequest::run) or the attribute, which do it for you.
#[must_use = "the lock is released when the guard is dropped"]
pub struct LockGuard {
    taken: HeldLocks,
}

impl LockGuard {
    pub(crate) fn new(taken: HeldLocks) -> Self {
        Self { taken }
    }

    /// Releases the lock and waits for the store's answer, at most ttl/10 and 1 s. Without an answer the release
    /// is tried again in the background until the lock has expired; that is not an error.
    ///
    /// Cancel safe: a dropped future has released the lock all the same.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if the lease was lost before: it had ended by this call, or the store
    /// answers that it does not have the lock any more. What was done under the guard may have met
    /// another holder. Of several keys the first that is gone is named.
    ///
    /// `Ok` does not prove that the store still had the lock. A release that gets no answer, that is
    /// tried again after a lost answer, or that hands the lock over inside the process returns `Ok`.
    pub async fn release(self) -> Result<(), LockError> {
        let lasted = self.check();
        let gone = self.taken.release_and_tell(None).await;
        lasted.and(not_gone(gone))
    }

    /// As [`release`](Self::release), and the lock stays for `hold` from now, by the store's clock, up to 24 h: who
    /// tries meanwhile is refused, with that time in `retry_after`. For a second click that comes after the work is done. Dropping the guard
    /// releases at once.
    ///
    /// A share of a lock, and a lock that this call has entered as [`reentrant`](crate::LockRequest::reentrant), do not stay longer.
    ///
    /// # Errors
    ///
    /// As [`release`](Self::release), and [`LockError::Config`] for a `hold` of less than a millisecond or more than 24 h; then the lock is
    /// released at once.
    pub async fn release_after(self, hold: Duration) -> Result<(), LockError> {
        let lasted = self.check();
        let keep = lease_terms::check_hold(hold);
        let gone = self
            .taken
            .release_and_tell(keep.as_ref().ok().copied())
            .await;
        lasted.and(not_gone(gone)).and(keep.map(drop))
    }

    /// Lets readers in: the lock becomes a share of it, as if it had been taken with [`shared`](crate::LockRequest::shared), and nobody can
    /// take it in between. There is no way back. The lease is renewed by it once; the fence stays. On a share it does nothing.
    ///
    /// It is tried until the store has answered or the lease is over. Cancel safe: a dropped future does not stop it.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if the lease was over before, [`LockError::Config`] for a lock that a nested call has entered.
    pub async fn downgrade(&mut self) -> Result<(), LockError> {
        self.taken.downgrade().await
    }

    /// A handle that can be given to others; it does not keep the lock.
    pub fn handle(&self) -> LockHandle {
        LockHandle::new(self.locks().clone())
    }

    fn locks(&self) -> &Locks {
        self.taken.locks()
    }
}

/// What the body of an annotated function sees of its lock (`guard = name`).
///
/// Cheap to clone. It does not keep the lock: after the function's end it tells that the lease is over.
#[derive(Clone)]
pub struct LockHandle {
    locks: Locks,
}

/// An error for the lock that a release did not find.
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
            /// The key without its namespace; of several the first in their order.
            pub fn key(&self) -> &str {
                self.locks().first_name()
            }

            /// The keys without their namespace, sorted, each once.
            pub fn keys(&self) -> impl Iterator<Item = &str> {
                self.locks().names()
            }

            /// The number that this acquisition got; a later holder of the key has a greater one. It was taken when
            /// the lock was and never changes. `None` where the store promises none, and for a lock of several keys, which
            /// has one for each: [`fences`](Self::fences), [`fence_of`](Self::fence_of).
            pub fn fence(&self) -> Option<Fence> {
                self.locks().fence()
            }

            /// Every key with its fence, in the order of [`keys`](Self::keys).
            pub fn fences(&self) -> impl Iterator<Item = (&str, Option<Fence>)> {
                self.locks().fences()
            }

            /// The fence of one of the keys; `None` for a key that this lock is not of, too.
            pub fn fence_of(&self, key: &str) -> Option<Fence> {
                self.fences().find(|(name, _)| *name == key)?.1
            }

            /// How long the lease lasts if it is not renewed; zero once it is over. Of several keys the lease that ends first counts,
            /// here and in all that follows.
            pub fn remaining(&self) -> Duration {
                self.locks().remaining()
            }

            /// Whether the lease still lasts. Ask before a step that must not happen without the lock; the answer can
            /// be out of date a moment later, so let the resource check the [`fence`](Self::fence) as well.
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
