//! Executing commands, and stopping the engine.

use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::oneshot;

use super::{EngineState, Life};
use crate::base::clock::Instant;
use crate::base::full_key::FullKey;
use crate::base::seeded::seeded;
use crate::engine::core::drain::ShutdownReport;
use crate::engine::core::ticket::{Acquire, TicketId};
use crate::engine::driver::command::Command;
use crate::engine::driver::lanes::ListenerId;
use crate::engine::lease_cell::LeaseCell;
use crate::error::LockError;
use crate::store::{LockStore, Request, StoreEvent};

impl EngineState {
    /// Executes `commands` in their order, and sends the resulting requests.
    pub(in crate::engine::driver) fn execute(&mut self, commands: impl Iterator<Item = Command>) {
        let now = self.read_clock();
        for command in commands {
            self.execute_one(command, now);
        }
        self.send_requests();
        self.apply_signals();
    }

    fn execute_one(&mut self, command: Command, now: Instant) {
        self.observer.command(&command, now);
        match command {
            Command::Acquire { id, acquire, cell } => {
                self.cells.insert(id, cell);
                self.acquire(id, acquire, None, now);
            }
            Command::AcquireAll { acquires, wait } => self.acquire_all(acquires, wait, now),
            Command::Release { id, keep } => self.release(id, keep, now),
            Command::ReleaseWith { id, keep, record } => {
                self.core.release_with(id, keep, record, now);
            }
            Command::ReleaseAll { ids, keep } => {
                for id in ids {
                    self.release(id, keep, now);
                }
            }
            Command::Abandon(id) => {
                self.note_pins(id);
                self.forget_cell(id);
                self.core.abandon(id, now);
            }
            Command::KeepUntil { ids, until } => {
                for id in ids {
                    self.core.keep_until(id, until);
                }
            }
            Command::Downgrade(id) => self.core.downgrade(id, now),
            Command::GiveAway(id) => {
                self.forget_cell(id);
                self.core.give_away(id, now);
            }
            Command::Adopt {
                id,
                acquire,
                adoption,
                cell,
            } => {
                self.cells.insert(id, cell);
                self.acquire(id, acquire, Some(adoption), now);
            }
            Command::ForgetResult { key, reply } => self.forget_result(key, reply),
            Command::Wake { at, caller } => {
                let replaced = self.alarms.set(at, caller);
                self.notifications.alarms.extend(replaced);
            }
            Command::ShutDown { limit, reply } => self.shut_down(limit, reply, now),
            Command::ListenerEnded(listener) => self.listener_ended(listener),
            Command::ListenerOutranked(listener) => {
                if self.lanes.outranked(listener, now) {
                    self.store_waker.hand_over();
                }
            }
            Command::ListenerUnable => self.lanes.unable(now),
            Command::Close => self.life = Life::Closed,
            Command::Listen => self.drive(false),
            #[cfg(feature = "__test")]
            Command::Inside(code) => code(),
        }
    }

    fn release(&mut self, id: TicketId, keep: Option<Duration>, now: Instant) {
        self.note_pins(id);
        self.core.release(id, keep, now);
    }

    /// Excludes a released lock from a hand-over if a database transaction may still hold it.
    fn note_pins(&mut self, id: TicketId) {
        if self.cells.get(&id).is_some_and(|cell| cell.may_be_pinned()) {
            self.core.may_be_pinned(id);
        }
    }

    fn acquire_all(
        &mut self,
        acquires: Vec<(TicketId, Acquire, Arc<LeaseCell>)>,
        wait: Duration,
        now: Instant,
    ) {
        let acquires = acquires.into_iter().map(|(id, acquire, cell)| {
            self.cells.insert(id, cell);
            (id, acquire)
        });
        let acquires = acquires.collect();
        self.acquire_each(acquires, wait, now);
    }

    fn forget_result(&mut self, key: FullKey, reply: oneshot::Sender<Result<bool, LockError>>) {
        self.last_forgotten += 1;
        self.forgetting.insert(self.last_forgotten, reply);
        self.core.forget_result(self.last_forgotten, key);
    }

    fn shut_down(&mut self, limit: Duration, reply: oneshot::Sender<ShutdownReport>, now: Instant) {
        self.last_shutdown += 1;
        self.shutdowns.insert(self.last_shutdown, reply);
        self.core.shut_down(self.last_shutdown, limit, now);
    }

    fn forget_cell(&mut self, id: TicketId) {
        let cell = self.cells.remove(&id);
        let waker = cell.and_then(|cell| cell.forget());
        self.notifications.wakers.extend(waker);
    }

    fn listener_ended(&mut self, listener: ListenerId) {
        // The collected requests must not wait for this listener, which can no longer send them.
        self.traffic.gathered();
        if self.lanes.end(listener) && !seeded!(ListenerEndUnnoticed) {
            self.store_waker.hand_over();
        }
    }

    /// Registers the calls of `commands`, which a stopping engine does not execute. The caller must
    /// call [`stop`](Self::stop) next, which notifies these calls.
    pub(in crate::engine::driver) fn refuse(&mut self, commands: impl Iterator<Item = Command>) {
        for command in commands {
            match command {
                Command::Acquire { id, cell, .. } | Command::Adopt { id, cell, .. } => {
                    self.cells.insert(id, cell);
                }
                Command::AcquireAll { acquires, .. } => {
                    let cells = acquires.into_iter().map(|(id, _, cell)| (id, cell));
                    self.cells.extend(cells);
                }
                Command::Wake { caller, .. } => self.notifications.alarms.push(caller),
                Command::ShutDown { reply, .. } => self.notifications.unanswered.push(reply),
                Command::ForgetResult { reply, .. } => self.notifications.forgetting.push(reply),
                _ => {}
            }
        }
    }

    /// Stops the engine: it no longer executes commands, and all waiting calls end with `error`.
    pub(in crate::engine::driver) fn stop(&mut self, error: &LockError) {
        let cells = self.cells.drain().map(|(_, cell)| cell);
        for cell in cells {
            self.notifications.wakers.extend(cell.orphan(error.clone()));
            self.notifications.over.push(cell);
        }
        let shutdowns = self.shutdowns.drain().map(|(_, reply)| reply);
        self.notifications.unanswered.extend(shutdowns);
        let forgetting = self.forgetting.drain().map(|(_, reply)| reply);
        self.notifications.forgetting.extend(forgetting);
        self.notifications.alarms.extend(self.alarms.take());
        self.lanes.follow(Vec::new());
        // Dropping the store closes its connections, so the store is dropped later, without the
        // mutex.
        if self.life != Life::Stopped {
            self.notifications.left = Some(mem::replace(&mut self.store, Box::new(Gone)));
        }
        self.life = Life::Stopped;
        self.store_waker.hand_over();
    }
}

/// Placeholder for the store of a stopped engine. It ignores requests and has no events.
struct Gone;

impl LockStore for Gone {
    fn submit(&mut self, _: &mut Vec<Request>) {}

    fn poll_event(&mut self, _: &mut Context<'_>) -> Poll<StoreEvent> {
        Poll::Pending
    }
}
