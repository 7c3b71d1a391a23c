//! Feeds the core and carries out what it decides.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant as TokioInstant, Sleep, sleep};

use super::core::{Core, Limits, Signal};
use super::meter;
use super::shutdown::ShutdownReport;
use super::slot::Slot;
use super::ticket::{Order, TicketId};
use crate::clock::Clock;
use crate::counted::CountedMap;
use crate::store::{LockStore, StoreEvent};
use crate::{LockError, StoreError};

/// How many commands or events are taken before what follows from them is carried out.
const LIMIT: usize = 1024;

/// The longest sleep. The runtime's timers stand still while the machine sleeps and leases do not, so the
/// time is looked at again after this long.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// What callers ask of the engine.
pub(crate) enum Command {
    Acquire {
        id: TicketId,
        order: Box<Order>,
        slot: Arc<Slot>,
    },
    Release {
        id: TicketId,
        /// For how long the key is to stay.
        keep: Option<Duration>,
    },
    Abandon(TicketId),
    Downgrade(TicketId),
    ShutDown {
        limit: Duration,
        reply: oneshot::Sender<ShutdownReport>,
    },
}

/// A pool's end of the engine. The engine ends when all of these are gone and nothing is left to do.
#[derive(Debug)]
pub(crate) struct Engine {
    commands: mpsc::UnboundedSender<Command>,
    clock: Clock,
    last_ticket: AtomicU64,
}

impl Engine {
    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    pub(crate) fn next_ticket(&self) -> TicketId {
        TicketId(self.last_ticket.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn send(&self, command: Command) -> Result<(), LockError> {
        self.commands.send(command).map_err(|_| stopped())
    }
}

/// The engine's state and its surroundings.
pub(crate) struct Driver {
    core: Core,
    store: Box<dyn LockStore>,
    clock: Clock,
    commands: mpsc::UnboundedReceiver<Command>,
    inbox: Vec<Command>,
    events: Vec<StoreEvent>,
    slots: CountedMap<TicketId, Arc<Slot>>,
    shutdowns: HashMap<u64, oneshot::Sender<ShutdownReport>>,
    last_shutdown: u64,
    timer: Pin<Box<Sleep>>,
}

/// What a wait ended with.
enum Woken {
    Work,
    /// All callers are gone.
    Closed,
}

impl Driver {
    pub(crate) fn new(store: Box<dyn LockStore>, limits: Limits, clock: Clock) -> (Self, Engine) {
        let (sender, commands) = mpsc::unbounded_channel();
        let seed = clock.now().as_nanos() ^ u64::from(std::process::id()).rotate_left(32);
        let driver = Self {
            core: Core::new(limits, seed),
            store,
            clock,
            commands,
            inbox: Vec::new(),
            events: Vec::new(),
            slots: CountedMap::default(),
            shutdowns: HashMap::new(),
            last_shutdown: 0,
            timer: Box::pin(sleep(LONGEST_SLEEP)),
        };
        let engine = Engine {
            commands: sender,
            clock,
            last_ticket: AtomicU64::new(1),
        };
        (driver, engine)
    }

    /// Runs until all callers are gone and everything is released.
    pub(crate) async fn run(mut self) {
        let mut closed = false;
        while !(closed && self.core.is_idle()) {
            self.set_timer();
            if let Woken::Closed = poll_fn(|cx| self.poll_work(cx, closed)).await {
                closed = true;
            }
            self.work();
        }
    }

    fn set_timer(&mut self) {
        let sleep = match self.core.next_due() {
            Some(due) => due.since(self.clock.now()).min(LONGEST_SLEEP),
            // Nothing is held or waiting: only a command or the store can bring work.
            None => Duration::from_secs(24 * 60 * 60),
        };
        let due = TokioInstant::now() + sleep;
        // An earlier one is left as it is: to move a timer costs more than to wake once for nothing.
        if due < self.timer.deadline() || self.timer.is_elapsed() {
            self.timer.as_mut().reset(due);
        }
    }

    /// Collects what is ready, without waiting for more.
    fn poll_work(&mut self, cx: &mut Context<'_>, closed: bool) -> Poll<Woken> {
        let mut ready = self.timer.as_mut().poll(cx).is_ready();
        if !closed {
            match self.commands.poll_recv_many(cx, &mut self.inbox, LIMIT) {
                Poll::Ready(0) => return Poll::Ready(Woken::Closed),
                Poll::Ready(_) => ready = true,
                Poll::Pending => {}
            }
        }
        while self.events.len() < LIMIT {
            let Poll::Ready(event) = self.store.poll_event(cx) else {
                break;
            };
            self.events.push(event);
            ready = true;
        }
        if ready {
            Poll::Ready(Woken::Work)
        } else {
            Poll::Pending
        }
    }

    fn work(&mut self) {
        let now = self.clock.now();
        // Replies first: a lease that they prolong is not due.
        for event in std::mem::take(&mut self.events) {
            match event {
                StoreEvent::Reply(op, result) => self.core.reply(op, result, now),
                StoreEvent::Connected => self.core.connected(now),
                StoreEvent::Turn(key) => self.core.called(&key, now),
                StoreEvent::Wanted(key) => self.core.key_wanted(&key, now),
            }
        }
        // What is not handled yet stays where `drop` finds it, should handling one panic.
        self.inbox.reverse();
        while let Some(command) = self.inbox.pop() {
            self.command(command);
        }
        let now = self.clock.now();
        self.core.tick(now);
        let requests = self.core.take_requests(now);
        if !requests.is_empty() {
            self.store.submit(requests);
        }
        for signal in self.core.take_signals() {
            self.tell(signal);
        }
    }

    fn command(&mut self, command: Command) {
        // Read for each command: an order's budget starts when it is taken, not when the batch was.
        let now = self.clock.now();
        match command {
            Command::Acquire { id, order, slot } => {
                self.slots.insert(id, slot);
                self.core.acquire(id, *order, now);
            }
            Command::Release { id, keep } => self.core.release(id, keep, now),
            Command::Abandon(id) => {
                self.slots.remove(&id);
                self.core.abandon(id, now);
            }
            Command::Downgrade(id) => self.core.downgrade(id, now),
            Command::ShutDown { limit, reply } => {
                self.last_shutdown += 1;
                self.shutdowns.insert(self.last_shutdown, reply);
                self.core.shut_down(self.last_shutdown, limit, now);
            }
        }
    }

    fn tell(&mut self, signal: Signal) {
        meter::count(&signal);
        match signal {
            Signal::Granted {
                ticket,
                deadline,
                fence,
            } => {
                if let Some(slot) = self.slots.get(&ticket) {
                    slot.grant(deadline, fence);
                }
            }
            Signal::Extended { ticket, deadline } => {
                if let Some(slot) = self.slots.get(&ticket) {
                    slot.extend(deadline);
                }
            }
            Signal::Shared(ticket) => {
                if let Some(slot) = self.slots.get(&ticket) {
                    slot.share();
                }
            }
            Signal::Lost(ticket) => {
                if let Some(slot) = self.slots.get(&ticket) {
                    slot.lose();
                }
            }
            Signal::Failed(ticket, error) => {
                if let Some(slot) = self.slots.remove(&ticket) {
                    slot.fail(error);
                }
            }
            Signal::Released { ticket, confirmed } => {
                if let Some(slot) = self.slots.remove(&ticket) {
                    slot.release(confirmed);
                }
            }
            Signal::ShutDown(number, report) => {
                if let Some(reply) = self.shutdowns.remove(&number) {
                    // Whoever asked may have stopped waiting.
                    let _ = reply.send(report);
                }
            }
        }
    }
}

impl Drop for Driver {
    /// The runtime that the engine ran on is gone, or the engine panicked: nobody may wait for it for ever.
    fn drop(&mut self) {
        for slot in self.slots.values() {
            slot.orphan(stopped());
        }
        self.commands.close();
        while let Ok(command) = self.commands.try_recv() {
            self.inbox.push(command);
        }
        for command in self.inbox.drain(..) {
            if let Command::Acquire { slot, .. } = command {
                slot.orphan(stopped());
            }
        }
    }
}

fn stopped() -> LockError {
    LockError::Unavailable {
        source: StoreError::new(
            "stopped",
            "the pool's engine has stopped: the runtime it ran on is gone, or it panicked; connect the pool anew",
        ),
    }
}
