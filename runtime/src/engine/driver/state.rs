//! The engine's state: the pure core, the store, and the calls that wait.
//!
//! It gives the core commands, answers and the time. It sends the core's requests to the store, and
//! turns the core's signals into notifications.

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
#[cfg(feature = "testing")]
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

mod commands;
mod signals;

/// The longest sleep of the keeper while something is due. The runtime's timers stand still while
/// the computer is suspended, and leases do not. So the keeper reads the clock again after this
/// long.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// The runtime's timers go off to the millisecond.
const TICK: Duration = Duration::from_millis(1);

/// When the keeper is this late, the engine takes it to be asleep. It may be a little late because
/// it wakes to the millisecond, and because other threads may have the processors.
const LATE: Duration = Duration::from_millis(5);

/// The keeper's sleep while nothing is due: only a command or the store can bring work.
const IDLE_SLEEP: Duration = Duration::from_secs(24 * 60 * 60);

/// How often in a row a thread polls the store before it leaves that to the keeper. It polls again
/// while the store calls its waker, or while there are requests to send.
const MOST_ROUNDS: usize = 16;

/// So many requests fill two scripts, one of releases and one of acquires: to wait for more of them
/// gains nothing.
const FULL: usize = 64;

/// The engine keeps space for so many events.
const KEPT: usize = 1024;

/// What a listener has heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heard {
    /// This listener hears no more: it is to end.
    InVain,
    /// At most one task is woken.
    One,
    /// Several tasks are woken, and what they ask gathers until they have run.
    Several,
}

/// An engine's state. The engine's mutex lets one thread at a time use it.
pub(super) struct EngineState {
    core: Core,
    store: Box<dyn LockStore>,
    clock: Clock,
    /// The clock's last reading under the mutex. A request leaves after it, so no deadline is late.
    now: Instant,
    events: Vec<StoreEvent>,
    cells: IdMap<TicketId, Arc<LeaseCell>>,
    shutdowns: HashMap<u64, oneshot::Sender<ShutdownReport>>,
    last_shutdown: u64,
    /// The callers that wait until a result is forgotten.
    forgetting: HashMap<u64, Forgetting>,
    last_forgotten: u64,
    alarms: Alarms,
    life: Life,
    traffic: Traffic,
    standing: Standing,
    lanes: Lanes,
    store_waker: Arc<StoreWaker>,
    /// `store_waker`, as the waker that the store is polled with.
    waker: Waker,
    /// The runtime that the store was connected in.
    runtime: Handle,
    /// When the keeper's timer wakes it.
    keeper_looks_at: Instant,
    notifications: Notifications,
    observer: Observer,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    Open,
    /// All callers are gone. The engine still releases what is held.
    Closed,
    /// The engine does nothing any more.
    Stopped,
}

impl EngineState {
    /// To be called in the runtime that the store was connected in. `listeners`: whether callers'
    /// runtimes may hear of answers. `name`: the store's URL without its password.
    pub(super) fn new(
        store: Box<dyn LockStore>,
        name: String,
        limits: Limits,
        clock: Clock,
        listeners: bool,
        store_waker: Arc<StoreWaker>,
    ) -> Self {
        // On a test's clock every run is the same.
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

    #[cfg(feature = "testing")]
    pub(super) fn watched_by(&mut self, watch: Arc<dyn Watch>) {
        self.observer.watched_by(watch);
    }

    /// A listener hears that something has come, and reads it.
    pub(super) fn hear(&mut self, listener: ListenerId) -> Heard {
        if !self.lanes.heard_by(listener) {
            return Heard::InVain;
        }
        self.read_clock();
        self.drive(false);
        self.apply_signals();
        if self.notifications.wakes() < 2 {
            self.send_requests();
            self.apply_signals();
            return Heard::One;
        }
        self.traffic.gather(self.now);
        Heard::Several
    }

    /// The callers that a listener has woken have run: sends what they ask.
    pub(super) fn gathered(&mut self) {
        self.read_clock();
        self.traffic.gathered();
        self.send_requests();
        self.apply_signals();
    }

    /// Lets requests leave when few are under way, or when enough have gathered.
    fn may_send(&self, now: Instant) -> bool {
        FULL <= self.core.to_send() || self.traffic.may_send(now)
    }

    /// Sends the core's requests, unless they are to gather.
    fn send_requests(&mut self) {
        if self.core.has_requests() {
            self.drive(true);
        }
    }

    /// The keeper does what is due. `called`: whether the store has something to say.
    pub(super) fn do_what_is_due(&mut self, called: bool) {
        if self.life == Life::Stopped {
            return;
        }
        let began = self.read_clock();
        let due = self.core.next_due().is_some_and(|due| due <= began);
        let opens = self.core.has_requests() && self.may_send(began);
        let waits = self.waits();
        let watched = self.lanes.watch(self.traffic.heard(), waits, began);
        let still = watched == Watched::Still;
        let acts = called || due || opens || still;
        if acts {
            // All answers are read first. A lease that an answer prolongs is not due, and a
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
        // `began`, and not the time now: a lease that has become due since then may be prolonged by
        // an answer that has come since then.
        self.core.tick(began);
        self.notifications.alarms.extend(self.alarms.due(began));
        if acts {
            // Requests that are due do not gather.
            self.submit();
            self.drive(true);
        }
        self.apply_signals();
        // A listener may hear the answers to what the keeper has sent.
        self.read_clock();
        self.lanes.watch_from(self.waits(), self.now);
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

    /// Reads the clock, as a thread does after it has taken the mutex, and after it has read
    /// answers. A reading takes a fiftieth of a call. A test's clock can be read only in its
    /// runtime.
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

    /// Gives requests to the store and its answers to the core, until there are none. Without
    /// `sends` the requests that follow from answers stay in the core.
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
        self.standing.sends(&requests, self.now);
        self.store.submit(&mut requests);
        self.core.reuse_requests(requests);
    }

    /// Takes all events of the store, until it has no more. If the store calls its waker during the
    /// last poll, [`StoreWaker::end`] says so.
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
                // Before the poll, which sees all that the store called its waker for so far.
                store_waker.begin();
                match store.poll_event(cx) {
                    Poll::Ready(event) => events.push(event),
                    Poll::Pending => break,
                }
            }
            standing.is_away(store.is_away());
        });
    }

    /// Gives the store's events to the core.
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
            self.traffic.hears();
            match event {
                StoreEvent::Reply(op, result) => {
                    self.traffic.answered(op);
                    self.standing.answered(op, now);
                    self.core.reply(op, result, now);
                }
                StoreEvent::Connected => self.core.connected(now),
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

    /// Whether a caller's runtime is to listen now.
    pub(super) fn wants_listeners(&self) -> bool {
        self.lanes.are_wanted(self.now)
    }

    pub(super) fn lanes(&mut self) -> &mut Lanes {
        &mut self.lanes
    }

    /// Whether the keeper has to be woken before its timer wakes it.
    pub(super) fn needs_keeper(&mut self) -> bool {
        let now = self.now;
        self.lanes.watch_from(self.waits(), now);
        let early = self.looks_at(now) + TICK < self.keeper_looks_at;
        // After a suspend the keeper may still be asleep, although the pool's clock says that its
        // sleep is over.
        let late = self.keeper_looks_at + LATE <= now;
        early || late || self.is_over()
    }

    /// How long the keeper may sleep.
    pub(super) fn sleep(&mut self) -> Duration {
        let now = self.read_clock();
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

    /// Records until when the keeper sleeps.
    pub(super) fn keeper_sleeps(&mut self, until: Instant) {
        self.keeper_looks_at = until;
    }

    /// Whether the engine executes no command any more.
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

    /// Takes the notifications. The caller delivers them after it has given up the mutex: tasks
    /// that are woken want the mutex, and a waker is the program's code, which may do anything.
    pub(super) fn take_notifications(&mut self) -> Option<Notifications> {
        self.notifications.take()
    }
}

/// Runs `act` outside of tokio's budget of polls. A task that has used its budget hears from tokio
/// that nothing has come, until it has yielded once.
fn uncounted(act: impl FnOnce()) {
    let polled = pin!(unconstrained(async { act() }));
    let _ = polled.poll(&mut Context::from_waker(Waker::noop()));
}

/// Whether this thread is ending, and has no thread-local storage any more. It cannot enter a
/// runtime.
fn is_torn_down() -> bool {
    Handle::try_current().is_err_and(|error| error.is_thread_local_destroyed())
}
