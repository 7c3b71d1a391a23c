//! The locks of a call that has all of them.

use std::future::{Future, poll_fn};
use std::mem;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tracing::span::Entered;

use super::blocking::Parks;
use super::observed::{Asking, Holding};
use super::pending::PendingLock;
use crate::base::clock::Instant;
use crate::base::one_or_many::OneOrMany;
use crate::base::outcome::End;
use crate::base::seeded::seeded;
use crate::engine::lease_cell::LeaseCell;
use crate::error::LockError;
use crate::lock::nest::leases::{LeaseRef, Locks, any_over};
use crate::store::kept::{Kept, Record};

/// The held locks of a call. Dropping this releases the locks that the call has taken itself.
pub(crate) struct HeldLocks {
    locks: Locks,
    held: OneOrMany<HeldLock>,
    /// None until the call has all its locks.
    holding: Option<Holding>,
}

/// One of the locks of a call.
pub(crate) enum HeldLock {
    /// The call took the lock.
    Held(PendingLock),
    /// An enclosing call holds the lock, and this call has the permit to run inside it.
    Entered(NestedPermit),
}

/// The right of a nested call to run inside a lock of the enclosing call. Of several calls nested
/// side by side, only one at a time has this permit. Dropping it lets the next call run. Not
/// related to the option `permits`.
pub(crate) struct NestedPermit {
    cell: Arc<LeaseCell>,
    _permit: OwnedSemaphorePermit,
}

impl NestedPermit {
    /// Takes the permit, if it is free.
    pub(crate) fn at_once(holder: &LeaseRef) -> Option<Self> {
        let permit = holder.permit().try_acquire_owned().ok()?;
        Some(Self::of(holder, permit))
    }

    /// Takes the permit for a call that parks its thread. Refuses the call if another branch of the
    /// enclosing body has the permit, because the parked thread could not poll that branch.
    pub(crate) fn without_waiting(holder: &LeaseRef, key: &str) -> Result<Self, LockError> {
        holder.cell.check()?;
        Self::at_once(holder).ok_or_else(|| holder.would_deadlock(key))
    }

    /// Waits until no other nested call runs inside the holder's lock, and takes the permit.
    /// Returns none if `ended` completes first, and an error if the holder's lease is over first.
    pub(crate) async fn wait(
        holder: &LeaseRef,
        ended: impl Future<Output = ()>,
    ) -> Result<Option<Self>, LockError> {
        let mut permit = pin!(holder.permit().acquire_owned());
        let mut over = pin!(holder.cell.over());
        let mut ended = pin!(ended);
        let permit = poll_fn(|cx| {
            if over.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Err(holder.cell.lost_error()));
            }
            // Checked before the permit, so that a permit that becomes free after `ended` is not
            // taken.
            if ended.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Ok(None));
            }
            // The semaphore is never closed, so this is never an error.
            permit.as_mut().poll(cx).map(|permit| Ok(permit.ok()))
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
            Self::Held(lock) => lock.cell(),
            Self::Entered(permit) => &permit.cell,
        }
    }
}

impl HeldLocks {
    pub(crate) fn new(locks: Locks, held: OneOrMany<HeldLock>) -> Self {
        Self {
            locks,
            held,
            holding: None,
        }
    }

    /// Records that the call has all its locks. `asking` has the span and the metrics of its
    /// acquire. `now` is the current time, if known.
    pub(crate) fn begin_holding(&mut self, asking: Asking, now: Option<Instant>) {
        let entered = self.own().next().is_none();
        self.holding = Some(asking.granted(&self.locks, entered, now));
    }

    /// Enters the span of the code inside the locks, until the returned value is dropped.
    pub(crate) fn enter_span(&self) -> Option<Entered<'_>> {
        self.holding.as_ref().map(Holding::enter)
    }

    /// Records how the call stops holding its locks. The first recorded end counts.
    pub(crate) fn ends(&mut self, end: End) {
        if let Some(holding) = &mut self.holding {
            holding.close(end);
        }
    }

    /// Like [`ends`](Self::ends), for a dropped call. Does nothing if the end is already recorded.
    fn is_dropped(&mut self) {
        if self.holding.as_ref().is_none_or(Holding::is_closed) {
            return;
        }
        self.ends(if std::thread::panicking() {
            End::Panicked
        } else if self.locks.is_live() {
            End::Dropped
        } else {
            End::Lost
        });
    }

    /// Sets the locks that the call has taken.
    pub(crate) fn add(&mut self, held: OneOrMany<HeldLock>) {
        self.held = held;
    }

    /// Polls [`PendingLock::poll_taken`] of each lock that the call takes itself. Ready with the
    /// result of the last lock, or with the first error.
    pub(crate) fn poll_taken(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Instant>, LockError>> {
        let mut now = None;
        for lock in self.held.iter_mut() {
            if let HeldLock::Held(lock) = lock {
                now = ready!(lock.poll_taken(cx))?;
            }
        }
        Poll::Ready(Ok(now))
    }

    /// Returns an error if parking this thread would block the pool's engine. A call that has taken
    /// no lock itself may always park.
    pub(crate) fn can_park(&self, parks: Parks) -> Result<(), LockError> {
        let mut own = self.own();
        own.next().map_or(Ok(()), |lock| parks.check(lock.pool()))
    }

    /// Returns an error if the call has taken a lock itself, and the store cannot keep locks after
    /// their release.
    pub(crate) fn can_keep(&self) -> Result<(), LockError> {
        let mut own = self.own();
        own.next().map_or(Ok(()), |lock| lock.pool().can_keep())
    }

    /// Makes the store keep the locks that the call has taken itself for `min_hold` from now,
    /// however the call ends.
    pub(crate) fn keep_min_hold(&self, min_hold: Duration) {
        PendingLock::keep_min_hold(self.own(), min_hold);
    }

    pub(crate) fn locks(&self) -> &Locks {
        &self.locks
    }

    /// True if an enclosing call holds one of the locks. This call is then a part of that call.
    pub(crate) fn is_nested(&self) -> bool {
        self.entered().next().is_some()
    }

    /// Reports to a test kit that the body has been polled `polls` times inside these locks. The
    /// kit may take one of them away.
    pub(crate) fn polled(&self, polls: u32) {
        for lock in self.own() {
            lock.polled(polls);
        }
    }

    /// Registers this task to be woken when the call loses a lease that it has taken itself.
    /// Returns true if all these leases are held now.
    pub(crate) fn register(&self, cx: &Context<'_>) -> bool {
        let mut live = true;
        let watched = if seeded!(OnlyFirstKeyWakes) {
            1
        } else {
            self.held.len()
        };
        for lock in self.held.iter().take(watched) {
            if let HeldLock::Held(lock) = lock {
                live &= lock.cell().register(cx);
            }
        }
        live
    }

    /// Returns a future that completes when a lease of an enclosing call, which this call has
    /// entered, is over. None if the call has entered no lock.
    ///
    /// The future is needed because a lease cell wakes only the task of the enclosing call. The
    /// task may then not poll this call. For example, a `FuturesUnordered` polls a future only if
    /// this future's own waker was woken.
    pub(crate) fn entered_over(&self) -> Option<Pin<Box<dyn Future<Output = ()> + Send>>> {
        if !self.is_nested() {
            return None;
        }
        let cells: Vec<_> = self
            .entered()
            .map(|permit| Arc::clone(&permit.cell))
            .collect();
        Some(Box::pin(async move { any_over(cells.iter()).await }))
    }

    /// Turns the locks into shares. Begins with all of them at once, so that a future dropped later
    /// leaves none exclusive.
    pub(crate) async fn downgrade(&self) -> Result<(), LockError> {
        if self.is_nested() {
            return Err(LockError::config(
                "a nested call cannot downgrade the lock of an outer call; take the lock where it \
                 must be downgraded",
            ));
        }
        self.own().try_for_each(PendingLock::begin_downgrade)?;
        for lock in self.own() {
            lock.shared().await?;
        }
        Ok(())
    }

    /// Requests the release of the locks that the call has taken itself. With `keep`, the store
    /// keeps them taken for that time.
    pub(crate) fn begin_release(&mut self, keep: Option<Duration>) {
        self.ends(End::Released);
        let own = self.held.iter_mut().filter_map(|lock| match lock {
            HeldLock::Held(lock) => Some(lock),
            HeldLock::Entered(permit) => {
                if seeded!(InnerEndReleases) {
                    permit.cell.close();
                }
                None
            }
        });
        PendingLock::begin_release_all(own, keep);
    }

    /// Requests the release of a call's only lock. The store keeps the call's result beside the
    /// lock.
    pub(crate) fn begin_release_with(&mut self, keep: Option<Duration>, record: Arc<Record>) {
        self.ends(End::Released);
        match self.held.first_mut() {
            Some(HeldLock::Held(lock)) => lock.begin_release_with(keep, record),
            _ => self.begin_release(keep),
        }
    }

    /// Returns the only lock of a call, if the call has taken it itself.
    pub(crate) fn into_one(mut self) -> Option<PendingLock> {
        match mem::take(&mut self.held) {
            OneOrMany::One(HeldLock::Held(lock)) => {
                self.ends(End::Released);
                Some(lock)
            }
            _ => None,
        }
    }

    /// Returns the kept result that answers the call. If there is one, the call's only lock was not
    /// taken.
    pub(crate) fn kept(&self) -> Option<Arc<Kept>> {
        match self.held.first()? {
            HeldLock::Held(lock) => lock.cell().kept().cloned(),
            HeldLock::Entered(_) => None,
        }
    }

    /// Returns the maximum length of a kept result, in bytes.
    #[cfg(feature = "replay")]
    pub(crate) fn replay_limit(&self) -> usize {
        self.own().next().map_or(0, PendingLock::replay_limit)
    }

    /// Ready when the store has answered the requested releases. Waits at most a tenth of the ttl
    /// and at most 1 s. If the store no longer had a lock, its lease was lost. The engine then logs
    /// and counts the loss, and this returns the first lost lock.
    pub(crate) fn poll_released(&mut self, cx: &Context<'_>) -> Poll<Option<Arc<LeaseCell>>> {
        let mut gone = None;
        for lock in self.own() {
            if ready!(lock.poll_released(cx)) {
                gone = Some(Arc::clone(lock.cell()));
            }
        }
        if gone.is_some()
            && let Some(holding) = &mut self.holding
        {
            holding.was_lost();
        }
        Poll::Ready(gone)
    }

    /// Returns the locks that the call has taken itself, in reverse order. `poll_released` keeps
    /// the last lost lock that it finds, and so returns the first one.
    fn own(&self) -> impl Iterator<Item = &PendingLock> {
        self.held.iter().rev().filter_map(|lock| match lock {
            HeldLock::Held(lock) => Some(lock),
            HeldLock::Entered(_) => None,
        })
    }

    fn entered(&self) -> impl Iterator<Item = &NestedPermit> {
        self.held.iter().filter_map(|lock| match lock {
            HeldLock::Entered(permit) => Some(permit),
            HeldLock::Held(_) => None,
        })
    }
}

impl Drop for HeldLocks {
    fn drop(&mut self) {
        self.is_dropped();
    }
}
