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
use crate::base::seeded::seeded;
use crate::store::{Failure, Op, OpId, Reply, Request};

/// The largest capacity of a request or signal list that is kept for reuse.
const KEPT: usize = 1024;

/// How many timers without a ticket may be kept.
const STALE_TIMERS: usize = 64;

/// The state of all locks of one pool.
#[derive(Debug)]
pub(crate) struct Core {
    limits: Limits,
    tickets: IdMap<TicketId, Ticket>,
    queues: KeyMap<KeyQueue>,
    flights: IdMap<OpId, Flight>,
    /// Keys that may ask, but came while too many requests were under way.
    held_back: VecDeque<FullKey>,
    drain: Option<Drain>,
    jitter: Jitter,
    /// See [`Watchdog::due`](self::ticket::Watchdog::due).
    phase: Duration,
    /// Leases that are due now, renewed in as few requests as possible.
    renewals: Vec<TicketId>,
    /// Renewals without an answer, and the time at which each is checked.
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

    /// Begins an acquire; answered by `Granted` or `Failed`.
    pub(crate) fn acquire(&mut self, id: TicketId, acquire: Acquire, now: Instant) {
        self.enter(id, acquire, now);
    }

    /// Releases a held lock, at once or after `keep`; answered by `Released`.
    pub(crate) fn release(&mut self, id: TicketId, keep: Option<Duration>, now: Instant) {
        if let (Some(keep), Some(ticket)) = (keep, self.tickets.get_mut(&id))
            // `Lost`: the caller is told of a loss before the lease ends, and the body may return
            // in between.
            && matches!(ticket.stage, Stage::Held(_) | Stage::Lost)
            && ticket.acquire.share.is_none()
        {
            ticket.keep_until(now + keep);
        }
        self.leave(id, true, now);
    }

    /// The lock stays at the store until `until`, however its caller gives it up. The lease does
    /// not: it ends as it would without this.
    pub(crate) fn keep_until(&mut self, id: TicketId, until: Instant) {
        if seeded!(self, AtLeastForgotten) {
            return;
        }
        if let Some(ticket) = self.tickets.get_mut(&id)
            && matches!(ticket.stage, Stage::Held(_) | Stage::Lost)
        {
            ticket.keep_until(until);
        }
    }

    /// The caller is gone, in whatever stage of the ticket. Not answered.
    pub(crate) fn abandon(&mut self, id: TicketId, now: Instant) {
        self.leave(id, false, now);
    }

    /// A request has ended.
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

    /// The store handed a key over to this process.
    pub(crate) fn called(&mut self, key: &FullKey, now: Instant) {
        self.handed_over_by_store(key, now);
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

    /// Runs the timers that are due.
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
        // After the tickets' timers: a call that is out of time must not ask because a lease is
        // lost.
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

    /// Whether no lock is held, waited for, or being removed, and no `Leave` is under way. The
    /// store must hear of a place that is given up, or the processes behind it wait for a process
    /// that is gone.
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

    /// Whether a request waits to be sent.
    pub(crate) fn has_requests(&self) -> bool {
        !self.requests.is_empty() || !self.renewals.is_empty()
    }

    /// How many requests have no answer yet, or an answer that the core has not been given.
    pub(crate) fn under_way(&self) -> usize {
        self.flights.len()
    }

    /// Takes the requests to send now, in this order.
    pub(crate) fn take_requests(&mut self, now: Instant) -> Vec<Request> {
        self.send_renewals(now);
        mem::take(&mut self.requests)
    }

    /// Takes the signals to deliver now.
    pub(crate) fn take_signals(&mut self) -> Vec<Signal> {
        mem::take(&mut self.signals)
    }

    /// Takes back the space of a request list that has been sent.
    pub(crate) fn reuse_requests(&mut self, space: Vec<Request>) {
        reuse(&mut self.requests, space);
    }

    /// Takes back the space of a signal list that has been delivered.
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
            Stage::Held(_) => self.lease_due(id, now),
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
            // The lease is in a batch, and the batch has the timer.
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

    /// Drops the timers without a ticket, once they are the majority. A single one stays until its
    /// time. A caller that may wait for an hour is usually served at once, so they would pile up.
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
            // The request before may be lost. Asking twice with the same token does no harm.
            Stage::Queued | Stage::Asking { .. } => self.ask_again(id, now),
            // The server may have lost its keys: the renewal now finds that out.
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

/// Replaces an empty list by `space`, to reuse the capacity of that.
fn reuse<T>(list: &mut Vec<T>, space: Vec<T>) {
    if list.is_empty() && space.is_empty() && space.capacity() <= KEPT {
        *list = space;
    }
}
