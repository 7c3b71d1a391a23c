//! Asking for the locks of one call at once.
//!
//! This is for the call that nothing stands in the way of: nobody in this process has one of the keys or waits for it, and the
//! store finds all of them free. It then takes one request, and nothing is taken where one key is not free. Any other call takes its
//! locks one by one, where it can queue.
//!
//! Each lock has a ticket of its own, as every lock has, and from the grant on the tickets have nothing to do with each other. If
//! the request fails they ask again each for itself, with the same tokens: what the store has carried out is found again. They never
//! wait for another holder, so no two calls can wait for each other.

use std::time::Duration;

use super::Core;
use super::queue::KeyQueue;
use super::signal::{Flight, Signal};
use super::ticket::{Acquire, Stage, Ticket, TicketId};
use crate::base::clock::Instant;
use crate::base::seeded::seeded;
use crate::error::LockError;
use crate::store::{Failure, Op, OpId, Reply};

impl Core {
    /// Takes the orders of one call that try once, at most for `wait` if that is not zero. Each is answered by `Granted`, `Failed` or
    /// `Apart`.
    pub(crate) fn acquire_all(
        &mut self,
        acquires: Vec<(TicketId, Acquire)>,
        wait: Duration,
        now: Instant,
    ) {
        if self.drain.is_some() {
            for (id, _) in acquires {
                self.signal(Signal::Failed(id, LockError::ShuttingDown));
            }
            return;
        }
        let known = |(_, acquire): &(TicketId, Acquire)| self.queues.contains_key(&acquire.key);
        if self.limits.in_flight <= self.flights.len() || acquires.iter().any(known) {
            for (id, _) in acquires {
                self.signal(Signal::Apart(id));
            }
            return;
        }
        self.ask_for_all(acquires, wait, now);
    }

    fn ask_for_all(&mut self, acquires: Vec<(TicketId, Acquire)>, wait: Duration, now: Instant) {
        let Some((_, first)) = acquires.first() else {
            return;
        };
        let (io_timeout, ttl) = (self.limits.io_timeout, first.terms.ttl());
        let request = Op::AcquireAll {
            keys: acquires
                .iter()
                .map(|(_, acquire)| (acquire.key.clone(), acquire.token))
                .collect(),
            ttl,
            function: first.function,
        };
        let flight = Flight::AcquireAll {
            tickets: acquires.iter().map(|(id, _)| *id).collect(),
            waits: !wait.is_zero(),
            sent: now,
        };
        let op = self.send(request, io_timeout / 4, flight);
        let budget = if wait.is_zero() {
            io_timeout
        } else {
            wait.min(io_timeout)
        };
        for (place, (id, acquire)) in acquires.into_iter().enumerate() {
            let mut queue = KeyQueue::new();
            queue.push(id, &acquire);
            self.queues.insert(acquire.key.clone(), queue);
            let stage = Stage::Asking {
                op,
                until: now + io_timeout,
            };
            let mut ticket = Ticket::new(acquire, now, now + budget);
            ticket.stage = stage;
            if place == 0 || !seeded!(self, SecondKeyOrphaned) {
                ticket.open.push(op);
            }
            self.tickets.insert(id, ticket);
            self.arm(id);
        }
    }

    pub(super) fn acquire_all_replied(
        &mut self,
        op: OpId,
        tickets: &[TicketId],
        waits: bool,
        sent: Instant,
        result: Result<Reply, Failure>,
        now: Instant,
    ) {
        match result {
            Ok(Reply::AcquiredAll(all)) => {
                for (id, reply) in tickets.iter().zip(all) {
                    self.acquire_replied(op, *id, sent, Ok(reply), now);
                }
            }
            Ok(Reply::HeldAmong { at, left }) => {
                for (place, id) in tickets.iter().enumerate() {
                    if place == at && !waits {
                        let queued = false;
                        let held = Ok(Reply::Held { left, queued });
                        self.acquire_replied(op, *id, sent, held, now);
                    } else {
                        self.apart(op, *id, now);
                    }
                }
            }
            Ok(_) => {
                for id in tickets {
                    self.apart(op, *id, now);
                }
            }
            Err(failure) => {
                for id in tickets {
                    self.acquire_replied(op, *id, sent, Err(failure.clone()), now);
                }
            }
        }
    }

    /// `op` has taken nothing, and not because of this ticket's key, or not for good.
    fn apart(&mut self, op: OpId, id: TicketId, now: Instant) {
        let Some(ticket) = self.tickets.get_mut(&id) else {
            return;
        };
        ticket.open.retain(|open| *open != op);
        if matches!(ticket.stage, Stage::Asking { op: asked, .. } if asked == op) {
            self.signal(Signal::Apart(id));
            self.leave(id, false, now);
        }
    }
}
