//! The line: a simulated connection between one pool of a kit and the kit's store.

use std::collections::HashMap;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use super::event::{Caller, EventKind, Mode};
use super::log::Log;
use super::point::{Point, Rules};
use crate::base::clock::Instant;
use crate::base::full_key::FullKey;
use crate::base::token::Token;
use crate::engine::core::signal::Signal;
use crate::engine::core::ticket::{Acquire, Removal, Share, TicketId};
use crate::engine::driver::command::Command;
use crate::engine::driver::observer::Watch;
use crate::key::RESERVED;

/// The simulated connection between one pool of a kit and the kit's store. A test changes the line,
/// and the pool's [`KitStore`](super::store::KitStore) carries out the changes. The pool's engine
/// reports each call to the line. The line records the call in the kit's log.
pub(crate) struct Line {
    log: Arc<Log>,
    /// True if the pool simulates another process ([`Kit::hold`](super::Kit::hold)).
    other: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    is_down: bool,
    /// True from [`Line::cut`] until the engine next polls the `KitStore`. That poll fails the
    /// requests without an answer.
    is_cut: bool,
    /// True from [`Line::restore`] until the engine next polls the `KitStore`. That poll reports to
    /// the engine that the store can be reached again.
    is_back: bool,
    delay: Duration,
    rules: Rules,
    /// Keys whose locks the `KitStore` must remove from the store at its next poll.
    taken_away: Vec<FullKey>,
    /// Keys whose locks the `KitStore` has removed. The engine takes these keys after its poll, and
    /// ends their leases.
    lost: Vec<FullKey>,
    calls: HashMap<TicketId, Call>,
    /// Waker of the engine. The woken engine polls the `KitStore`.
    waker: Option<Waker>,
}

/// The test's changes to a line, which the [`KitStore`](super::store::KitStore) must carry out at
/// one poll.
#[derive(Debug)]
pub(super) struct Orders {
    /// True if all requests without an answer must fail.
    pub(super) cut: bool,
    /// True if the engine must be notified that the store can be reached again.
    pub(super) back: bool,
    pub(super) delay: Duration,
    pub(super) taken_away: Vec<FullKey>,
    /// Time of the next planned loss with [`Point::After`] among the held locks.
    pub(super) next_loss: Option<Instant>,
}

/// One lock of a call: a ticket of the engine.
struct Call {
    key: FullKey,
    /// Token of the key while the call holds it. After a hand-over, the token of the first holder.
    token: Token,
    mode: Mode,
    function: &'static str,
    /// The caller in the history; none before the call's first event.
    caller: Option<Caller>,
    /// True if a refusal ends the call. False if the call requests several locks together and may
    /// wait: after a refusal, it requests them individually.
    is_final: bool,
    stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Asking,
    Held {
        since: Instant,
    },
    /// The release was requested before the end of the lease. The store may not have answered yet.
    Released,
    Over,
}

impl Line {
    pub(super) fn new(log: Arc<Log>, other: bool) -> Arc<Self> {
        let state = Mutex::default();
        Arc::new(Self { log, other, state })
    }

    /// Makes the store unreachable.
    pub(super) fn cut(&self) {
        self.change(|state| {
            state.is_cut |= !state.is_down;
            state.is_down = true;
            state.is_back = false;
        });
    }

    /// Makes the store reachable again.
    pub(super) fn restore(&self) {
        self.change(|state| {
            state.is_back |= state.is_down;
            state.is_down = false;
        });
    }

    pub(super) fn delay(&self, delay: Duration) {
        self.change(|state| state.delay = delay);
    }

    pub(super) fn lose_when(&self, key: &str, point: Point) {
        self.change(|state| state.rules.add(key, point));
    }

    /// Simulates the death of the pool's process. After this, none of its requests reaches the
    /// store.
    pub(super) fn die(&self, now: Instant) {
        self.change(|state| {
            (state.is_down, state.is_cut) = (true, true);
            let held: Vec<_> = state.held().map(|(id, _)| id).collect();
            for id in held {
                self.ends(state, id, EventKind::Died, now);
            }
        });
    }

    /// Changes the state, and wakes the engine, which then polls the `KitStore`.
    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state();
        change(&mut state);
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Returns the changes that the `KitStore` must carry out at this poll. The next change of the
    /// line wakes `waker`.
    pub(super) fn orders(&self, waker: &Waker, now: Instant) -> Orders {
        let mut state = self.state();
        match &mut state.waker {
            Some(known) => known.clone_from(waker),
            None => state.waker = Some(waker.clone()),
        }
        state.lose_by_time(now);
        Orders {
            cut: mem::take(&mut state.is_cut),
            back: mem::take(&mut state.is_back),
            delay: state.delay,
            taken_away: mem::take(&mut state.taken_away),
            next_loss: state.next_loss(),
        }
    }

    /// Records that the `KitStore` has removed this pool's locks of `key`. The engine then ends the
    /// leases of this key.
    pub(super) fn lost(&self, key: FullKey) {
        self.state().lost.push(key);
    }

    pub(super) fn is_down(&self) -> bool {
        self.state().is_down
    }

    /// Returns true if the test has planned a loss of `key` at `point`, and removes this loss from
    /// the plan.
    pub(super) fn loses(&self, key: &FullKey, point: Point) -> bool {
        let mut state = self.state();
        state.rules.take(key.name(), |planned| planned == point)
    }

    /// Returns true if the test has planned a loss of `key` before its release, and a call now
    /// releases it. Removes this loss from the plan. The removal of a lost lock, or of one that a
    /// call gave up, is no release.
    pub(super) fn loses_release(&self, key: &FullKey, token: Token) -> bool {
        let mut state = self.state();
        let released = state
            .calls
            .values()
            .any(|call| call.stage == Stage::Released && call.key == *key && call.token == token);
        let planned = |point| point == Point::BeforeRelease;
        released && state.rules.take(key.name(), planned)
    }

    /// Ends the hold of the call `id`, and records `kind` in the log. Does nothing if the call
    /// holds no lock.
    fn ends(&self, state: &mut State, id: TicketId, kind: EventKind, now: Instant) {
        if let Some(call) = state.held_call(id) {
            call.stage = match kind {
                EventKind::Released | EventKind::Dropped => Stage::Released,
                _ => Stage::Over,
            };
            self.note(call, kind, None, now);
        }
    }

    fn note(&self, call: &mut Call, kind: EventKind, until: Option<Instant>, now: Instant) {
        let (other, function) = (self.other, call.function);
        let new = || self.log.caller(other, function);
        let caller = call.caller.get_or_insert_with(new);
        self.log.note(call.key.name(), caller, kind, until, now);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watch for Line {
    fn command(&self, command: &Command, now: Instant) {
        let state = &mut *self.state();
        match command {
            Command::Acquire { id, acquire, .. } | Command::Adopt { id, acquire, .. } => {
                state.asks(*id, acquire, true);
            }
            Command::AcquireAll { acquires, wait } => {
                for (id, acquire, _) in acquires {
                    state.asks(*id, acquire, wait.is_zero());
                }
            }
            Command::Release { id, .. }
            | Command::ReleaseWith { id, .. }
            | Command::GiveAway(id) => {
                self.ends(state, *id, EventKind::Released, now);
            }
            Command::ReleaseAll { ids, .. } => {
                for id in ids {
                    self.ends(state, *id, EventKind::Released, now);
                }
            }
            Command::Abandon(id) => self.ends(state, *id, EventKind::Dropped, now),
            _ => {}
        }
    }

    fn signal(&self, signal: &Signal, now: Instant) {
        let state = &mut *self.state();
        match signal {
            Signal::Granted {
                ticket,
                deadline,
                fence,
            } => {
                if let Some(call) = state.calls.get_mut(ticket) {
                    call.stage = Stage::Held { since: now };
                    let (mode, fence) = (call.mode, *fence);
                    self.note(
                        call,
                        EventKind::Granted { mode, fence },
                        Some(*deadline),
                        now,
                    );
                }
            }
            Signal::Extended { ticket, deadline } => {
                if let Some(call) = state.held_call(*ticket) {
                    self.note(call, EventKind::Renewed, Some(*deadline), now);
                }
            }
            Signal::Shared(ticket) => {
                if let Some(call) = state.held_call(*ticket) {
                    self.note(call, EventKind::Downgraded, None, now);
                }
            }
            Signal::Lost(ticket) => self.ends(state, *ticket, EventKind::Lost, now),
            Signal::Failed(ticket, error) => {
                let call = state.calls.remove(ticket);
                if let Some(mut call) = call.filter(|call| call.is_final) {
                    self.note(&mut call, EventKind::Refused(error.clone()), None, now);
                }
            }
            Signal::Released { ticket, removal } => {
                let call = state.calls.remove(ticket);
                let released = call.filter(|call| call.stage == Stage::Released);
                if let (Some(mut call), Removal::Gone) = (released, removal) {
                    self.note(&mut call, EventKind::GoneAtRelease, None, now);
                }
            }
            Signal::Inherited { ticket, token } => {
                // The first holder's call is over, and nothing more is released with its token.
                state.calls.retain(|_, call| call.token != *token);
                if let Some(call) = state.calls.get_mut(ticket) {
                    call.token = *token;
                }
            }
            Signal::Settled(..)
            | Signal::Apart(_)
            | Signal::TakenAway(_)
            | Signal::Recalled(..)
            | Signal::Forgotten(..)
            | Signal::ShutDown(..) => {}
        }
    }

    fn take_lost_keys(&self) -> Vec<FullKey> {
        mem::take(&mut self.state().lost)
    }

    fn polled(&self, ticket: TicketId, polls: u32) -> bool {
        let mut state = self.state();
        let Some(key) = state.calls.get(&ticket).map(|call| call.key.clone()) else {
            return false;
        };
        let due = |point| matches!(point, Point::AfterPolls(after) if after <= polls);
        let lost = state.rules.take(key.name(), due);
        if lost {
            state.taken_away.push(key);
        }
        lost
    }
}

impl State {
    fn asks(&mut self, id: TicketId, acquire: &Acquire, is_final: bool) {
        // `LockPool::ready` takes a lock with a reserved key. The history contains only the test's
        // calls, so it leaves this lock out.
        if acquire.key.name().starts_with(RESERVED) {
            return;
        }
        let call = Call {
            key: acquire.key.clone(),
            token: acquire.token,
            mode: match acquire.share {
                None => Mode::Exclusive,
                Some(Share::Reader) => Mode::Shared,
                Some(Share::Permit(limit)) => Mode::Permit(limit),
            },
            function: acquire.function,
            caller: None,
            is_final,
            stage: Stage::Asking,
        };
        self.calls.insert(id, call);
    }

    fn held_call(&mut self, id: TicketId) -> Option<&mut Call> {
        let call = self.calls.get_mut(&id);
        call.filter(|call| matches!(call.stage, Stage::Held { .. }))
    }

    fn held(&self) -> impl Iterator<Item = (TicketId, &Call)> {
        let held = |call: &Call| matches!(call.stage, Stage::Held { .. });
        let calls = self.calls.iter().map(|(id, call)| (*id, call));
        calls.filter(move |(_, call)| held(call))
    }

    /// Returns the time of the next planned loss with [`Point::After`] among the held locks.
    fn next_loss(&self) -> Option<Instant> {
        if self.rules.are_none() {
            return None;
        }
        let held = self.calls.values().filter_map(|call| match call.stage {
            Stage::Held { since } => Some((call.key.name(), since)),
            _ => None,
        });
        self.rules.next_due(held)
    }

    /// Adds to `taken_away` each held key with a planned [`Point::After`] that has passed, so that
    /// the `KitStore` removes these locks. Removes these losses from the plan.
    fn lose_by_time(&mut self, now: Instant) {
        if self.rules.are_none() {
            return;
        }
        let held = self.held().filter_map(|(_, call)| match call.stage {
            Stage::Held { since } => Some((call.key.clone(), since)),
            _ => None,
        });
        let held: Vec<_> = held.collect();
        for (key, since) in held {
            let due = |point| matches!(point, Point::After(time) if since + time <= now);
            if self.rules.take(key.name(), due) {
                self.taken_away.push(key);
            }
        }
    }
}
