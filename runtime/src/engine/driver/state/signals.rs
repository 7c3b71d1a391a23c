//! Applies the core's signals to lease cells and metrics, and collects the notifications for
//! callers.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::EngineState;
use crate::engine::core::signal::Signal;
use crate::engine::core::ticket::{Removal, TicketId};
use crate::engine::lease_cell::{LeaseCell, Parting};
use crate::engine::metrics;

impl EngineState {
    /// Applies all signals of the core. Tasks are not woken here: their wakers become
    /// notifications, which are delivered after the engine's mutex is released.
    pub(super) fn apply_signals(&mut self) {
        let mut signals = self.core.take_signals();
        for signal in signals.drain(..) {
            self.apply(signal);
        }
        self.core.reuse_signals(signals);
        metrics::released(self.core.take_releases());
        metrics::renewed(self.core.take_renewed());
    }

    fn apply(&mut self, signal: Signal) {
        metrics::count(&signal);
        self.observer.signal(&signal, self.now);
        let waker = self.notify(signal);
        self.notifications.wakers.extend(waker);
    }

    /// Changes a cell. Returns no waker.
    fn change(&self, ticket: TicketId, change: impl FnOnce(&LeaseCell)) -> Option<Parting> {
        if let Some(cell) = self.cells.get(&ticket) {
            change(cell);
        }
        None
    }

    /// Applies one signal. Returns the waker of its call's task, if the waker must be called or
    /// dropped.
    fn notify(&mut self, signal: Signal) -> Option<Parting> {
        match signal {
            Signal::Settled(ticket, settled) => self.change(ticket, |cell| {
                cell.unsettled.store(!settled, Ordering::SeqCst);
            }),
            Signal::Granted {
                ticket,
                deadline,
                fence,
            } => self
                .cells
                .get(&ticket)
                .and_then(|cell| cell.grant(deadline, fence)),
            Signal::Extended { ticket, deadline } => {
                self.change(ticket, |cell| cell.extend(deadline))
            }
            Signal::Shared(ticket) => self.cells.get(&ticket).and_then(|cell| cell.share()),
            Signal::TakenAway(ticket) => self.change(ticket, LeaseCell::take_away),
            Signal::Lost(ticket) => self.cells.get(&ticket).and_then(|cell| {
                self.notifications.over.push(Arc::clone(cell));
                cell.lose()
            }),
            Signal::Inherited { ticket, token } => self.change(ticket, |cell| cell.inherit(token)),
            Signal::Recalled(ticket, kept) => self
                .cells
                .remove(&ticket)
                .and_then(|cell| cell.recall(kept)),
            Signal::Forgotten(number, forgotten) => {
                let reply = self.forgetting.remove(&number);
                self.notifications
                    .forgotten
                    .extend(reply.map(|reply| (reply, forgotten)));
                None
            }
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
        }
    }
}
