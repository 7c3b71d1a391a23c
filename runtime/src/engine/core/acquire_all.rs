//! Asking for the locks of one call all at once.
//!
//! One request takes all locks or none. The core sends it if no call of this process holds or waits
//! for one of the keys. The request succeeds if the store finds all keys free. Any other call takes
//! its locks individually, where it can queue.
//!
//! Each lock has its own ticket, and the tickets are independent after the grant. If the request
//! fails, each ticket asks again alone with the same token, so the store finds a lock that it
//! already granted. The tickets never wait for another holder, so no two calls can wait for each
//! other.

use std::time::Duration;

use super::Core;
use super::requests::Flight;
use super::signal::Signal;
use super::ticket::{Acquire, Stage, Ticket, TicketId};
use crate::base::clock::Instant;
use crate::base::seeded::seeded;
use crate::error::LockError;
use crate::store::{Failure, Op, OpId, Reply};

impl Core {
    /// Asks for all locks of one call. Each ticket tries once. If `wait` is not zero, it limits the
    /// time of that try. Each ticket is answered by `Granted`, `Failed` or `Apart`.
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
        let known = |(_, acquire): &(TicketId, Acquire)| self.queues.contains(&acquire.key);
        if self.requests.are_too_many() || acquires.iter().any(known) {
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
        let request = Op::TakeAll {
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
        let op = self.requests.send(request, io_timeout / 4, flight);
        let budget = if wait.is_zero() {
            io_timeout
        } else {
            wait.min(io_timeout)
        };
        for (index, (id, acquire)) in acquires.into_iter().enumerate() {
            self.queues.join(id, &acquire);
            let mut ticket = Ticket::new(acquire, now, now + budget);
            ticket.ask(op, now + io_timeout);
            if 0 < index && seeded!(self, SecondKeyOrphaned) {
                ticket.settle(op);
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
            Ok(Reply::HeldAmong { at, left, owner }) => {
                for (index, id) in tickets.iter().enumerate() {
                    if index == at && !waits {
                        let queued = false;
                        let held = Ok(Reply::Held {
                            left,
                            queued,
                            owner: owner.clone(),
                        });
                        self.acquire_replied(op, *id, sent, held, now);
                    } else {
                        self.ask_individually(op, *id, now);
                    }
                }
            }
            Ok(_) => {
                for id in tickets {
                    self.ask_individually(op, *id, now);
                }
            }
            Err(failure) => {
                for id in tickets {
                    self.acquire_replied(op, *id, sent, Err(failure.clone()), now);
                }
            }
        }
    }

    /// Signals the call to request its locks individually, because `op` took no lock. Either the key
    /// of another ticket was held, or the call is willing to queue, which needs individual requests.
    fn ask_individually(&mut self, op: OpId, id: TicketId, now: Instant) {
        let Some(ticket) = self.tickets.get_mut(id) else {
            return;
        };
        ticket.settle(op);
        if matches!(ticket.stage(), Stage::Asking { op: asked, .. } if *asked == op) {
            self.signal(Signal::Apart(id));
            self.leave(id, false, now);
        }
    }
}
