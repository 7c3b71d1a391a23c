//! The lease cell: the state that the engine and one call share.

use std::fmt;
use std::pin::pin;
use std::sync::{Arc, OnceLock, TryLockError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::sync::Notify;

use super::core::ticket::Removal;
use super::shown_fence::ShownFence;
use super::wakers::guarded;
use crate::base::clock::{Clock, Instant};
use crate::base::full_key::FullKey;
use crate::base::seeded::seeded;
use crate::base::sync::{Mutex, PoisonError};
use crate::base::sync::{
    atomic::AtomicBool, atomic::AtomicU8, atomic::AtomicU64, atomic::Ordering, atomic::fence,
};
use crate::base::token::Token;
use crate::error::LockError;
use crate::fence::Fence;
use crate::store::kept::Kept;

/// State of one lock of one call. It exists from before the acquire until after the release.
///
/// The engine writes the state, from one thread at a time. A change may return a waker to call or
/// drop. The caller reads the state, stores its waker and calls `close`. The engine never waits for
/// the caller, whose thread may be suspended inside a method.
///
/// The caller reads the deadline before each poll of the body. It may briefly read an outdated
/// deadline. That does no harm, because the store has confirmed every deadline that was ever
/// written.
pub(crate) struct LeaseCell {
    key: FullKey,
    clock: Clock,
    /// Nanoseconds on the pool's clock; zero while the lock is not held.
    deadline: AtomicU64,
    /// The last deadline confirmed by the store. The tests' oracle reads it even after the release.
    #[cfg(feature = "__test")]
    confirmed: AtomicU64,
    /// The current [`Phase`], as a number.
    phase: AtomicU8,
    /// Reason why the lock was not taken. Set before the phase becomes [`Phase::Failed`].
    error: OnceLock<Box<LockError>>,
    /// The kept result that answers the call. Set before the phase becomes [`Phase::Recalled`].
    kept: OnceLock<Arc<Kept>>,
    /// Token of the lock, if an earlier call of this process handed it over. Set before the grant.
    inherited: OnceLock<Token>,
    fence: ShownFence,
    /// True if the call has turned its exclusive lock into a share.
    shared: AtomicBool,
    /// True if an earlier request for the lock had no answer at the grant. After another process
    /// has adopted and released the lock, this request may take it again with the same token.
    pub(crate) unsettled: AtomicBool,
    /// True if `force_release` has taken the lock away.
    taken_away: AtomicBool,
    /// Waker of the task that waits for the grant, polls the body, or waits for the release. The
    /// engine only uses `try_lock` on this mutex, so it never waits for the caller.
    waker: Mutex<Option<Waker>>,
    /// True if the waker's task waits for the end of the release, and no longer polls the body.
    awaits_release: AtomicBool,
    /// Notified when the lock is no longer held. Created by the first task that waits for this.
    over: OnceLock<Box<Notify>>,
}

/// A waker taken from a lease cell. A waker runs the program's code, so it is called or dropped
/// only after the engine's mutex is released.
#[derive(Debug)]
pub(super) enum Parting {
    Wake(Waker),
    /// The waker's task is awake or gone, so the waker is only dropped.
    Drop(Waker),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Phase {
    Waiting,
    Held,
    Lost,
    Failed,
    Recalled,
    ReleasedConfirmed,
    ReleasedGone,
    ReleasedUnknown,
}

impl Phase {
    const ALL: [Self; 8] = [
        Self::Waiting,
        Self::Held,
        Self::Lost,
        Self::Failed,
        Self::Recalled,
        Self::ReleasedConfirmed,
        Self::ReleasedGone,
        Self::ReleasedUnknown,
    ];

    fn released(removal: Removal) -> Self {
        match removal {
            Removal::Confirmed => Self::ReleasedConfirmed,
            Removal::Gone => Self::ReleasedGone,
            Removal::Unknown => Self::ReleasedUnknown,
        }
    }

    fn removal(self) -> Option<Removal> {
        match self {
            Self::Waiting | Self::Held | Self::Lost => None,
            Self::ReleasedConfirmed => Some(Removal::Confirmed),
            Self::ReleasedGone => Some(Removal::Gone),
            Self::Failed | Self::Recalled | Self::ReleasedUnknown => Some(Removal::Unknown),
        }
    }
}

impl LeaseCell {
    /// Creates the cell of a waiting call. `clock` is the clock of the deadline. For `verifies`,
    /// see [`LockStore::verifies`](crate::store::LockStore::verifies).
    pub(crate) fn new(key: FullKey, clock: Clock, verifies: bool) -> Arc<Self> {
        Arc::new(Self {
            key,
            clock,
            deadline: AtomicU64::new(0),
            #[cfg(feature = "__test")]
            confirmed: AtomicU64::new(0),
            phase: AtomicU8::new(Phase::Waiting as u8),
            error: OnceLock::new(),
            kept: OnceLock::new(),
            inherited: OnceLock::new(),
            fence: ShownFence::new(verifies),
            shared: AtomicBool::new(false),
            taken_away: AtomicBool::new(false),
            unsettled: AtomicBool::new(false),
            waker: Mutex::new(None),
            awaits_release: AtomicBool::new(false),
            over: OnceLock::new(),
        })
    }

    pub(crate) fn key(&self) -> &FullKey {
        &self.key
    }

    /// Returns the fence for spans and debug output. This is not a [read](ShownFence::read).
    pub(crate) fn peek_fence(&self) -> Option<Fence> {
        self.fence.peek()
    }

    /// Returns the fence for the program. May return none if the first read comes after the
    /// release, see [`ShownFence::read`].
    pub(crate) fn fence(&self) -> Option<Fence> {
        self.fence.read()
    }

    /// True if a database transaction may still hold the lock after its holder has released it.
    pub(super) fn may_be_pinned(&self) -> bool {
        self.fence.may_pin()
    }

    /// Returns the kept result that answers the call instead of the lock, if there is one.
    pub(crate) fn kept(&self) -> Option<&Arc<Kept>> {
        self.kept.get()
    }

    pub(crate) fn is_shared(&self) -> bool {
        self.shared.load(Ordering::SeqCst)
    }

    /// True if the holder was notified that `force_release` has taken the lock away.
    pub(crate) fn is_taken_away(&self) -> bool {
        self.taken_away.load(Ordering::SeqCst)
    }

    /// Returns the token of the lock, if an earlier call of this process handed it over.
    pub(crate) fn inherited(&self) -> Option<Token> {
        self.inherited.get().copied()
    }

    /// Returns the time until the lease ends without a renewal; zero while the lock is not held.
    pub(crate) fn remaining(&self) -> Duration {
        self.deadline().since(self.clock.now())
    }

    /// Returns the current time if the body may be polled now, otherwise the error of a lost lock.
    pub(crate) fn live_at(&self) -> Result<Instant, LockError> {
        let now = self.clock.now();
        if now < self.deadline() {
            Ok(now)
        } else {
            Err(self.lost_error())
        }
    }

    /// Returns the end of the lease; `Instant::ZERO` while the lock is not held.
    pub(crate) fn deadline(&self) -> Instant {
        Instant::from_nanos(self.deadline.load(Ordering::Acquire))
    }

    /// True if the body may be polled now.
    pub(crate) fn is_live(&self) -> bool {
        !self.remaining().is_zero()
    }

    pub(crate) fn check(&self) -> Result<(), LockError> {
        self.live_at().map(drop)
    }

    pub(crate) fn lost_error(&self) -> LockError {
        LockError::lost(self.key.name(), self.fence())
    }

    /// Waits until the lock is no longer held.
    pub(crate) async fn over(&self) {
        let mut notified = pin!(self.over.get_or_init(Box::default).notified());
        // Registers before the check of `is_live`, so that an end of the lease is not missed.
        notified.as_mut().enable();
        fence(Ordering::SeqCst);
        if self.is_live() {
            notified.await;
        }
    }

    /// Registers this task to be woken when the lock is lost. Returns true if the lock is held now.
    pub(crate) fn register(&self, cx: &Context<'_>) -> bool {
        let ended = || (self.phase() != Phase::Held).then_some(());
        self.poll_with(cx, ended).is_pending()
    }

    /// Ready when the lock is held or refused, or a kept [result](Self::kept) answers the call.
    pub(crate) fn poll_granted(&self, cx: &Context<'_>) -> Poll<Result<(), LockError>> {
        self.poll_with(cx, || match self.phase() {
            Phase::Waiting => None,
            Phase::Failed => self.error.get().map(|error| Err(LockError::clone(error))),
            _ => Some(Ok(())),
        })
    }

    /// Ready with `true` when the lock has become a share, with `false` when it is no longer held.
    pub(crate) fn poll_shared(&self, cx: &Context<'_>) -> Poll<bool> {
        self.poll_with(cx, || {
            let held = self.phase() == Phase::Held;
            (self.shared.load(Ordering::SeqCst) || !held).then_some(held)
        })
    }

    /// Ready with the outcome when the release is over.
    pub(crate) fn poll_released(&self, cx: &Context<'_>) -> Poll<Removal> {
        self.awaits_release.store(true, Ordering::SeqCst);
        self.poll_with(cx, || self.phase().removal())
    }

    /// Ready with the value of `look`. Without a value, the next change of the phase wakes this
    /// task.
    fn poll_with<T>(&self, cx: &Context<'_>, look: impl Fn() -> Option<T>) -> Poll<T> {
        if let Some(found) = look() {
            return Poll::Ready(found);
        }
        self.remember(cx.waker());
        fence(Ordering::SeqCst);
        // Checks again: a change before this memory fence may have found no waker, see `enter`.
        let Some(found) = look() else {
            return Poll::Pending;
        };
        // Drops the unused waker here. Otherwise the engine might drop it with the lease cell,
        // under its mutex, and dropping a waker runs the program's code.
        drop(self.take_waker());
        Poll::Ready(found)
    }

    /// Stores this task's waker. Clones and drops wakers without the cell's mutex, because these
    /// operations run the program's code, which may call into this pool.
    fn remember(&self, waker: &Waker) {
        let lock = || self.waker.lock().unwrap_or_else(PoisonError::into_inner);
        if lock().as_ref().is_some_and(|known| known.will_wake(waker)) {
            return;
        }
        let waker = waker.clone();
        let earlier = lock().replace(waker);
        drop(earlier);
    }

    /// Takes the waker. Returns none while the caller's thread has the mutex to store its waker.
    /// That thread reads the phase afterwards, so it needs no wake-up.
    pub(crate) fn take_waker(&self) -> Option<Waker> {
        match self.waker.try_lock() {
            Ok(mut waker) => waker.take(),
            Err(TryLockError::Poisoned(waker)) => waker.into_inner().take(),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn phase(&self) -> Phase {
        Phase::ALL[usize::from(self.phase.load(Ordering::SeqCst))]
    }

    /// Closes the cell when the holder begins its release. The body does not run after this.
    pub(crate) fn close(&self) {
        self.fence.close();
        if seeded!(HandleOutlivesItsCall) {
            return;
        }
        self.deadline.store(0, Ordering::Release);
        self.notify_over();
    }

    /// Wakes the tasks in [`over`](Self::over). Even if one of their wakers panics, this returns.
    pub(super) fn notify_over(&self) {
        // The method `over` creates the field `over` before it reads the deadline. So either the
        // method finds the lease ended, or this thread finds the field.
        fence(Ordering::SeqCst);
        if let Some(over) = self.over.get() {
            guarded(|| over.notify_waiters());
        }
    }

    pub(super) fn grant(&self, deadline: Instant, fence: Option<Fence>) -> Option<Parting> {
        #[cfg(feature = "__test")]
        self.confirmed.store(deadline.as_nanos(), Ordering::Release);
        self.deadline.store(deadline.as_nanos(), Ordering::Release);
        self.fence.set(fence);
        let waker = self.enter(Phase::Held);
        waker
            .filter(|_| !seeded!(GrantUnnoticed))
            .map(Parting::Wake)
    }

    /// Moves the deadline to a later time, except after a loss or [`close`](Self::close). The
    /// engine may still renew a closed cell, until the command to release it arrives.
    pub(super) fn extend(&self, deadline: Instant) {
        let later =
            |old: u64| (old != 0 && old < deadline.as_nanos()).then_some(deadline.as_nanos());
        let extended = self
            .deadline
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, later);
        #[cfg(feature = "__test")]
        if extended.is_ok() {
            self.confirmed.store(deadline.as_nanos(), Ordering::Release);
        }
        let _ = extended;
    }

    /// Returns the end of the lease as last confirmed by the store, even after the lease is over.
    #[cfg(feature = "__test")]
    pub(crate) fn confirmed(&self) -> Instant {
        Instant::from_nanos(self.confirmed.load(Ordering::Acquire))
    }

    pub(super) fn share(&self) -> Option<Parting> {
        self.shared.store(true, Ordering::SeqCst);
        self.enter(Phase::Held).map(Parting::Wake)
    }

    /// Ends the lease with a loss. The engine must call [`notify_over`](Self::notify_over) after
    /// this, and after [`orphan`](Self::orphan). Any other end of a lease begins with
    /// [`close`](Self::close), which itself calls `notify_over`.
    pub(super) fn lose(&self) -> Option<Parting> {
        let waker = self.finish(Phase::Lost);
        waker.filter(|_| !seeded!(LossUnnoticed))
    }

    /// Records that the lock is taken away by force. The loss of the lease follows.
    pub(super) fn take_away(&self) {
        self.taken_away.store(true, Ordering::SeqCst);
    }

    pub(super) fn inherit(&self, token: Token) {
        // A call gets a handed-over lock at most once, so `set` cannot fail.
        let _ = self.inherited.set(token);
    }

    pub(super) fn recall(&self, kept: Arc<Kept>) -> Option<Parting> {
        // A call is answered at most once, so `set` cannot fail.
        let _ = self.kept.set(kept);
        self.finish(Phase::Recalled)
    }

    pub(super) fn fail(&self, error: LockError) -> Option<Parting> {
        // If there are two errors, `set` fails, and the first one stays.
        let _ = self.error.set(Box::new(error));
        self.finish(Phase::Failed)
    }

    /// Sets the outcome of the release; after a recorded loss it is `Gone`. A task that has closed
    /// the cell, but not polled for the release yet, is not woken: it is awake, and polls next.
    pub(super) fn release(&self, removal: Removal) -> Option<Parting> {
        self.deadline.store(0, Ordering::Release);
        let before = self.phase();
        let removal = match before {
            Phase::Lost => Removal::Gone,
            _ => removal,
        };
        let waker = self.enter(Phase::released(removal))?;
        // A task that polls for the release after this load finds the new phase without a wake-up.
        let asks = self.awaits_release.load(Ordering::SeqCst);
        let awake = matches!(before, Phase::Held | Phase::Lost) && !asks;
        Some(if awake {
            Parting::Drop(waker)
        } else {
            Parting::Wake(waker)
        })
    }

    /// Takes the waker of a dropped call. The waker must be dropped without the engine's mutex.
    pub(super) fn forget(&self) -> Option<Parting> {
        self.take_waker().map(Parting::Drop)
    }

    /// Ends the cell of a stopped engine, which no longer grants or renews a lock.
    pub(super) fn orphan(&self, error: LockError) -> Option<Parting> {
        match self.phase() {
            Phase::Waiting => self.fail(error),
            Phase::Held => self.finish(Phase::ReleasedUnknown),
            Phase::Lost => self.finish(Phase::ReleasedGone),
            _ => None,
        }
    }

    fn finish(&self, phase: Phase) -> Option<Parting> {
        self.deadline.store(0, Ordering::Release);
        self.enter(phase).map(Parting::Wake)
    }

    /// Enters the next phase and takes the waker. If the caller has the waker's mutex at this
    /// moment, it reads the phase afterwards. The two memory fences, here and in `poll_with`, order
    /// the phase and the mutex. So either the caller sees the new phase, or the engine sees the
    /// waker.
    fn enter(&self, phase: Phase) -> Option<Waker> {
        self.phase.store(phase as u8, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        self.take_waker()
    }
}

impl fmt::Debug for LeaseCell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseCell")
            .field("key", &self.key.name())
            .field("fence", &self.peek_fence())
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "lease_cell_tests.rs"]
mod tests;
