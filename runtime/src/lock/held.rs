//! The locks of a call, from when it has all of them.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;

use super::leases::{Lease, Locks, any_over};
use super::pending::Hold;
use crate::base::one_or_many::Few;
use crate::base::seeded::seeded;
use crate::engine::lease_cell::Slot;
use crate::error::LockError;

/// The locks of a call, held. Dropping it releases those that the call has taken itself.
pub(crate) struct Taken {
    locks: Locks,
    places: Few<Place>,
}

/// How a call came to one of its locks.
pub(crate) enum Place {
    /// It took the lock.
    Held(Hold),
    /// It is nested in a call that holds the lock, and it is its turn.
    Entered(Turn),
}

/// The turn of a nested call, given back when this is dropped.
pub(crate) struct Turn {
    slot: Arc<Slot>,
    _permit: OwnedSemaphorePermit,
}

impl Turn {
    /// It, if nobody has it.
    pub(crate) fn at_once(holder: &Lease) -> Option<Self> {
        let permit = holder.turns().try_acquire_owned().ok()?;
        Some(Self::of(holder, permit))
    }

    /// Waits for it, as long as the lease lasts and `ended` has not. Nothing is returned if that ends first.
    pub(crate) async fn wait(
        holder: &Lease,
        ended: impl Future<Output = ()>,
    ) -> Result<Option<Self>, LockError> {
        let mut turn = pin!(holder.turns().acquire_owned());
        let mut over = pin!(holder.slot.over());
        let mut ended = pin!(ended);
        let permit = poll_fn(|cx| {
            if over.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Err(holder.slot.lost_error()));
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

    fn of(holder: &Lease, permit: OwnedSemaphorePermit) -> Self {
        Self {
            slot: Arc::clone(&holder.slot),
            _permit: permit,
        }
    }
}

impl Place {
    pub(crate) fn slot(&self) -> &Arc<Slot> {
        match self {
            Self::Held(hold) => hold.slot(),
            Self::Entered(turn) => &turn.slot,
        }
    }
}

impl Taken {
    pub(crate) fn new(locks: Locks, places: Few<Place>) -> Self {
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
            if let Place::Held(hold) = place {
                held &= hold.slot().register(cx);
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
        Some(Box::pin(any_over(self.entered().map(|turn| &turn.slot))))
    }

    /// Makes shares of the locks.
    pub(crate) async fn downgrade(&self) -> Result<(), LockError> {
        for place in self.places.iter() {
            match place {
                Place::Held(hold) => hold.downgrade().await?,
                Place::Entered(_) => {
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
    pub(crate) async fn release_and_tell(mut self, keep: Option<Duration>) -> Option<Arc<Slot>> {
        self.begin_release(keep);
        let mut gone = None;
        for hold in self.held() {
            if hold.released().await {
                gone = Some(Arc::clone(hold.slot()));
            }
        }
        gone
    }

    fn begin_release(&mut self, keep: Option<Duration>) {
        let held = self.places.iter_mut().filter_map(|place| match place {
            Place::Held(hold) => Some(hold),
            Place::Entered(turn) => {
                if seeded!(InnerEndReleases) {
                    turn.slot.close();
                }
                None
            }
        });
        Hold::begin_release_all(held, keep);
    }

    /// The last one first, as the caller of the last release may be chosen to look for the answers
    /// of all.
    fn held(&self) -> impl Iterator<Item = &Hold> {
        self.places.iter().rev().filter_map(|place| match place {
            Place::Held(hold) => Some(hold),
            Place::Entered(_) => None,
        })
    }

    fn entered(&self) -> impl Iterator<Item = &Turn> {
        self.places.iter().filter_map(|place| match place {
            Place::Entered(turn) => Some(turn),
            Place::Held(_) => None,
        })
    }
}
