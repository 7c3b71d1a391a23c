//! The engine's state: the pure core, the store, and the waiting calls.
//!
//! This module passes commands, answers and the time to the core. It sends the core's requests to
//! the store, and turns the core's signals into notifications.

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
use super::lanes::{Lanes, ListenerId, Waits, Watched};
use super::notifications::{Forgetting, Notifications};
use super::observer::Observer;
use super::observer::Watch;
use super::standing::Standing;
use super::store_waker::StoreWaker;
use super::traffic::Traffic;
use crate::base::clock::earlier;
use crate::base::clock::{Clock, Instant};
use crate::base::id_map::IdMap;
use crate::engine::core::Core;
use crate::engine::core::drain::ShutdownReport;
use crate::engine::core::signal::Limits;
use crate::engine::core::ticket::TicketId;
use crate::engine::lease_cell::LeaseCell;
use crate::store::{LockStore, StoreEvent};

mod absence;
mod commands;
mod signals;

/// The longest sleep of the keeper while a timer is set. The runtime's timers stop while the
/// computer is suspended, but leases do not. So the keeper reads the clock again after this time.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// Resolution of the runtime's timers.
const TICK: Duration = Duration::from_millis(1);

/// Delay after which other threads wake the keeper, because it seems to have missed its timer. A
/// shorter delay is normal: the timer counts whole milliseconds, and other threads may occupy the
/// processors.
const LATE: Duration = Duration::from_millis(5);

/// The keeper's sleep while no timer is set. Then only a command or the store can bring work, and
/// either wakes the keeper.
const IDLE_SLEEP: Duration = Duration::from_secs(24 * 60 * 60);

/// Maximum number of polls in a row before a thread lets the keeper poll the store instead. A
/// thread polls again while the store calls its waker, or while there are requests to send. Without
/// this limit, a caller could work for other callers without end.
const MOST_ROUNDS: usize = 16;

/// Number of collected requests at which the engine sends them. On Redis, they fill two scripts,
/// one of releases and one of acquires. A larger batch would not be cheaper.
const FULL: usize = 64;

/// Largest capacity, in events, that the list of events keeps after a burst, so that the burst does
/// not occupy memory forever.
const KEPT: usize = 1024;

/// Result of a listener's read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Received {
    /// The listener must end: it was replaced, its thread must not read, or the engine has stopped.
    InVain,
    /// At most one task is woken.
    One,
    /// Several tasks are woken. Their requests are collected until all of them have run.
    Several,
}

/// An engine's state, protected by the engine's mutex.
pub(super) struct EngineState {
    core: Core,
    store: Box<dyn LockStore>,
    clock: Clock,
    /// Last time read from the clock under the mutex. A lease is counted from this time, and its
    /// request is sent later. So no deadline is too late.
    now: Instant,
    events: Vec<StoreEvent>,
    cells: IdMap<TicketId, Arc<LeaseCell>>,
    shutdowns: HashMap<u64, oneshot::Sender<ShutdownReport>>,
    last_shutdown: u64,
    /// The callers that wait for the removal of a kept result.
    forgetting: HashMap<u64, Forgetting>,
    last_forgotten: u64,
    alarms: Alarms,
    life: Life,
    traffic: Traffic,
    standing: Standing,
    lanes: Lanes,
    store_waker: Arc<StoreWaker>,
    /// `store_waker` as a `Waker`, with which the store is polled.
    waker: Waker,
    /// The runtime in which the store was connected.
    runtime: Handle,
    /// Time to which the keeper's timer is set.
    keeper_looks_at: Instant,
    notifications: Notifications,
    observer: Observer,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    Open,
    /// The pool is dropped. The engine still releases the remaining locks.
    Closed,
    /// The engine no longer does anything, and has given up its store.
    Stopped,
}

impl EngineState {
    /// Creates the state. Must be called in the runtime in which the store was connected.
    /// `listeners` is true if callers' runtimes may run listeners. `name` is the store's URL
    /// without its password.
    pub(super) fn new(
        store: Box<dyn LockStore>,
        name: String,
        limits: Limits,
        clock: Clock,
        listeners: bool,
        store_waker: Arc<StoreWaker>,
    ) -> Self {
        // With a test clock every run must be the same, so the core's seed must not depend on the
        // process.
        let process = match clock {
            Clock::System => std::process::id(),
            Clock::Tokio(_) => 0,
        };
        let seed = clock.now().as_nanos() ^ u64::from(process).rotate_left(32);
        Self {
            core: Core::new(limits, seed),
            observer: Observer::default(),
            store,
            clock,
            now: Instant::ZERO,
            events: Vec::new(),
            cells: IdMap::default(),
            shutdowns: HashMap::new(),
            last_shutdown: 0,
            forgetting: HashMap::new(),
            last_forgotten: 0,
            alarms: Alarms::default(),
            life: Life::Open,
            traffic: Traffic::default(),
            standing: Standing::new(name),
            lanes: Lanes::new(listeners),
            waker: Waker::from(Arc::clone(&store_waker)),
            store_waker,
            runtime: Handle::current(),
            keeper_looks_at: Instant::ZERO,
            notifications: Notifications::default(),
        }
    }

    pub(super) fn watched_by(&mut self, watch: Arc<dyn Watch>) {
        self.observer.watched_by(watch);
    }

    /// Reads and handles the answers that a listener found on its socket.
    pub(super) fn receive(&mut self, listener: ListenerId) -> Received {
        if !self.lanes.received_by(listener) {
            return Received::InVain;
        }
        self.read_clock();
        self.drive(false);
        self.apply_signals();
        if self.notifications.wakes() < 2 {
            self.send_requests();
            self.apply_signals();
            return Received::One;
        }
        self.traffic.gather(self.now);
        Received::Several
    }

    /// Sends the collected requests. Called when the callers woken by a listener have run.
    pub(super) fn gathered(&mut self) {
        self.read_clock();
        self.traffic.gathered();
        self.send_requests();
        self.apply_signals();
    }

    /// True if the collected requests may be sent: at least [`FULL`] are collected, or [`Traffic`]
    /// does not delay them.
    fn may_send(&self, now: Instant) -> bool {
        FULL <= self.core.to_send() || self.traffic.may_send(now)
    }

    /// Sends the core's requests, unless further requests should be collected first.
    fn send_requests(&mut self) {
        if self.core.has_requests() {
            self.drive(true);
        }
    }

    /// Does the due work. Only the keeper calls this. `called` is true if the store may have events
    /// to read.
    pub(super) fn do_what_is_due(&mut self, called: bool) {
        if self.life == Life::Stopped {
            return;
        }
        let began = self.read_clock();
        let due = self.core.next_due().is_some_and(|due| due <= began);
        let opens = self.core.has_requests() && self.may_send(began);
        let waits = self.waits();
        let watched = self.lanes.watch(self.traffic.received(), waits, began);
        let still = watched == Watched::Still;
        let acts = called || due || opens || still;
        if acts {
            // All answers are read first, because they can extend leases, and show that a
            // connection still works.
            self.lanes.receive_all();
            self.drive(true);
        }
        if still {
            self.lanes.read(self.traffic.received(), began);
        }
        if still && waits == Waits::Answer {
            self.traffic.stalls();
        }
        // Uses `began` instead of the current time: an answer that is still unread may extend a
        // lease that has become due since `began`.
        self.core.tick(began);
        self.notifications.alarms.extend(self.alarms.due(began));
        if acts {
            // Requests of the due work are sent without delay.
            self.submit();
            self.drive(true);
        }
        self.apply_signals();
        // Plans the keeper's next check, in case the listeners do not read the answers to the sent
        // requests in time.
        self.read_clock();
        self.lanes.watch_from(self.waits(), self.now);
    }

    /// Returns the kind of input that may arrive now.
    fn waits(&self) -> Waits {
        if 0 < self.core.under_way() {
            Waits::Answer
        } else if self.core.is_idle() {
            Waits::Nothing
        } else {
            Waits::Message
        }
    }

    /// Reads the clock. Called after a thread has taken the mutex, and after it has read answers.
    /// More frequent readings would be expensive: one takes a fiftieth of the time of a call. A
    /// test clock can be read only in its runtime.
    fn read_clock(&mut self) -> Instant {
        self.now = match self.clock {
            Clock::System => self.clock.now(),
            Clock::Tokio(_) => {
                let _context = self.runtime.enter();
                self.clock.now()
            }
        };
        self.now
    }

    /// Passes requests to the store and events to the core, until there are no more. After
    /// `MOST_ROUNDS` polls, the keeper continues. If `sends` is false, the requests stay in the
    /// core.
    fn drive(&mut self, sends: bool) {
        if is_torn_down() {
            return self.store_waker.hand_over();
        }
        let runtime = self.runtime.clone();
        let _context = runtime.enter();
        for _ in 0..MOST_ROUNDS {
            if sends && self.may_send(self.now) {
                self.submit();
            }
            self.poll_store();
            self.take_in_events();
            let more = sends && self.core.has_requests();
            if more && self.may_send(self.now) {
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
        let mut requests = self.core.take_requests(self.now);
        self.traffic.sends(&requests, self.now);
        self.standing.times.sends(&requests, self.now);
        self.store.submit(&mut requests);
        self.core.reuse_requests(requests);
    }

    /// Takes all events from the store. If the store calls its waker during the last poll,
    /// [`StoreWaker::end`] reports it.
    fn poll_store(&mut self) {
        let Self {
            store,
            store_waker,
            waker,
            events,
            standing,
            ..
        } = self;
        let cx = &mut Context::from_waker(waker);
        uncounted(|| {
            loop {
                // Forgets earlier calls of the waker before each poll, because this poll takes the
                // events for which the store called it.
                store_waker.begin();
                match store.poll_event(cx) {
                    Poll::Ready(event) => events.push(event),
                    Poll::Pending => break,
                }
            }
            standing.is_away(store.is_away());
        });
    }

    /// Passes the store's events to the core.
    fn take_in_events(&mut self) {
        for key in self.observer.lost_keys() {
            self.core.key_lost(&key, self.now);
        }
        if self.events.is_empty() {
            return;
        }
        let now = self.read_clock();
        let mut events = mem::take(&mut self.events);
        for event in events.drain(..) {
            self.traffic.receives();
            match event {
                StoreEvent::Reply(op, result) => {
                    self.traffic.answered(op);
                    let refused = result.as_ref().is_err_and(|failure| !failure.executed);
                    let unsent = refused && self.store.is_away();
                    self.standing.times.answered(op, now, !unsent);
                    self.core.reply(op, result, now);
                }
                StoreEvent::Connected => self.core.connected(now),
                StoreEvent::Away => self.gone_away(now),
                StoreEvent::Turn(key) => self.core.called(&key, now),
                StoreEvent::Wanted(key) => self.core.key_wanted(&key, now),
                StoreEvent::Revoked { key, lease } => self.core.revoked(&key, lease, now),
                #[cfg(feature = "__session")]
                StoreEvent::Lost(locks) => self.core.lost(&locks, now),
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

    /// True if a caller's runtime should start listeners now.
    pub(super) fn wants_listeners(&self) -> bool {
        self.lanes.are_wanted(self.now)
    }

    pub(super) fn lanes(&mut self) -> &mut Lanes {
        &mut self.lanes
    }

    /// True if the keeper must be woken now, before its timer goes off.
    pub(super) fn needs_keeper(&mut self) -> bool {
        let now = self.now;
        self.lanes.watch_from(self.waits(), now);
        let early = self.looks_at(now) + TICK < self.keeper_looks_at;
        // After a suspend the keeper may still sleep, although its time is over on the pool's
        // clock.
        let late = self.keeper_looks_at + LATE <= now;
        early || late || self.is_over()
    }

    /// Returns the time for which the keeper may sleep.
    pub(super) fn sleep(&mut self) -> Duration {
        let now = self.read_clock();
        self.looks_at(now).since(now)
    }

    /// Returns the time at which the keeper must wake up.
    fn looks_at(&self, now: Instant) -> Instant {
        let next = earlier(self.core.next_due(), self.alarms.next_due());
        let next = earlier(next, self.lanes.watch_at());
        let opens = self.traffic.opens_at();
        let next = earlier(next, opens.filter(|_| self.core.has_requests()));
        next.map_or(now + IDLE_SLEEP, |due| {
            due.min(now + LONGEST_SLEEP).max(now)
        })
    }

    /// Records the time at which the keeper wakes up.
    pub(super) fn keeper_sleeps(&mut self, until: Instant) {
        self.keeper_looks_at = until;
    }

    /// True if the engine no longer executes commands.
    pub(super) fn is_stopped(&self) -> bool {
        self.life == Life::Stopped
    }

    /// True if the keeper may end.
    pub(super) fn is_over(&self) -> bool {
        match self.life {
            Life::Open => false,
            Life::Closed => self.core.is_idle(),
            Life::Stopped => true,
        }
    }

    /// Takes the notifications. The caller delivers them after it has released the mutex, because
    /// woken tasks need the mutex, and a waker runs the program's code.
    pub(super) fn take_notifications(&mut self) -> Option<Notifications> {
        self.notifications.take()
    }
}

/// Runs `act` without tokio's cooperative budget. When a task has used up its budget, tokio's
/// sockets and timers are never ready until the task yields.
fn uncounted(act: impl FnOnce()) {
    let polled = pin!(unconstrained(async { act() }));
    let _ = polled.poll(&mut Context::from_waker(Waker::noop()));
}

/// True if this thread is ending and no longer has thread-local storage. Such a thread cannot enter
/// a runtime.
fn is_torn_down() -> bool {
    Handle::try_current().is_err_and(|error| error.is_thread_local_destroyed())
}
