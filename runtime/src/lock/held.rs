//! The locks of a call, from when it has all of them.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;

use super::leases::{LeaseRef, Locks, any_over};
use super::pending::PendingLock;
use crate::base::one_or_many::OneOrMany;
use crate::base::seeded::seeded;
use crate::engine::lease_cell::LeaseCell;
use crate::error::LockError;

/// The locks of a call, held. Dropping it releases those that the call has taken itself.
pub(crate) struct HeldLocks {
    locks: Locks,
    places: OneOrMany<HeldLock>,
}

/// How a call came to one of its locks.
pub(crate) enum HeldLock {
    /// It took the lock.
    Held(PendingLock),
    /// It is nested in a call that holds the lock, and it is its turn.
    Entered(NestedPermit),
}

/// The turn of a nested call, given back when this is dropped.
pub(crate) struct NestedPermit {
    cell: Arc<LeaseCell>,
    _permit: OwnedSemaphorePermit,
}

impl NestedPermit {
    /// It, if nobody has it.
    pub(crate) fn at_once(holder: &LeaseRef) -> Option<Self> {
        let permit = holder.turns().try_acquire_owned().ok()?;
        Some(Self::of(holder, permit))
    }

    /// Waits for it, as long as the lease lasts and `ended` has not. Nothing is returned if that ends first.
    pub(crate) async fn wait(
        holder: &LeaseRef,
        ended: impl Future<Output = ()>,
    ) -> Result<Option<Self>, LockError> {
        let mut turn = pin!(holder.turns().acquire_owned());
        let mut over = pin!(holder.cell.over());
        let mut ended = pin!(ended);
        let permit = poll_fn(|cx| {
            if over.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Err(holder.cell.lost_error()));
            }
            // Before the turn: what comes after the budget is not taken.
            if ended.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Ok(None));
            }
            // Nobody closes the semaphore.
            turn.as_mut().poll(cx).map(|permit| Ok(permit.ok()))
        });
        let permit = permit.await?;
        Ok(permit.map(|permit| Self::of(holder, permit)))
    }

    fn of(holder: &LeaseRef, permit: OwnedSemaphorePermit) -> Self {
        Self {
            cell: Arc::clone(&holder.cell),
            _permit: permit,
        }
    }
}

impl HeldLock {
    pub(crate) fn cell(&self) -> &Arc<LeaseCell> {
        match self {
            Self::Held(hold) => hold.cell(),
            Self::Entered(turn) => &turn.cell,
        }
    }
}

impl HeldLocks {
    pub(crate) fn new(locks: Locks, places: OneOrMany<HeldLock>) -> Self {
        Self { locks, places }
    }

    pub(crate) fn locks(&self) -> &Locks {
        &self.locks
    }

    /// Whether a call further out holds one of the locks: then this call is a part of that one.
    pub(crate) fn is_nested(&self) -> bool {
        self.entered().next().is_some()
    }

    /// Wakes this task when a lease that the call has taken itself is lost; whether none has been until now.
    pub(crate) fn register(&self, cx: &Context<'_>) -> bool {
        let mut held = true;
        let watched = if seeded!(OnlyFirstKeyWakes) {
            1
        } else {
            self.places.len()
        };
        for place in self.places.iter().take(watched) {
            if let HeldLock::Held(hold) = place {
                held &= hold.cell().register(cx);
            }
        }
        held
    }

    /// Ends when a lease that the call has entered is over. Its slot wakes one task, which is that of the call further out;
    /// this call may be polled by another, in a `FuturesUnordered` for example.
    pub(crate) fn left(&self) -> Option<Pin<Box<dyn Future<Output = ()> + Send + '_>>> {
        if !self.is_nested() {
            return None;
        }
        Some(Box::pin(any_over(self.entered().map(|turn| &turn.cell))))
    }

    /// Makes shares of the locks.
    pub(crate) async fn downgrade(&self) -> Result<(), LockError> {
        for place in self.places.iter() {
            match place {
                HeldLock::Held(hold) => hold.downgrade().await?,
                HeldLock::Entered(_) => {
                    return Err(LockError::config(
                        "a lock that a nested call has entered belongs to the call further out, which alone can share it; \
                         take the lock where it is to be downgraded",
                    ));
                }
            }
        }
        Ok(())
    }

    /// Releases what the call has taken itself, now or after `keep`, and waits for the store's
    /// answers, at most ttl/10 and 1 s. The engine logs and counts a lock that the store did not
    /// have any more.
    ///
    /// Cancel safe: all releases have been asked for before the first wait.
    pub(crate) async fn release(mut self, keep: Option<Duration>) {
        self.begin_release(keep);
        for hold in self.held() {
            hold.released().await;
        }
    }

    /// As [`release`](Self::release). Returns the lock that the store did not have any more: its
    /// lease was lost. Of several it is the first.
    pub(crate) async fn release_and_tell(
        mut self,
        keep: Option<Duration>,
    ) -> Option<Arc<LeaseCell>> {
        self.begin_release(keep);
        let mut gone = None;
        for hold in self.held() {
            if hold.released().await {
                gone = Some(Arc::clone(hold.cell()));
            }
        }
        gone
    }

    fn begin_release(&mut self, keep: Option<Duration>) {
        let held = self.places.iter_mut().filter_map(|place| match place {
            HeldLock::Held(hold) => Some(hold),
            HeldLock::Entered(turn) => {
                if seeded!(InnerEndReleases) {
                    turn.cell.close();
                }
                None
            }
        });
        PendingLock::begin_release_all(held, keep);
    }

    /// The last one first, as the caller of the last release may be chosen to look for the answers
    /// of all.
    fn held(&self) -> impl Iterator<Item = &PendingLock> {
        self.places.iter().rev().filter_map(|place| match place {
            HeldLock::Held(hold) => Some(hold),
            HeldLock::Entered(_) => None,
        })
    }

    fn entered(&self) -> impl Iterator<Item = &NestedPermit> {
        self.places.iter().filter_map(|place| match place {
            HeldLock::Entered(turn) => Some(turn),
            HeldLock::Held(_) => None,
        })
    }
}
