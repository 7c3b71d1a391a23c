//! A place in the engine: for one lock of one call.

use std::future::poll_fn;
use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::engine::{Command, Order, Removal, Slot, TicketId, guarded};
use crate::seeded::seeded;
use crate::{LockError, LockPool};

/// A place in the engine, from before anything is sent until the release. Dropping it, at any time, lets go of
/// whatever it stands for: a place in the queue, an acquire on its way, a lock.
pub(crate) struct Hold {
    pool: LockPool,
    id: TicketId,
    slot: Arc<Slot>,
    let_go: bool,
}

impl Hold {
    /// Asks for the lock; to be followed by [`taken`](Self::taken).
    pub(crate) fn ask(pool: LockPool, order: Order) -> Result<Self, LockError> {
        let slot = Slot::new(order.key.clone(), pool.engine().clock());
        let hold = Self::new(pool, slot);
        hold.tell(Command::Acquire {
            id: hold.id,
            order,
            slot: Arc::clone(&hold.slot),
        })?;
        Ok(hold)
    }

    /// Waits for the lock that was asked for.
    ///
    /// Cancel safety: the ticket exists before the engine hears of the order, so a future that is dropped at any
    /// point leaves no orphan: the engine waits for a reply that is on its way, and removes what it set.
    pub(crate) async fn taken(mut self) -> Result<Self, LockError> {
        let (granted, slept) = self.granted().await;
        if !slept {
            self.pool.engine().answered_at_once();
        }
        // Refused: the engine has forgotten the ticket already.
        self.let_go = granted.is_err();
        granted?;
        // This task may have slept past the lease's end before it heard of the grant.
        self.slot.check()?;
        Ok(self)
    }

    /// Takes the locks of one call that tries once, at once; with a `wait` it goes on to queue for them if they cannot be had now.
    /// Nothing is returned where they can only be taken one by one.
    ///
    /// Cancel safety: as [`taken`](Self::taken), for each of them.
    pub(crate) async fn take_all(
        pool: &LockPool,
        wanted: impl ExactSizeIterator<Item = Order>,
        wait: Duration,
    ) -> Result<Option<Vec<Self>>, LockError> {
        let mut holds = Vec::with_capacity(wanted.len());
        let mut orders = Vec::with_capacity(wanted.len());
        for order in wanted {
            let slot = Slot::new(order.key.clone(), pool.engine().clock());
            let hold = Self::new(pool.clone(), slot);
            orders.push((hold.id, order, Arc::clone(&hold.slot)));
            holds.push(hold);
        }
        pool.engine().send(Command::AcquireAll { orders, wait })?;
        let mut any_slept = false;
        for hold in &mut holds {
            let (granted, slept) = hold.granted().await;
            any_slept |= slept;
            hold.let_go = granted.is_err();
            granted?;
        }
        if !any_slept {
            pool.engine().answered_at_once();
        }
        let held = holds.iter().all(|hold| hold.slot.is_live());
        Ok(held.then_some(holds))
    }

    fn new(pool: LockPool, slot: Arc<Slot>) -> Self {
        Self {
            id: pool.engine().next_ticket(),
            pool,
            slot,
            let_go: false,
        }
    }

    /// How the order was answered, and whether this task had to wait for that.
    async fn granted(&self) -> (Result<(), LockError>, bool) {
        let mut slept = false;
        let granted = poll_fn(|cx| {
            let told = self.told(cx, Slot::poll_granted);
            slept |= told.is_pending();
            told
        });
        (granted.await, slept)
    }

    pub(crate) fn slot(&self) -> &Arc<Slot> {
        &self.slot
    }

    /// Lets readers in beside this call.
    ///
    /// Cancel safe: the engine goes on with it.
    pub(crate) async fn downgrade(&self) -> Result<(), LockError> {
        self.slot.check()?;
        self.tell(Command::Downgrade(self.id))?;
        if poll_fn(|cx| self.told(cx, Slot::poll_shared)).await {
            return Ok(());
        }
        Err(self.slot.lost_error())
    }

    /// Asks for the release, now or after `keep`, without waiting for it.
    pub(crate) fn begin_release(&mut self, keep: Option<Duration>) {
        self.slot.close();
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
        first.slot.close();
        for hold in &others {
            hold.slot.close();
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
        let waiting = Waiting(self);
        let removal = poll_fn(|cx| self.told(cx, Slot::poll_released)).await;
        mem::forget(waiting);
        removal == Removal::Gone
    }

    /// What the engine has told this place. While the answer of the server is near, this task looks for it itself instead of sleeping: then
    /// it need not be woken. Between looks it lets others have the thread, but within [`Engine::stretch`].
    fn told<T>(&self, cx: &Context<'_>, poll: impl Fn(&Slot, &Context<'_>) -> Poll<T>) -> Poll<T> {
        let engine = self.pool.engine();
        let stretch = engine.stretch().map(|long| engine.clock().now() + long);
        loop {
            let rests = engine.look(self.id, cx);
            let told = poll(&self.slot, cx);
            // After the slot knows this task: who is chosen to look before that is not woken for it.
            if told.is_ready() || rests || !engine.is_asker(self.id) {
                return told;
            }
            if stretch.is_none_or(|until| until <= engine.clock().now()) {
                guarded(|| cx.waker().wake_by_ref());
                return told;
            }
        }
    }

    fn tell(&self, command: Command) -> Result<(), LockError> {
        self.pool.engine().send(command)
    }
}

/// A caller that waits for the end of a release.
struct Waiting<'a>(&'a Hold);

impl Drop for Waiting<'_> {
    /// The release goes on; nobody is to count on this caller to look for answers.
    fn drop(&mut self) {
        // An engine that is gone counts on nobody.
        let _ = self.0.tell(Command::Abandon(self.0.id));
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let forgotten = seeded!(DropForgotten) && self.slot.is_live();
        if !self.let_go && !forgotten {
            self.slot.close();
            // If the engine is gone, the lock expires after its ttl.
            let _ = self.tell(Command::Abandon(self.id));
        }
    }
}
