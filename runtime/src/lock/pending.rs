//! A place in the engine: for one lock of one call.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::Duration;

use tokio::task::coop;

use crate::base::seeded::seeded;
use crate::engine::core::ticket::{Acquire, Removal, TicketId};
use crate::engine::driver::command::Command;
use crate::engine::lease_cell::LeaseCell;
use crate::error::LockError;
use crate::pool::LockPool;

/// A place in the engine, from before anything is sent until the release. Dropping it, at any time, lets go of
/// whatever it stands for: a place in the queue, an acquire on its way, a lock.
pub(crate) struct PendingLock {
    pool: LockPool,
    id: TicketId,
    cell: Arc<LeaseCell>,
    let_go: bool,
}

impl PendingLock {
    /// Asks for the lock; to be followed by [`taken`](Self::taken).
    pub(crate) fn ask(pool: LockPool, acquire: Acquire) -> Result<Self, LockError> {
        let cell = LeaseCell::new(acquire.key.clone(), pool.engine().clock());
        let hold = Self::new(pool, cell);
        hold.tell(Command::Acquire {
            id: hold.id,
            acquire,
            cell: Arc::clone(&hold.cell),
        })?;
        Ok(hold)
    }

    /// Waits for the lock that was asked for.
    ///
    /// Cancel safety: the ticket exists before the engine hears of the order, so a future that is dropped at any
    /// point leaves no orphan: the engine waits for a reply that is on its way, and removes what it set.
    pub(crate) async fn taken(mut self) -> Result<Self, LockError> {
        let granted = self.granted().await;
        // Refused: the engine has forgotten the ticket already.
        self.let_go = granted.is_err();
        granted?;
        // This task may have slept past the lease's end before it heard of the grant.
        self.cell.check()?;
        Ok(self)
    }

    /// Takes the locks of one call that tries once, at once; with a `wait` it goes on to queue for them if they cannot be had now.
    /// Nothing is returned where they can only be taken one by one.
    ///
    /// Cancel safety: as [`taken`](Self::taken), for each of them.
    pub(crate) async fn take_all(
        pool: &LockPool,
        wanted: impl ExactSizeIterator<Item = Acquire>,
        wait: Duration,
    ) -> Result<Option<Vec<Self>>, LockError> {
        let mut holds = Vec::with_capacity(wanted.len());
        let mut acquires = Vec::with_capacity(wanted.len());
        for acquire in wanted {
            let cell = LeaseCell::new(acquire.key.clone(), pool.engine().clock());
            let hold = Self::new(pool.clone(), cell);
            acquires.push((hold.id, acquire, Arc::clone(&hold.cell)));
            holds.push(hold);
        }
        pool.engine().send(Command::AcquireAll { acquires, wait })?;
        for hold in &mut holds {
            let granted = hold.granted().await;
            hold.let_go = granted.is_err();
            granted?;
        }
        let held = holds.iter().all(|hold| hold.cell.is_live());
        Ok(held.then_some(holds))
    }

    fn new(pool: LockPool, cell: Arc<LeaseCell>) -> Self {
        Self {
            id: pool.engine().next_ticket(),
            pool,
            cell,
            let_go: false,
        }
    }

    /// How the order was answered. Now and then this lets other tasks of the runtime run, even if
    /// the answer is there: a task that takes one lock after the other may never wait.
    async fn granted(&self) -> Result<(), LockError> {
        poll_fn(|cx| {
            let turn = ready!(coop::poll_proceed(cx));
            let granted = ready!(self.cell.poll_granted(cx));
            turn.made_progress();
            Poll::Ready(granted)
        })
        .await
    }

    pub(crate) fn cell(&self) -> &Arc<LeaseCell> {
        &self.cell
    }

    /// Lets readers in beside this call.
    ///
    /// Cancel safe: the engine goes on with it.
    pub(crate) async fn downgrade(&self) -> Result<(), LockError> {
        self.cell.check()?;
        self.tell(Command::Downgrade(self.id))?;
        if poll_fn(|cx| self.cell.poll_shared(cx)).await {
            return Ok(());
        }
        Err(self.cell.lost_error())
    }

    /// Asks for the release, now or after `keep`, without waiting for it.
    pub(crate) fn begin_release(&mut self, keep: Option<Duration>) {
        self.cell.close();
        // If the engine is gone, the lock expires after its ttl; otherwise it has heard of this.
        self.let_go = self.tell(Command::Release { id: self.id, keep }).is_ok();
    }

    /// The same for the locks of one call.
    pub(crate) fn begin_release_all<'a>(
        mut holds: impl Iterator<Item = &'a mut Self>,
        keep: Option<Duration>,
    ) {
        let Some(first) = holds.next() else {
            return;
        };
        let others: Vec<_> = holds.collect();
        if others.is_empty() {
            return first.begin_release(keep);
        }
        let mut ids = vec![first.id];
        first.cell.close();
        for hold in &others {
            hold.cell.close();
            if !seeded!(SecondKeyKept) {
                ids.push(hold.id);
            }
        }
        first.let_go = first.tell(Command::ReleaseAll { ids, keep }).is_ok();
        for hold in others {
            hold.let_go = first.let_go;
        }
    }

    /// Waits for the store's answer to a release that was asked for, at most ttl/10 and 1 s. Without an answer the release is
    /// tried again in the background.
    ///
    /// Returns whether the store answered that the lock was gone: a lost lease.
    pub(crate) async fn released(&self) -> bool {
        if !self.let_go {
            return false;
        }
        poll_fn(|cx| self.cell.poll_released(cx)).await == Removal::Gone
    }

    fn tell(&self, command: Command) -> Result<(), LockError> {
        self.pool.engine().send(command)
    }
}

impl Drop for PendingLock {
    fn drop(&mut self) {
        let forgotten = seeded!(DropForgotten) && self.cell.is_live();
        if !self.let_go && !forgotten {
            self.cell.close();
            // If the engine is gone, the lock expires after its ttl.
            let _ = self.tell(Command::Abandon(self.id));
        }
    }
}
