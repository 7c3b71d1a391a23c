//! The locks of a call, once it has all of them.

use std::future::{Future, poll_fn};
use std::mem;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tracing::span::Entered;

use super::leases::{LeaseRef, Locks, any_over};
use super::observed::{Asking, Holding};
use super::pending::PendingLock;
use crate::base::clock::Instant;
use crate::base::one_or_many::OneOrMany;
use crate::base::outcome::End;
use crate::base::seeded::seeded;
use crate::engine::lease_cell::LeaseCell;
use crate::error::LockError;
use crate::store::kept::{Kept, Record};

/// The held locks of a call. Dropping this releases the locks that the call has taken itself.
pub(crate) struct HeldLocks {
    locks: Locks,
    held: OneOrMany<HeldLock>,
    /// None until the call has all its locks.
    holding: Option<Holding>,
}

/// How a call got one of its locks.
pub(crate) enum HeldLock {
    /// The call took the lock.
    Held(PendingLock),
    /// An enclosing call holds the lock, and this call has the permit to run inside it.
    Entered(NestedPermit),
}

/// The permit of a nested call: nested calls side by side run one at a time. Dropping this gives
/// the permit back.
pub(crate) struct NestedPermit {
    cell: Arc<LeaseCell>,
    _permit: OwnedSemaphorePermit,
}

impl NestedPermit {
    /// The permit, if it is free.
    pub(crate) fn at_once(holder: &LeaseRef) -> Option<Self> {
        let permit = holder.permit().try_acquire_owned().ok()?;
        Some(Self::of(holder, permit))
    }

    /// Waits for the permit until `ended` ends or the lease is over. Returns none if `ended` ends
    /// first, and an error if the lease is over first.
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
            // Checked before the permit: a permit that comes after the budget is not taken.
            if ended.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Ok(None));
            }
            // The semaphore is never closed.
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

    /// The call has all its locks. `asking`: what is told of it. `now`: the present time, where it
    /// is known.
    pub(crate) fn begin_holding(&mut self, asking: Asking, now: Option<Instant>) {
        let entered = self.own().next().is_none();
        self.holding = Some(asking.granted(self.locks.peek_fence(), entered, now));
    }

    /// The span of what runs inside the locks is the present one while the result of this lives.
    pub(crate) fn enter_span(&self) -> Option<Entered<'_>> {
        self.holding.as_ref().map(Holding::enter)
    }

    /// The call stops holding its locks in this way. Of several the first counts.
    pub(crate) fn ends(&mut self, end: End) {
        if let Some(holding) = &mut self.holding {
            holding.close(end);
        }
    }

    /// As [`ends`](Self::ends), for a call that is done with its locks, or dropped.
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

    /// The call has these locks, too.
    pub(crate) fn add(&mut self, held: OneOrMany<HeldLock>) {
        self.held = held;
    }

    /// Ready when the locks that were asked for are held, or one cannot be taken. As
    /// [`PendingLock::poll_taken`].
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

    /// The locks that the call has taken itself stay at the store for this long from now, however
    /// the call ends.
    pub(crate) fn keep_at_least(&self, at_least: Duration) {
        PendingLock::keep_at_least(self.own(), at_least);
    }

    pub(crate) fn locks(&self) -> &Locks {
        &self.locks
    }

    /// Whether an enclosing call holds one of the locks. This call is then a part of that call.
    pub(crate) fn is_nested(&self) -> bool {
        self.entered().next().is_some()
    }

    /// The body has been polled so often inside these locks. Tells a test kit, which may take one
    /// away.
    #[cfg_attr(
        not(feature = "testing"),
        expect(clippy::unused_self, reason = "there is no test kit")
    )]
    pub(crate) fn polled(&self, polls: u32) {
        #[cfg(feature = "testing")]
        for lock in self.own() {
            lock.polled(polls);
        }
        #[cfg(not(feature = "testing"))]
        let _ = polls;
    }

    /// Registers this task to be woken when a lease is lost that the call has taken itself. Returns
    /// whether all these leases are held now.
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

    /// Ends when a lease that the call has entered is over; none if it has entered no lock.
    ///
    /// A lease cell wakes one task, that of the enclosing call. Another task may poll this call, in
    /// a `FuturesUnordered` for example.
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

    /// Turns the locks into shares.
    pub(crate) async fn downgrade(&self) -> Result<(), LockError> {
        for lock in self.held.iter() {
            match lock {
                HeldLock::Held(lock) => lock.downgrade().await?,
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

    /// Asks for the release of the locks that the call has taken itself, now or after `keep`.
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

    /// Asks for the release of a call's only lock, and for its result to be kept.
    pub(crate) fn begin_release_with(&mut self, keep: Option<Duration>, record: Arc<Record>) {
        self.ends(End::Released);
        match self.held.first_mut() {
            Some(HeldLock::Held(lock)) => lock.begin_release_with(keep, record),
            _ => self.begin_release(keep),
        }
    }

    /// The only lock of a call, if the call has taken it itself.
    pub(crate) fn into_one(mut self) -> Option<PendingLock> {
        match mem::take(&mut self.held) {
            OneOrMany::One(HeldLock::Held(lock)) => {
                self.ends(End::Released);
                Some(lock)
            }
            _ => None,
        }
    }

    /// The result that is kept for a call's only lock, which was not taken because of it.
    pub(crate) fn kept(&self) -> Option<Arc<Kept>> {
        match self.held.first()? {
            HeldLock::Held(lock) => lock.cell().kept().cloned(),
            HeldLock::Entered(_) => None,
        }
    }

    /// The longest result that the pool keeps, in bytes.
    #[cfg(feature = "replay")]
    pub(crate) fn replay_limit(&self) -> usize {
        self.own().next().map_or(0, PendingLock::replay_limit)
    }

    /// Ready when the store has answered to the releases that were asked for, at the latest after a
    /// tenth of the ttl and after 1 s. The engine logs and counts a lock that the store no longer
    /// had: its lease was lost. Of several such locks this returns the first.
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

    /// The locks that the call has taken itself, the last first: `poll_released` keeps the lock
    /// that it finds last.
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
