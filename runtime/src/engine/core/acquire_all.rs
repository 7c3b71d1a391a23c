//! Acquiring all locks of one call with one request.
//!
//! The request takes all locks, if the store finds all keys free, or none. In three cases, the call
//! takes its locks individually instead, and can queue for each:
//! - A call of this process holds or waits for one of the keys, or too many requests are under way.
//!   The core then does not send the request.
//! - The store cannot take all locks in one step.
//! - The store finds a key held, and the call has a `wait`. A call that tries once is refused.
//!
//! Each lock has its own ticket, and the tickets are independent after the grant. If the request
//! fails, each ticket asks again alone, with the same token. So if the store had taken the locks
//! before the failure, it recognizes the tokens and grants the locks again. Each ticket tries once,
//! and so never queues for a held lock. So no two calls can each wait for a lock of the other.

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
    /// Requests all locks of one call. Each ticket tries once. Its time limit is `io_timeout`, or
    /// `wait` if that is shorter and not zero. The answer to each ticket is `Granted`, `Failed` or
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

    /// Signals the call to request the lock of `id` individually, because the request `op` took no
    /// lock. One of the keys was held, or the store cannot take all locks in one step.
    fn ask_individually(&mut self, op: OpId, id: TicketId, now: Instant) {
        let Some(ticket) = self.tickets.get_mut(id) else {
            return;
        };
        ticket.settle(op);
        if matches!(ticket.stage(), Stage::Asking { op: asked, .. } if *asked == op) {
            self.signal(Signal::Apart(id));
            self.leave(id, false, now);
        } else {
            self.settled(id);
        }
    }
}
