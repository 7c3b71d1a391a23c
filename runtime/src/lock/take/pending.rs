//! One lock of one call, from the request to the release.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::task::coop;

use crate::base::clock::Instant;
use crate::base::seeded::seeded;
use crate::base::token::Token;
use crate::engine::core::ticket::{Acquire, Adoption, Removal, TicketId};
use crate::engine::driver::command::Command;
use crate::engine::lease_cell::LeaseCell;
use crate::error::LockError;
use crate::pool::{LockPool, PoolId};
use crate::store::kept::Record;

/// One lock of one call. The engine creates its ticket before it sends a request to the store, and
/// keeps the ticket until the release. Dropping this at any time gives up what the ticket has: a
/// place in the queue, a running acquire, or a lock.
pub(crate) struct PendingLock {
    pool: LockPool,
    id: TicketId,
    cell: Arc<LeaseCell>,
    /// The token in this lock's own acquire. A lock that an earlier call of this process handed
    /// over has another token: see [`LeaseCell::inherited`].
    token: Token,
    /// True if a downgrade has begun. The store may still have the lock as an exclusive lock.
    downgrades: AtomicBool,
    let_go: bool,
}

impl PendingLock {
    /// Requests the lock. The caller must poll [`poll_taken`](Self::poll_taken) next, because the
    /// answer wakes only a task that has polled before.
    pub(crate) fn ask(pool: LockPool, acquire: Acquire) -> Result<Self, LockError> {
        let cell = pool.engine().new_cell(&acquire.key);
        let lock = Self::new(pool, cell, acquire.token);
        lock.send(Command::Acquire {
            id: lock.id,
            acquire,
            cell: Arc::clone(&lock.cell),
        })?;
        Ok(lock)
    }

    /// Like [`ask`](Self::ask), for a lock that another process has handed over.
    pub(crate) fn adopt(
        pool: LockPool,
        acquire: Acquire,
        adoption: Adoption,
    ) -> Result<Self, LockError> {
        let cell = pool.engine().new_cell(&acquire.key);
        let lock = Self::new(pool, cell, acquire.token);
        lock.send(Command::Adopt {
            id: lock.id,
            acquire,
            adoption,
            cell: Arc::clone(&lock.cell),
        })?;
        Ok(lock)
    }

    /// Leaves the lock at the store, and returns the lock's token, with which another process can
    /// adopt it. This process no longer renews or releases the lock. If a downgrade has begun, or
    /// an earlier request for the lock may still take it again, returns an error and releases the
    /// lock.
    pub(crate) fn give_away(mut self) -> Result<Token, LockError> {
        if self.downgrades.load(Ordering::SeqCst) {
            return Err(LockError::config(
                "a downgrade of this lock has begun, so it cannot be handed over, and its guard is \
                 dropped; hand the lock over instead of downgrading it",
            ));
        }
        if self.cell.unsettled.load(Ordering::SeqCst) {
            return Err(LockError::unavailable(
                "unsettled",
                "an earlier request for this lock may still take it again, so it cannot be handed \
                 over; take the lock again"
                    .to_owned(),
            ));
        }
        let token = self.cell.inherited().unwrap_or(self.token);
        if !seeded!(RenewedAfterHandOver) {
            self.cell.close();
            self.send(Command::GiveAway(self.id))?;
        }
        self.let_go = true;
        Ok(token)
    }

    pub(crate) fn pool(&self) -> &LockPool {
        &self.pool
    }

    /// Ready when the requested lock is held or cannot be taken, or when a kept result answers the
    /// call ([`LeaseCell::kept`]). For a held lock, returns the current time.
    ///
    /// Cancel safety: the ticket exists before the store gets the request. So a lock dropped at any
    /// point leaves nothing behind: the engine removes the key that the request may have set.
    pub(crate) fn poll_taken(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Instant>, LockError>> {
        ready!(self.poll_granted(cx))?;
        // The lease may have ended between the grant and this poll.
        let now = self.cell.live_at();
        if now.is_err() && self.cell.kept().is_some() {
            // The engine has already forgotten the ticket, so `drop` need not abandon it.
            self.let_go = true;
            return Poll::Ready(Ok(None));
        }
        Poll::Ready(now.map(Some))
    }

    /// Takes the locks of one call with one request, without queueing. The request lasts at most
    /// `io_timeout`, or `wait` if that is shorter and not zero. If a key is held, a call with zero
    /// `wait` gets an error.
    ///
    /// Returns none if the call must take the locks individually, for example because a key is held
    /// and `wait` is not zero. Also returns none if a lease is already over.
    ///
    /// Cancel safety: like [`poll_taken`](Self::poll_taken), for each of the locks.
    pub(crate) async fn take_all(
        pool: &LockPool,
        wanted: impl ExactSizeIterator<Item = Acquire>,
        wait: Duration,
    ) -> Result<Option<Vec<Self>>, LockError> {
        let mut locks = Vec::with_capacity(wanted.len());
        let mut acquires = Vec::with_capacity(wanted.len());
        for acquire in wanted {
            let cell = pool.engine().new_cell(&acquire.key);
            let lock = Self::new(pool.clone(), cell, acquire.token);
            acquires.push((lock.id, acquire, Arc::clone(&lock.cell)));
            locks.push(lock);
        }
        pool.engine().send(Command::AcquireAll { acquires, wait })?;
        for lock in &mut locks {
            poll_fn(|cx| lock.poll_granted(cx)).await?;
        }
        let live = locks.iter().all(|lock| lock.cell.is_live());
        Ok(live.then_some(locks))
    }

    fn new(pool: LockPool, cell: Arc<LeaseCell>, token: Token) -> Self {
        Self {
            id: pool.engine().next_ticket(),
            pool,
            cell,
            token,
            downgrades: AtomicBool::new(false),
            let_go: false,
        }
    }

    /// Polls the engine's answer to the request. Takes part in tokio's cooperative scheduling:
    /// sometimes this is pending although the answer is there, so that other tasks can run.
    /// Otherwise, a task that takes one lock after another might never yield.
    fn poll_granted(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LockError>> {
        let budget = ready!(coop::poll_proceed(cx));
        let granted = ready!(self.cell.poll_granted(cx));
        budget.made_progress();
        // If the lock was refused, the engine has already forgotten the ticket.
        self.let_go = granted.is_err();
        Poll::Ready(granted)
    }

    /// Reports to a test kit that the body has been polled `polls` times inside this lock. The kit
    /// may then take the lock away.
    pub(crate) fn polled(&self, polls: u32) {
        if self.pool.loses(self.id, polls) {
            // The kit takes the lock away when `Listen` makes the engine poll the store. This task
            // is awake, so its stored waker is dropped. Otherwise the loss would cause an
            // additional poll.
            drop(self.cell.take_waker());
            // An error means that the engine has stopped, which has ended the lease.
            let _ = self.send(Command::Listen);
        }
    }

    pub(crate) fn pool_id(&self) -> PoolId {
        self.pool.id()
    }

    pub(crate) fn cell(&self) -> &Arc<LeaseCell> {
        &self.cell
    }

    /// Begins to turn the lock into a share, so that readers can hold it together with this call.
    pub(crate) fn begin_downgrade(&self) -> Result<(), LockError> {
        self.cell.check()?;
        self.downgrades.store(true, Ordering::SeqCst);
        self.send(Command::Downgrade(self.id))
    }

    /// Waits until the lock is a share. Cancel safe: if the future is dropped, the engine continues
    /// the downgrade.
    pub(crate) async fn shared(&self) -> Result<(), LockError> {
        if poll_fn(|cx| self.cell.poll_shared(cx)).await {
            return Ok(());
        }
        Err(self.cell.lost_error())
    }

    /// Keeps the locks of one call at the store for at least `min_hold` from now, even if they are
    /// released or dropped earlier.
    pub(crate) fn keep_min_hold<'a>(locks: impl Iterator<Item = &'a Self>, min_hold: Duration) {
        let locks: Vec<&Self> = locks.collect();
        let Some(first) = locks.first() else {
            return;
        };
        let until = first.pool.engine().clock().now() + min_hold;
        let ids = locks.iter().map(|lock| lock.id).collect();
        // If the engine is gone, the lock expires after its ttl.
        let _ = first.send(Command::KeepUntil { ids, until });
    }

    /// Requests the release, without waiting for the answer. With `keep`, the store keeps the key
    /// for that time after the release.
    pub(crate) fn begin_release(&mut self, keep: Option<Duration>) {
        self.cell.close();
        // An error means that the engine is gone. The lock then expires after its ttl.
        self.let_go = self.send(Command::Release { id: self.id, keep }).is_ok();
    }

    /// Like [`begin_release`](Self::begin_release), but the store also keeps the call's result,
    /// which is in `record`.
    pub(crate) fn begin_release_with(&mut self, keep: Option<Duration>, record: Arc<Record>) {
        self.cell.close();
        let id = self.id;
        // If the engine is gone, the lock expires after its ttl.
        self.let_go = self.send(Command::ReleaseWith { id, keep, record }).is_ok();
    }

    /// Returns the maximum length of a kept result, in bytes.
    #[cfg(feature = "replay")]
    pub(crate) fn replay_limit(&self) -> usize {
        self.pool.replay_limit()
    }

    /// Like [`begin_release`](Self::begin_release), but releases all locks of one call with one
    /// command to the engine.
    pub(crate) fn begin_release_all<'a>(
        mut locks: impl Iterator<Item = &'a mut Self>,
        keep: Option<Duration>,
    ) {
        let Some(first) = locks.next() else {
            return;
        };
        let rest: Vec<_> = locks.collect();
        if rest.is_empty() {
            return first.begin_release(keep);
        }
        let mut ids = vec![first.id];
        first.cell.close();
        for lock in &rest {
            lock.cell.close();
            if !seeded!(SecondKeyKept) {
                ids.push(lock.id);
            }
        }
        first.let_go = first.send(Command::ReleaseAll { ids, keep }).is_ok();
        for lock in rest {
            lock.let_go = first.let_go;
        }
    }

    /// Ready with the store's answer to a requested release. The wait is at most a tenth of the ttl
    /// and at most 1 s. Without an answer by then, the result is false, and the engine retries the
    /// release in the background.
    ///
    /// The result is true if the store answered that the lock was already gone, which means a lost
    /// lease.
    pub(crate) fn poll_released(&self, cx: &Context<'_>) -> Poll<bool> {
        if !self.let_go {
            return Poll::Ready(false);
        }
        let removal = ready!(self.cell.poll_released(cx));
        Poll::Ready(removal == Removal::Gone)
    }

    fn send(&self, command: Command) -> Result<(), LockError> {
        self.pool.engine().send(command)
    }
}

impl Drop for PendingLock {
    fn drop(&mut self) {
        let forgotten = seeded!(DropForgotten) && self.cell.is_live();
        if !self.let_go && !forgotten {
            self.cell.close();
            // If the engine is gone, the lock expires after its ttl.
            let _ = self.send(Command::Abandon(self.id));
        }
    }
}
