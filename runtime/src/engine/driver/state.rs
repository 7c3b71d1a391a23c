//! The core with what surrounds it: feeds it, and carries out what it decides.

use std::collections::HashMap;
use std::mem;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::unconstrained;

use super::alarms::Alarms;
use super::command::Command;
use super::lanes::{Lanes, ListenerId, Waits, Watched};
use super::notifications::Notifications;
use super::store_waker::StoreWaker;
use super::traffic::Traffic;
use crate::base::clock::earlier;
use crate::base::clock::{Clock, Instant};
use crate::base::id_map::IdMap;
use crate::base::seeded::seeded;
use crate::engine::core::Core;
use crate::engine::core::drain::ShutdownReport;
use crate::engine::core::signal::{Limits, Signal};
use crate::engine::core::ticket::{Removal, TicketId};
use crate::engine::lease_cell::LeaseCell;
use crate::engine::metrics;
use crate::error::LockError;
use crate::store::{LockStore, Request, StoreEvent};

/// The longest sleep of the keeper. The runtime's timers stand still while the machine is suspended
/// and leases do not, so the time is looked at again after this long.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// The runtime's timers go off to the millisecond.
const TICK: Duration = Duration::from_millis(1);

/// So much later than it was to wake the keeper is taken to be asleep: it wakes to the millisecond,
/// and other threads may have the processors.
const LATE: Duration = Duration::from_millis(5);

/// The sleep while nothing is held or waiting: only a command or the store can bring work.
const IDLE_SLEEP: Duration = Duration::from_secs(24 * 60 * 60);

/// How often in a row a thread polls the store because something has stirred, or is to be asked,
/// before it leaves that to the keeper.
const MOST_ROUNDS: usize = 16;

/// Space for so many events is kept.
const KEPT: usize = 1024;

/// What a listener has heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heard {
    /// Another hears of answers from now on.
    InVain,
    /// At most one task was told.
    One,
    /// Several were told, and what they ask gathers until they have had their turn.
    Several,
}

/// An engine's state. One thread at a time has it.
pub(super) struct EngineState {
    core: Core,
    store: Box<dyn LockStore>,
    clock: Clock,
    events: Vec<StoreEvent>,
    cells: IdMap<TicketId, Arc<LeaseCell>>,
    shutdowns: HashMap<u64, oneshot::Sender<ShutdownReport>>,
    last_shutdown: u64,
    alarms: Alarms,
    life: Life,
    traffic: Traffic,
    lanes: Lanes,
    store_waker: Arc<StoreWaker>,
    /// The same, as the store is polled with it.
    waker: Waker,
    /// The one that the store is connected in.
    runtime: Handle,
    /// When the keeper looks by itself.
    keeper_looks_at: Instant,
    notifications: Notifications,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    Open,
    /// All callers are gone; what is held is still released.
    Closed,
    /// Nothing is done any more.
    Stopped,
}

impl EngineState {
    /// To be called in the runtime that the store was connected in. `listeners`: whether runtimes
    /// of callers may hear of answers.
    pub(super) fn new(
        store: Box<dyn LockStore>,
        limits: Limits,
        clock: Clock,
        listeners: bool,
        store_waker: Arc<StoreWaker>,
    ) -> Self {
        let seed = clock.now().as_nanos() ^ u64::from(std::process::id()).rotate_left(32);
        Self {
            core: Core::new(limits, seed),
            store,
            clock,
            events: Vec::new(),
            cells: IdMap::default(),
            shutdowns: HashMap::new(),
            last_shutdown: 0,
            alarms: Alarms::default(),
            life: Life::Open,
            traffic: Traffic::default(),
            lanes: Lanes::new(listeners),
            waker: Waker::from(Arc::clone(&store_waker)),
            store_waker,
            runtime: Handle::current(),
            keeper_looks_at: Instant::ZERO,
            notifications: Notifications::default(),
        }
    }

    /// Takes up these commands, in this order.
    pub(super) fn take_up(&mut self, commands: impl Iterator<Item = Command>) {
        let now = self.now();
        for command in commands {
            self.command(command, now);
        }
        self.send_on();
        self.tell_all();
    }

    /// A listener hears that something has come, and takes it in.
    pub(super) fn hear(&mut self, listener: ListenerId) -> Heard {
        if !self.lanes.heard_by(listener) {
            return Heard::InVain;
        }
        self.drive(false);
        self.tell_all();
        if self.notifications.wakes() < 2 {
            self.send_on();
            self.tell_all();
            return Heard::One;
        }
        self.traffic.gather(self.now());
        Heard::Several
    }

    /// The callers that a listener has told have had their turn.
    pub(super) fn gathered(&mut self) {
        self.traffic.gathered();
        self.send_on();
        self.tell_all();
    }

    /// Sends what there is to ask, unless it is to gather.
    fn send_on(&mut self) {
        if self.core.has_requests() {
            self.drive(true);
        }
    }

    /// A turn of the keeper: does what is due. `called`: whether the store has something to say.
    pub(super) fn turn(&mut self, called: bool) {
        if self.life == Life::Stopped {
            return;
        }
        let began = self.now();
        let due = self.core.next_due().is_some_and(|due| due <= began);
        let opens = self.core.has_requests() && self.traffic.may_send(began);
        let waits = self.waits();
        let watched = self.lanes.watch(self.traffic.heard(), waits, began);
        let still = watched == Watched::Still;
        let acts = called || due || opens || still;
        if acts {
            // All that has come is heard first: a lease that it prolongs is not due, and a
            // connection that has answered is not silent.
            self.lanes.hear_all();
            self.drive(true);
        }
        if still {
            self.lanes.read(self.traffic.heard(), began);
        }
        if still && waits == Waits::Answer {
            self.traffic.stalls();
        }
        // An answer that has come since then may prolong what has become due since then.
        self.core.tick(began);
        self.notifications.alarms.extend(self.alarms.due(began));
        if acts {
            // What is due does not gather.
            self.submit();
            self.drive(true);
        }
        self.tell_all();
        // What the keeper has asked for others may be left to a listener.
        self.lanes.watch_from(self.waits(), self.now());
    }

    /// What listeners are to hear.
    fn waits(&self) -> Waits {
        if 0 < self.core.under_way() {
            Waits::Answer
        } else if self.core.is_idle() {
            Waits::Nothing
        } else {
            Waits::Message
        }
    }

    /// The time. That of a test's runtime is told only in that runtime.
    fn now(&self) -> Instant {
        match self.clock {
            Clock::System => self.clock.now(),
            Clock::Tokio(_) => {
                let _context = self.runtime.enter();
                self.clock.now()
            }
        }
    }

    /// Moves requests to the store and takes in what that has to say, until nothing moves. Without
    /// `sends` nothing that follows is sent.
    fn drive(&mut self, sends: bool) {
        if is_torn_down() {
            return self.store_waker.hand_over();
        }
        let runtime = self.runtime.clone();
        let _context = runtime.enter();
        for _ in 0..MOST_ROUNDS {
            if sends && self.traffic.may_send(self.now()) {
                self.submit();
            }
            self.poll_store();
            self.replies();
            let more = sends && self.core.has_requests();
            if more && self.traffic.may_send(self.now()) {
                continue;
            }
            if self.store_waker.end() {
                return self.follow_sockets();
            }
        }
        self.store_waker.hand_over();
        self.follow_sockets();
    }

    fn submit(&mut self) {
        if !self.core.has_requests() {
            return;
        }
        let now = self.now();
        let mut requests = self.core.take_requests(now);
        self.traffic.sends(&requests, now);
        self.store.submit(&mut requests);
        self.core.reuse_requests(requests);
    }

    /// Takes all that the store has to say. Where something stirs in its last answer, that there is
    /// no more, [`StoreWaker::end`] tells.
    fn poll_store(&mut self) {
        let Self {
            store,
            store_waker,
            waker,
            events,
            ..
        } = self;
        let cx = &mut Context::from_waker(waker);
        uncounted(|| {
            loop {
                // What stirred before this is seen by it.
                store_waker.begin();
                match store.poll_event(cx) {
                    Poll::Ready(event) => events.push(event),
                    Poll::Pending => break,
                }
            }
        });
    }

    /// What follows for the core.
    fn replies(&mut self) {
        if self.events.is_empty() {
            return;
        }
        let now = self.now();
        let mut events = mem::take(&mut self.events);
        for event in events.drain(..) {
            self.traffic.hears();
            match event {
                StoreEvent::Reply(op, result) => {
                    self.traffic.answered(op);
                    self.core.reply(op, result, now);
                }
                StoreEvent::Connected => self.core.connected(now),
                StoreEvent::Turn(key) => self.core.called(&key, now),
                StoreEvent::Wanted(key) => self.core.key_wanted(&key, now),
            }
        }
        events.shrink_to(KEPT);
        self.events = events;
    }

    fn follow_sockets(&mut self) {
        if let Some(sockets) = self.store.sockets() {
            self.lanes.follow(sockets);
        }
    }

    /// Whether callers' runtimes are to listen.
    pub(super) fn wants_listeners(&self) -> bool {
        self.lanes.are_wanted(self.now())
    }

    pub(super) fn lanes(&mut self) -> &mut Lanes {
        &mut self.lanes
    }

    /// Whether the keeper has to be woken to look at the time.
    pub(super) fn needs_keeper(&mut self) -> bool {
        let now = self.now();
        self.lanes.watch_from(self.waits(), now);
        let early = self.looks_at(now) + TICK < self.keeper_looks_at;
        // Due by its own clock, it may still be asleep after a suspend.
        let late = self.keeper_looks_at + LATE <= now;
        early || late || self.is_over()
    }

    /// How long the keeper may sleep.
    pub(super) fn sleep(&self) -> Duration {
        let now = self.now();
        self.looks_at(now).since(now)
    }

    /// Until when the keeper may sleep.
    fn looks_at(&self, now: Instant) -> Instant {
        let next = earlier(self.core.next_due(), self.alarms.next_due());
        let next = earlier(next, self.lanes.watch_at());
        let opens = self.traffic.opens_at();
        let next = earlier(next, opens.filter(|_| self.core.has_requests()));
        next.map_or(now + IDLE_SLEEP, |due| {
            due.min(now + LONGEST_SLEEP).max(now)
        })
    }

    /// The keeper looks by itself then.
    pub(super) fn keeper_sleeps(&mut self, until: Instant) {
        self.keeper_looks_at = until;
    }

    /// Whether it takes nothing up any more.
    pub(super) fn is_stopped(&self) -> bool {
        self.life == Life::Stopped
    }

    /// Whether the keeper may end.
    pub(super) fn is_over(&self) -> bool {
        match self.life {
            Life::Open => false,
            Life::Closed => self.core.is_idle(),
            Life::Stopped => true,
        }
    }

    /// What to tell when the mutex has been given up, and not before: those that are told will want
    /// it, and what a waker does is not the engine's business.
    pub(super) fn take_notifications(&mut self) -> Option<Notifications> {
        self.notifications.take()
    }

    /// Calls whose commands are not taken up any more. [`stop`](Self::stop) tells them so, after
    /// this.
    pub(super) fn refuse(&mut self, commands: impl Iterator<Item = Command>) {
        for command in commands {
            match command {
                Command::Acquire { id, cell, .. } => {
                    self.cells.insert(id, cell);
                }
                Command::AcquireAll { acquires, .. } => {
                    let cells = acquires.into_iter().map(|(id, _, cell)| (id, cell));
                    self.cells.extend(cells);
                }
                Command::Wake { caller, .. } => self.notifications.alarms.push(caller),
                Command::ShutDown { reply, .. } => self.notifications.unanswered.push(reply),
                _ => {}
            }
        }
    }

    /// Nothing is taken up any more, and no call waits for it.
    pub(super) fn stop(&mut self, error: &LockError) {
        let cells = self.cells.drain().map(|(_, cell)| cell);
        for cell in cells {
            self.notifications.wakers.extend(cell.orphan(error.clone()));
            self.notifications.over.push(cell);
        }
        let shutdowns = self.shutdowns.drain().map(|(_, reply)| reply);
        self.notifications.unanswered.extend(shutdowns);
        self.notifications.alarms.extend(self.alarms.take());
        self.lanes.follow(Vec::new());
        // Its connections are of no use any more.
        if self.life != Life::Stopped {
            self.notifications.left = Some(mem::replace(&mut self.store, Box::new(Gone)));
        }
        self.life = Life::Stopped;
        self.store_waker.hand_over();
    }

    fn command(&mut self, command: Command, now: Instant) {
        match command {
            Command::Acquire { id, acquire, cell } => {
                self.cells.insert(id, cell);
                self.core.acquire(id, acquire, now);
            }
            Command::AcquireAll { acquires, wait } => {
                let acquires = acquires.into_iter().map(|(id, acquire, cell)| {
                    self.cells.insert(id, cell);
                    (id, acquire)
                });
                let acquires = acquires.collect();
                self.core.acquire_all(acquires, wait, now);
            }
            Command::Release { id, keep } => self.core.release(id, keep, now),
            Command::ReleaseAll { ids, keep } => {
                for id in ids {
                    self.core.release(id, keep, now);
                }
            }
            Command::Abandon(id) => {
                let cell = self.cells.remove(&id);
                self.notifications
                    .wakers
                    .extend(cell.and_then(|cell| cell.forget()));
                self.core.abandon(id, now);
            }
            Command::Downgrade(id) => self.core.downgrade(id, now),
            Command::Wake { at, caller } => self
                .notifications
                .alarms
                .extend(self.alarms.set(at, caller)),
            Command::ShutDown { limit, reply } => {
                self.last_shutdown += 1;
                self.shutdowns.insert(self.last_shutdown, reply);
                self.core.shut_down(self.last_shutdown, limit, now);
            }
            Command::ListenerEnded(listener) => {
                // What its callers ask does not wait for it.
                self.traffic.gathered();
                if self.lanes.end(listener) && !seeded!(ListenerEndUnheard) {
                    self.store_waker.hand_over();
                }
            }
            Command::ListenerOutranked(listener) => {
                if self.lanes.outranked(listener, now) {
                    self.store_waker.hand_over();
                }
            }
            Command::ListenerUnable => self.lanes.unable(now),
            Command::Close => self.life = Life::Closed,
            #[cfg(feature = "__test")]
            Command::Inside(code) => code(),
        }
    }

    fn tell_all(&mut self) {
        let mut signals = self.core.take_signals();
        for signal in signals.drain(..) {
            self.tell(signal);
        }
        self.core.reuse_signals(signals);
    }

    fn tell(&mut self, signal: Signal) {
        metrics::count(&signal);
        let waker = match signal {
            Signal::Granted {
                ticket,
                deadline,
                fence,
            } => self
                .cells
                .get(&ticket)
                .and_then(|cell| cell.grant(deadline, fence)),
            Signal::Extended { ticket, deadline } => {
                if let Some(cell) = self.cells.get(&ticket) {
                    cell.extend(deadline);
                }
                None
            }
            Signal::Shared(ticket) => self.cells.get(&ticket).and_then(|cell| cell.share()),
            Signal::Lost(ticket) => self.cells.get(&ticket).and_then(|cell| {
                self.notifications.over.push(Arc::clone(cell));
                cell.lose()
            }),
            Signal::Failed(ticket, error) => {
                self.cells.remove(&ticket).and_then(|cell| cell.fail(error))
            }
            Signal::Apart(ticket) => self
                .cells
                .remove(&ticket)
                .and_then(|cell| cell.release(Removal::Unknown)),
            Signal::Released { ticket, removal } => self
                .cells
                .remove(&ticket)
                .and_then(|cell| cell.release(removal)),
            Signal::ShutDown(number, report) => {
                let reply = self.shutdowns.remove(&number);
                self.notifications
                    .reports
                    .extend(reply.map(|reply| (reply, report)));
                None
            }
        };
        self.notifications.wakers.extend(waker);
    }
}

/// Does it where tokio does not count how often it is polled: a task that has no polls left is told
/// that nothing has come, until it has given its thread up for once.
fn uncounted(act: impl FnOnce()) {
    let polled = pin!(unconstrained(async { act() }));
    let _ = polled.poll(&mut Context::from_waker(Waker::noop()));
}

/// Whether this thread is so late in its life that it cannot enter a runtime.
fn is_torn_down() -> bool {
    Handle::try_current().is_err_and(|error| error.is_thread_local_destroyed())
}

/// The store of an engine that has stopped.
struct Gone;

impl LockStore for Gone {
    fn submit(&mut self, _: &mut Vec<Request>) {}

    fn poll_event(&mut self, _: &mut Context<'_>) -> Poll<StoreEvent> {
        Poll::Pending
    }
}
