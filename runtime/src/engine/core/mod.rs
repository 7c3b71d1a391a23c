//! The pure core: events and the time go in, requests and signals come out.

mod acquire;
mod acquire_all;
mod ask;
mod downgrade;
pub(crate) mod drain;
mod fifo;
mod hand_over;
mod queue;
mod release;
mod renew;
mod shut_down;
pub(crate) mod signal;
#[cfg(test)]
mod tests;
pub(crate) mod ticket;
mod timers;

use std::collections::{BTreeSet, VecDeque};
use std::mem;
use std::time::Duration;

use self::drain::Drain;
use self::queue::KeyQueue;
use self::signal::{Flight, Limits, Signal};
use self::ticket::{Acquire, Stage, Ticket, TicketId};
use self::timers::Timers;
use crate::base::clock::{Instant, earlier};
use crate::base::full_key::{FullKey, KeyMap};
use crate::base::id_map::IdMap;
use crate::base::jitter::Jitter;
use crate::store::{Failure, Op, OpId, Reply, Request};

/// Space for so many requests, or signals, is kept.
const KEPT: usize = 1024;

/// So many timers without a ticket may be kept.
const STALE_TIMERS: usize = 64;

/// The state of all locks of one pool.
#[derive(Debug)]
pub(crate) struct Core {
    limits: Limits,
    tickets: IdMap<TicketId, Ticket>,
    queues: KeyMap<KeyQueue>,
    flights: IdMap<OpId, Flight>,
    /// Keys whose turn to ask has come while too much was under way.
    held_back: VecDeque<FullKey>,
    drain: Option<Drain>,
    jitter: Jitter,
    /// See [`Watchdog::due`](self::ticket::Watchdog::due).
    phase: Duration,
    /// Leases that are due now; they leave together.
    renewals: Vec<TicketId>,
    /// Renewals that were sent, and when each is looked at if it has not been answered by then.
    unanswered: BTreeSet<(Instant, OpId)>,
    timers: Timers,
    requests: Vec<Request>,
    signals: Vec<Signal>,
    last_op: u64,
    #[cfg(any(test, all(feature = "__test", debug_assertions)))]
    bug: Option<crate::testing::seeded_bugs::Bug>,
}

impl Core {
    pub(crate) fn new(limits: Limits, seed: u64) -> Self {
        Self {
            limits,
            tickets: IdMap::default(),
            queues: KeyMap::default(),
            flights: IdMap::default(),
            held_back: VecDeque::new(),
            drain: None,
            jitter: Jitter::new(seed),
            phase: Duration::from_nanos(seed % 10_000_000),
            renewals: Vec::new(),
            unanswered: BTreeSet::new(),
            timers: Timers::default(),
            requests: Vec::new(),
            signals: Vec::new(),
            last_op: 0,
            #[cfg(any(test, all(feature = "__test", debug_assertions)))]
            bug: crate::testing::seeded_bugs::active(),
        }
    }

    #[cfg(test)]
    pub(in crate::engine) fn with_bug(self, bug: Option<crate::testing::seeded_bugs::Bug>) -> Self {
        Self { bug, ..self }
    }

    /// Takes a new order; answered by `Granted` or `Failed`.
    pub(crate) fn acquire(&mut self, id: TicketId, acquire: Acquire, now: Instant) {
        self.enter(id, acquire, now);
    }

    /// Releases a held lock, at once or after `keep`; answered by `Released`.
    pub(crate) fn release(&mut self, id: TicketId, keep: Option<Duration>, now: Instant) {
        if let (Some(keep), Some(ticket)) = (keep, self.tickets.get_mut(&id))
            // A body may return between the loss that was told early and the end of the lease.
            && matches!(ticket.stage, Stage::Held(_) | Stage::Lost)
            && ticket.acquire.share.is_none()
        {
            ticket.kept_until = Some(now + keep);
        }
        self.leave(id, true, now);
    }

    /// The caller is gone, whatever state the ticket is in. Not answered.
    pub(crate) fn abandon(&mut self, id: TicketId, now: Instant) {
        self.leave(id, false, now);
    }

    /// A request came to its end.
    pub(crate) fn reply(&mut self, op: OpId, result: Result<Reply, Failure>, now: Instant) {
        match self.flights.remove(&op) {
            Some(Flight::Acquire { ticket, sent }) => {
                self.acquire_replied(op, ticket, sent, result, now);
            }
            Some(Flight::AcquireAll {
                tickets,
                waits,
                sent,
            }) => self.acquire_all_replied(op, &tickets, waits, sent, result, now),
            Some(Flight::Renew {
                tickets,
                shares,
                sent,
                due,
            }) => {
                self.unanswered.remove(&(due, op));
                self.renew_replied(&tickets, shares, sent, result, now);
            }
            Some(Flight::Release { ticket, certain }) => {
                self.release_replied(ticket, certain, result, now);
            }
            Some(Flight::Leave) | None => {}
        }
        self.resume(now);
    }

    /// A key was handed to this process.
    pub(crate) fn called(&mut self, key: &FullKey, now: Instant) {
        self.turn(key, now);
    }

    /// Another process queues for a key.
    pub(crate) fn key_wanted(&mut self, key: &FullKey, now: Instant) {
        self.wanted(key, now);
    }

    /// The store can be reached again.
    pub(crate) fn connected(&mut self, now: Instant) {
        let ids: Vec<_> = self.tickets.keys().copied().collect();
        for id in ids {
            self.retry_now(id, now);
        }
    }

    /// Does what is due.
    pub(crate) fn tick(&mut self, now: Instant) {
        while let Some((at, id)) = self.timers.pop(now) {
            let Some(ticket) = self.tickets.get_mut(&id) else {
                continue;
            };
            if ticket.armed != Some(at) {
                continue;
            }
            ticket.armed = None;
            self.due(id, now);
            self.arm(id);
        }
        // After those whose time to wait is over: none of them is to be asked for because a lease is.
        while let Some((due, op)) = self.unanswered.first().copied()
            && due <= now
        {
            self.unanswered.pop_first();
            self.batch_due(op, now);
        }
        self.shutdown_due(now);
    }

    /// When to call [`tick`](Self::tick) next.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let timer = self.timers.next();
        let unanswered = self.unanswered.first().map(|(due, _)| *due);
        let shutdown = self.drain.as_ref().and_then(Drain::deadline);
        earlier(earlier(timer, unanswered), shutdown)
    }

    /// Whether nothing is held, waiting, or to be cleaned up. A place that is given up must reach the store, or those behind
    /// wait for a process that is gone.
    pub(crate) fn is_idle(&self) -> bool {
        let leaving = |flight: &Flight| matches!(flight, Flight::Leave);
        self.tickets.is_empty() && !self.flights.values().any(leaving)
    }

    /// The token under which a ticket holds its key.
    #[cfg(test)]
    pub(in crate::engine) fn token_of(&self, id: TicketId) -> Option<crate::base::token::Token> {
        self.tickets.get(&id).map(|ticket| ticket.acquire.token)
    }

    #[cfg(test)]
    pub(in crate::engine) fn knows_token(&self, token: crate::base::token::Token) -> bool {
        self.tickets
            .values()
            .any(|ticket| ticket.acquire.token == token)
    }

    #[cfg(test)]
    fn timers(&self) -> usize {
        self.timers.len()
    }

    /// Whether there is anything to send.
    pub(crate) fn has_requests(&self) -> bool {
        !self.requests.is_empty() || !self.renewals.is_empty()
    }

    /// How many requests have no answer yet, or one that has not been heard.
    pub(crate) fn under_way(&self) -> usize {
        self.flights.len()
    }

    /// What to send now, in this order.
    pub(crate) fn take_requests(&mut self, now: Instant) -> Vec<Request> {
        self.send_renewals(now);
        mem::take(&mut self.requests)
    }

    /// What to tell callers now.
    pub(crate) fn take_signals(&mut self) -> Vec<Signal> {
        mem::take(&mut self.signals)
    }

    /// Takes back the space of requests that have been sent.
    pub(crate) fn reuse_requests(&mut self, space: Vec<Request>) {
        reuse(&mut self.requests, space);
    }

    /// Takes back the space of signals that have been told.
    pub(crate) fn reuse_signals(&mut self, space: Vec<Signal>) {
        reuse(&mut self.signals, space);
    }

    fn signal(&mut self, signal: Signal) {
        self.signals.push(signal);
    }

    fn send(&mut self, op: Op, patience: Duration, flight: Flight) -> OpId {
        self.last_op += 1;
        let id = OpId(self.last_op);
        self.flights.insert(id, flight);
        self.requests.push(Request { id, op, patience });
        id
    }

    fn due(&mut self, id: TicketId, now: Instant) {
        match self.tickets[&id].stage {
            Stage::Queued | Stage::Asking { .. } => self.acquire_due(id, now),
            Stage::Held(_) => self.hold_due(id, now),
            Stage::Releasing(_) => self.release_due(id, now),
            Stage::Lost => {}
        }
    }

    /// Sets the ticket's timer to its next due time.
    fn arm(&mut self, id: TicketId) {
        let Some(ticket) = self.tickets.get(&id) else {
            return;
        };
        let due = match &ticket.stage {
            Stage::Queued => Some(self.queued_due(id, ticket)),
            Stage::Asking { until, .. } => Some(ticket.budget.min(*until)),
            // It leaves now, and the timer of its batch is its own.
            Stage::Held(lease) if lease.leaving => None,
            Stage::Held(lease) => Some(ticket.next_due(lease)),
            Stage::Releasing(cleanup) => {
                let next = cleanup.next_try.min(cleanup.until);
                Some(cleanup.awaited.map_or(next, |awaited| next.min(awaited)))
            }
            Stage::Lost => None,
        };
        let earlier = |due: &Instant| ticket.armed.is_none_or(|armed| *due < armed);
        if let Some(due) = due.filter(earlier)
            && let Some(ticket) = self.tickets.get_mut(&id)
        {
            ticket.armed = Some(due);
            self.timers.push((due, id));
            self.drop_stale_timers();
        }
    }

    /// A timer of a ticket that is gone stays until its time. Where most are such, they go at once: a caller that may wait for
    /// an hour is usually served in a moment.
    fn drop_stale_timers(&mut self) {
        if self.timers.len() <= 2 * self.tickets.len() + STALE_TIMERS {
            return;
        }
        let armed = |(id, ticket): (&TicketId, &Ticket)| ticket.armed.map(|at| (at, *id));
        self.timers = self.tickets.iter().filter_map(armed).collect();
    }

    fn retry_now(&mut self, id: TicketId, now: Instant) {
        let Some(ticket) = self.tickets.get_mut(&id) else {
            return;
        };
        match &mut ticket.stage {
            // What was asked before may have gone into the void; with the same token asking twice does no harm.
            Stage::Queued | Stage::Asking { .. } => self.ask_again(id, now),
            // The server may have come back empty: better to know that now.
            Stage::Held(lease) => {
                if let Some(renew_at) = &mut lease.renew_at {
                    *renew_at = now;
                }
                lease.leaving = false;
            }
            Stage::Releasing(cleanup) => cleanup.next_try = now,
            Stage::Lost => {}
        }
        self.arm(id);
    }
}

/// Puts the space of a list that has been carried out in the place of one that is empty.
fn reuse<T>(list: &mut Vec<T>, space: Vec<T>) {
    if list.is_empty() && space.is_empty() && space.capacity() <= KEPT {
        *list = space;
    }
}
