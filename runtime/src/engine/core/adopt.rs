//! Giving held locks away to other processes, and adopting locks from them.
//!
//! A given-away lock keeps its token at the store until it is adopted or expires. The core that
//! gives the lock away forgets it, and neither renews nor releases it. An adoption checks the old
//! token and replaces it, in one step at the store. If two cores adopt the same lock, the second
//! request finds neither the old token nor its own, and is refused. If a core repeats its
//! successful request, the store finds the new token, and the request succeeds again.
//!
//! Like any other lease, an adopted lease is counted from the time of its request. If an adoption
//! gets no answer in time, the store may have carried it out. So the core then removes the lock, as
//! after an abandoned acquire.

use std::time::Duration;

use super::Core;
use super::acquire::unanswered;
use super::requests::Flight;
use super::signal::Signal;
use super::tenure::Tenure;
use super::ticket::{Acquire, Adoption, Stage, Ticket, TicketId};
use crate::base::clock::Instant;
use crate::base::seeded::seeded;
use crate::error::LockError;
use crate::store::{Failure, Op, OpId, Reply, Retry};

/// Mean pause before a failed adoption is requested again.
const PAUSE: Duration = Duration::from_millis(20);

impl Core {
    /// Forgets a held lock, but leaves it at the store, where another process may adopt it. The
    /// caller gets no answer.
    pub(crate) fn give_away(&mut self, id: TicketId, now: Instant) {
        let Some(ticket) = self.tickets.get(id) else {
            return;
        };
        if !matches!(ticket.stage(), Stage::Held(_) | Stage::Lost) {
            return;
        }
        let key = ticket.acquire().key.clone();
        self.tickets.remove(id);
        self.vacate(id, &key, false, now);
        self.shutdown_due(now);
    }

    /// Adopts a lock, which then has the token of `acquire`. The answer is `Granted` or `Failed`.
    pub(crate) fn adopt(
        &mut self,
        id: TicketId,
        acquire: Acquire,
        adoption: Adoption,
        now: Instant,
    ) {
        if self.drain.is_some() {
            self.signal(Signal::Failed(id, LockError::ShuttingDown));
            return;
        }
        let budget = now + self.limits.io_timeout;
        let mut ticket = Ticket::new(acquire, now, budget);
        ticket.adopts(adoption);
        self.tickets.insert(id, ticket);
        self.ask_to_adopt(id, now);
    }

    /// Refuses an adoption, because the store is away. An adoption, unlike an acquire, is never
    /// contended: the lock to adopt holds the key.
    pub(crate) fn refuse_adoption(&mut self, id: TicketId, absence: LockError) {
        let error = if self.drain.is_some() {
            LockError::ShuttingDown
        } else {
            absence
        };
        self.signal(Signal::Failed(id, error));
    }

    pub(super) fn ask_to_adopt(&mut self, id: TicketId, now: Instant) {
        let io_timeout = self.limits.io_timeout;
        let Some(ticket) = self.tickets.get_mut(id) else {
            return;
        };
        let Some(adoption) = ticket.adoption() else {
            return;
        };
        let acquire = ticket.acquire();
        let token = if seeded!(self, AdoptedTwice) {
            adoption.from
        } else {
            acquire.token
        };
        let request = Op::Adopt {
            key: acquire.key.clone(),
            from: adoption.from,
            token,
            ttl: acquire.terms.ttl(),
            function: acquire.function,
        };
        let flight = Flight::Adopt {
            ticket: id,
            sent: now,
        };
        let op = self.requests.send(request, io_timeout / 4, flight);
        ticket.ask(op, now + io_timeout / 2);
        self.arm(id);
    }

    pub(super) fn adopt_replied(
        &mut self,
        op: OpId,
        id: TicketId,
        sent: Instant,
        result: Result<Reply, Failure>,
        now: Instant,
    ) {
        let Some(ticket) = self.tickets.get_mut(id) else {
            return;
        };
        ticket.answered(op, &result);
        let Some(adoption) = ticket.adoption().filter(|_| ticket.is_asking()) else {
            return self.settled(id);
        };
        let terms = ticket.acquire().terms;
        match result {
            Ok(Reply::Acquired {
                fence,
                reserved_fences,
                wanted,
            }) if ticket.is_in_time(now) && now < terms.soft(sent) => {
                let key = ticket.acquire().key.clone();
                let fence = if seeded!(self, ForgedFenceBelieved) {
                    adoption.fence
                } else {
                    adoption.fence_among(fence, reserved_fences)
                };
                // Begins the tenure without reserved fences, because calls of the previous process
                // may have used them.
                let tenure = Tenure::begin(fence, 0, wanted, now);
                self.queues.open(&key).granted(id, false, tenure, now);
                self.grant(id, sent, fence, now);
            }
            Ok(Reply::Acquired { .. }) => self.ask_to_adopt(id, now),
            Ok(Reply::Gone) => {
                let error = LockError::lost(ticket.acquire().key.name(), adoption.fence);
                self.fail(id, error, now);
            }
            Err(failure) if failure.retry == Retry::Never => self.fail(id, failure.error, now),
            Ok(_) | Err(_) => {
                ticket.ask_again_at(now + self.jitter.around(PAUSE));
                self.arm(id);
            }
        }
    }

    /// Repeats an adoption that failed or has no answer. Fails the ticket if its time is over.
    pub(super) fn adopt_due(&mut self, id: TicketId, now: Instant) {
        let Some(ticket) = self.tickets.get(id) else {
            return;
        };
        if !ticket.is_in_time(now) {
            let error = unanswered(ticket.waited(now));
            self.fail(id, error, now);
        } else if ticket.asks_again(now) {
            self.ask_to_adopt(id, now);
        }
    }
}
