//! Held locks.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::engine::{Command, Order, Slot, TicketId};
use crate::{Fence, LockError, LockPool};

/// A place in the engine, from before anything is sent until the release. Dropping it, at any time, lets go of
/// whatever it stands for: a place in the queue, an acquire on its way, a lock.
pub(crate) struct Hold {
    pool: LockPool,
    id: TicketId,
    slot: Arc<Slot>,
    let_go: bool,
}

impl Hold {
    /// Takes the lock.
    ///
    /// Cancel safety: the ticket exists before the engine hears of the order, so a future that is dropped at any
    /// point leaves no orphan: the engine waits for a reply that is on its way, and removes what it set.
    pub(crate) async fn take(
        pool: LockPool,
        slot: Arc<Slot>,
        order: Order,
    ) -> Result<Self, LockError> {
        slot.set_clock(pool.engine().clock());
        let mut hold = Self {
            id: pool.engine().next_ticket(),
            pool,
            slot,
            let_go: true,
        };
        hold.tell(Command::Acquire {
            id: hold.id,
            order: Box::new(order),
            slot: Arc::clone(&hold.slot),
        })?;
        hold.let_go = false;
        let granted = hold.slot.granted().await;
        // Refused: the engine has forgotten the ticket already.
        hold.let_go = granted.is_err();
        granted?;
        // This task may have slept past the lease's end before it heard of the grant.
        hold.slot.check()?;
        Ok(hold)
    }

    pub(crate) fn slot(&self) -> &Arc<Slot> {
        &self.slot
    }

    /// Releases the lock and waits for the store's answer, at most ttl/10 and 1 s; tells whether it came. Without an
    /// answer the release is tried again in the background.
    pub(crate) async fn release(mut self) -> bool {
        self.slot.close();
        self.let_go = true;
        self.tell(Command::Release(self.id)).is_ok() && self.slot.released().await
    }

    fn tell(&self, command: Command) -> Result<(), LockError> {
        self.pool.engine().send(command)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if !self.let_go {
            self.slot.close();
            // If the engine is gone, the lock expires after its ttl.
            let _ = self.tell(Command::Abandon(self.id));
        }
    }
}

/// A held lock.
///
/// It is released when this is dropped, in the background, or by [`release`](Self::release). Work under a guard is not
/// dropped when the lease is lost: ask [`check`](Self::check) before each step that matters, or use
/// [`LockRequest::run`](crate::LockRequest::run) or the attribute, which do it for you.
#[must_use = "the lock is released when the guard is dropped"]
pub struct LockGuard {
    hold: Hold,
}

impl LockGuard {
    pub(crate) fn new(hold: Hold) -> Self {
        Self { hold }
    }

    /// Releases the lock and waits for the store's answer, at most ttl/10 and 1 s. Without an answer the release
    /// is tried again in the background until the lock has expired; that is not an error.
    ///
    /// Cancel safe: a dropped future has released the lock all the same.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if the lease was lost before this call: what was done under the guard may have met
    /// another holder.
    pub async fn release(self) -> Result<(), LockError> {
        let lost = self.check();
        self.hold.release().await;
        lost
    }

    /// A handle that can be given to others; it does not keep the lock.
    pub fn handle(&self) -> LockHandle {
        LockHandle::new(Arc::clone(self.hold.slot()))
    }

    fn slot(&self) -> &Slot {
        self.hold.slot()
    }
}

/// What the body of an annotated function sees of its lock (`guard = name`).
///
/// Cheap to clone. It does not keep the lock: after the function's end it tells that the lease is over.
#[derive(Clone)]
pub struct LockHandle {
    slot: Arc<Slot>,
}

impl LockHandle {
    pub(crate) fn new(slot: Arc<Slot>) -> Self {
        Self { slot }
    }

    /// For the oracle of the tests.
    #[cfg(feature = "__test")]
    pub(crate) fn deadline(&self) -> crate::clock::Instant {
        self.slot.deadline()
    }

    fn slot(&self) -> &Slot {
        &self.slot
    }
}

macro_rules! lease_view {
    ($holder:ident) => {
        impl $holder {
            /// The key without its namespace.
            pub fn key(&self) -> &str {
                self.slot().name()
            }

            /// The number that this acquisition got; a later holder of the key has a greater one. It was taken when
            /// the lock was and never changes. `None` where the store promises none.
            pub fn fence(&self) -> Option<Fence> {
                self.slot().fence()
            }

            /// How long the lease lasts if it is not renewed; zero once it is over.
            pub fn remaining(&self) -> Duration {
                self.slot().remaining()
            }

            /// Whether the lease still lasts. Ask before a step that must not happen without the lock; the answer can
            /// be out of date a moment later, so let the resource check the [`fence`](Self::fence) as well.
            ///
            /// # Errors
            ///
            /// [`LockError::Lost`] once the lease is over.
            pub fn check(&self) -> Result<(), LockError> {
                self.slot().check()
            }

            /// Ends when the lease is over: lost, or released. Cancel safe.
            pub async fn lost(&self) {
                self.slot().over().await;
            }
        }

        impl fmt::Debug for $holder {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($holder))
                    .field("key", &self.key())
                    .field("fence", &self.fence())
                    .field("remaining", &self.remaining())
                    .finish_non_exhaustive()
            }
        }
    };
}

lease_view!(LockGuard);
lease_view!(LockHandle);
