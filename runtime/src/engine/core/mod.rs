//! The pure core: a state machine that turns commands, answers and the time into requests and
//! signals.
//!
//! The state is divided into parts. Each part is a file, and no other file touches its fields:
//!
//! - [`Tickets`] has the locks of all calls, each a [`Ticket`] with its stage, and their
//!   [`Timers`](timers::Timers). In two stages, a ticket has more state: the
//!   [`Lease`](lease::Lease) of a held lock, and the [`Cleanup`](cleanup::Cleanup) of a lock under
//!   removal.
//! - [`Queues`] has a [`KeyQueue`](queue::KeyQueue) for each key: its holder in this process, and
//!   the waiting calls, as a [`Fifo`](fifo::Fifo). The [`Tenure`](tenure::Tenure) limits how often
//!   this process may hand the key over among its calls, and provides the fences. After long use a
//!   key *makes way*: it is left free for a short pause, for clients that do not know the queue.
//! - [`Requests`] has the requests to send, and those without an answer.
//! - [`Renewals`] has the leases to renew now, and the batches of renewals without an answer.
//! - [`HoldTimes`] has the mean hold time of each call site. Refused calls get it as `retry_after`.
//! - [`Drain`] has the shutdowns under way.
//!
//! [`Core`] coordinates: it reads a command or an answer, queries the parts, and passes the result
//! of one part to the next. Each of its tasks has a separate file: `acquire`, `acquire_all`, `ask`,
//! `recall`, `hand_over`, `renew`, `downgrade`, `release`, `adopt`, `revoke`, `absence` and
//! `shut_down`.

mod absence;
pub(crate) mod acquire;
mod acquire_all;
mod adopt;
mod ask;
mod cleanup;
mod downgrade;
pub(crate) mod drain;
mod fifo;
mod hand_over;
pub(crate) mod hold_times;
mod lease;
pub(crate) mod queue;
mod queues;
mod recall;
mod release;
mod renew;
mod renewals;
mod requests;
mod revoke;
mod shut_down;
pub(crate) mod signal;
mod tenure;
#[cfg(test)]
mod tests;
pub(crate) mod ticket;
mod tickets;
mod timers;

use std::mem;

use self::drain::Drain;
use self::hold_times::HoldTimes;
use self::queues::Queues;
use self::renewals::Renewals;
use self::requests::{Flight, Requests};
use self::signal::{Limits, Releases, Renewed, Signal};
use self::ticket::{Stage, Ticket, TicketId};
use self::tickets::Tickets;
use crate::base::clock::{Instant, earlier};
use crate::base::jitter::Jitter;
use crate::store::{Failure, OpId, Reply, Request};

/// The state of all locks of one pool.
#[derive(Debug)]
pub(crate) struct Core {
    limits: Limits,
    tickets: Tickets,
    queues: Queues,
    requests: Requests,
    renewals: Renewals,
    hold_times: HoldTimes,
    drain: Option<Drain>,
    jitter: Jitter,
    signals: Vec<Signal>,
    releases: Releases,
    renewed: Renewed,
    #[cfg(any(test, all(feature = "__test", debug_assertions)))]
    bug: Option<crate::selftest::seeded_bugs::Bug>,
}

impl Core {
    pub(crate) fn new(limits: Limits, seed: u64) -> Self {
        Self {
            limits,
            tickets: Tickets::default(),
            queues: Queues::default(),
            requests: Requests::new(limits.in_flight),
            renewals: Renewals::new(seed),
            hold_times: HoldTimes::default(),
            drain: None,
            jitter: Jitter::new(seed),
            signals: Vec::new(),
            releases: Releases::default(),
            renewed: Renewed::default(),
            #[cfg(any(test, all(feature = "__test", debug_assertions)))]
            bug: crate::selftest::seeded_bugs::active(),
        }
    }

    /// Handles the outcome of a request.
    pub(crate) fn reply(&mut self, op: OpId, result: Result<Reply, Failure>, now: Instant) {
        match self.requests.answered(op) {
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
                self.renewals.answered(op, due);
                self.renew_replied(&tickets, shares, sent, result, now);
            }
            Some(Flight::Release { ticket, certain }) => {
                self.release_replied(ticket, certain, result, now);
            }
            Some(Flight::Adopt { ticket, sent }) => {
                self.adopt_replied(op, ticket, sent, result, now);
            }
            Some(Flight::Forget(number)) => self.forget_replied(number, result),
            Some(Flight::Leave) | None => {}
        }
        self.resume(now);
    }

    /// Repeats the pending acquires and removals, and renews the leases. Called when the store can
    /// be reached again.
    pub(crate) fn connected(&mut self, now: Instant) {
        let ids: Vec<_> = self.tickets.iter().map(|(id, _)| id).collect();
        for id in ids {
            self.retry_now(id, now);
        }
    }

    /// Runs the due timers.
    pub(crate) fn tick(&mut self, now: Instant) {
        while let Some(id) = self.tickets.pop_due(now) {
            self.due(id, now);
            self.arm(id);
        }
        // Runs after the tickets' timers, which end the calls that are out of time. If a lease is
        // lost here, the next call in the queue asks the store. So no call in the queue may be out
        // of time.
        while let Some(op) = self.renewals.pop_due(now) {
            self.batch_due(op, now);
        }
        self.shutdown_due(now);
    }

    /// Returns the time for the next call of [`tick`](Self::tick).
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let renewals = earlier(self.tickets.next_due(), self.renewals.next_due());
        let shutdown = self.drain.as_ref().and_then(Drain::deadline);
        earlier(renewals, shutdown)
    }

    /// True if no lock is held, waited for, or being removed, and no `Leave` request is under way.
    /// The store must receive each `Leave`. Otherwise the processes in the store's queue may wait
    /// for this process after it has ended.
    pub(crate) fn is_idle(&self) -> bool {
        self.tickets.is_empty() && !self.requests.leave_a_queue()
    }

    /// True if a request waits to be sent.
    pub(crate) fn has_requests(&self) -> bool {
        self.requests.are_to_send() || self.renewals.are_due()
    }

    /// Returns the number of requests to send.
    pub(crate) fn to_send(&self) -> usize {
        self.requests.to_send()
    }

    /// Returns the number of requests without an answer, including those that are not sent yet.
    pub(crate) fn under_way(&self) -> usize {
        self.requests.under_way()
    }

    /// Takes the requests to send now. They must be sent in the order of the list.
    pub(crate) fn take_requests(&mut self, now: Instant) -> Vec<Request> {
        self.send_renewals(now);
        self.requests.take()
    }

    /// Takes the signals to deliver now.
    pub(crate) fn take_signals(&mut self) -> Vec<Signal> {
        mem::take(&mut self.signals)
    }

    /// Takes the counts of releases that ended since the last call.
    pub(crate) fn take_releases(&mut self) -> Releases {
        mem::take(&mut self.releases)
    }

    /// Takes the counts of renewals that ended since the last call.
    pub(crate) fn take_renewed(&mut self) -> Renewed {
        mem::take(&mut self.renewed)
    }

    /// Keeps `space`, a list of sent requests, to reuse its memory.
    pub(crate) fn reuse_requests(&mut self, space: Vec<Request>) {
        self.requests.reuse(space);
    }

    /// Keeps `space`, a list of delivered signals, to reuse its memory.
    pub(crate) fn reuse_signals(&mut self, space: Vec<Signal>) {
        signal::reuse(&mut self.signals, space);
    }

    fn signal(&mut self, signal: Signal) {
        self.signals.push(signal);
    }

    fn due(&mut self, id: TicketId, now: Instant) {
        match self.tickets.get(id).map(Ticket::stage) {
            Some(Stage::Queued | Stage::Asking { .. }) => self.acquire_due(id, now),
            Some(Stage::Held(_)) => self.lease_due(id, now),
            Some(Stage::Releasing(_)) => self.release_due(id, now),
            Some(Stage::Lost) | None => {}
        }
    }

    /// Sets the ticket's timer to its next due time.
    fn arm(&mut self, id: TicketId) {
        let queues = &self.queues;
        self.tickets.arm(id, |ticket| {
            let asks_at = if ticket.is_queued() {
                queues.asks_at(&ticket.acquire().key, id)
            } else {
                None
            };
            ticket.next_due(asks_at)
        });
    }

    fn retry_now(&mut self, id: TicketId, now: Instant) {
        let Some(ticket) = self.tickets.get_mut(id) else {
            return;
        };
        if ticket.adoption().is_some() && ticket.is_asking() {
            self.ask_to_adopt(id, now);
            return;
        }
        if ticket.is_acquiring() {
            // The previous request may be lost. A second request with the same token does no harm.
            self.ask_again(id, now);
        } else if let Some(lease) = ticket.lease_mut() {
            // The server may have lost its keys, for example in a restart. An immediate renewal
            // detects that.
            lease.renew_now(now);
        } else if let Some(cleanup) = ticket.cleanup_mut() {
            cleanup.try_at(now);
        }
        self.arm(id);
    }
}
