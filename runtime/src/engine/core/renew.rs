//! Keeping a lock, and noticing that it is lost.

use std::iter;
use std::time::Duration;

use super::Core;
use super::signal::{Flight, Signal};
use super::ticket::{Stage, Ticket, TicketId};
use crate::base::clock::Instant;
use crate::base::full_key::FullKey;
use crate::base::reporter;
use crate::base::seeded::seeded;
use crate::store::{Failure, Op, OpId, Renewal, Reply, Retry};

/// How many leases one renewal carries. A script of 1,000 keys doubles the p99 latency of everybody else on
/// the server; one of 200 is hardly seen, and costs the client no more.
const BATCH: usize = 200;

impl Core {
    pub(super) fn hold_due(&mut self, id: TicketId, now: Instant) {
        let Some(ticket) = self.tickets.get_mut(&id) else {
            return;
        };
        let Stage::Held(lease) = &ticket.stage else {
            return;
        };
        if ticket.end(lease) <= now {
            self.lose(id, now);
        } else if lease.renew_at.is_some_and(|at| at <= now) {
            self.renew(id, now);
        }
    }

    /// Puts the lease into the batch that leaves now, and plans for no answer.
    pub(super) fn renew(&mut self, id: TicketId, now: Instant) {
        let Some(ticket) = self.tickets.get_mut(&id) else {
            return;
        };
        let terms = ticket.acquire.terms;
        if let Stage::Held(lease) = &mut ticket.stage {
            lease.renewing = true;
            lease.renew_at = Some(now + terms.attempt() + self.jitter.around(terms.retry()));
            if seeded!(self, WatchdogAsleep) {
                return;
            }
            lease.leaving = true;
            self.renewals.push(id);
        }
    }

    /// A renewal of many has gone unanswered for so long that one of them may have something to do.
    pub(super) fn batch_due(&mut self, op: OpId, now: Instant) {
        let Some(Flight::Renew { tickets, .. }) = self.flights.get(&op) else {
            return;
        };
        for id in tickets.clone() {
            if self.has_left(id) {
                self.hold_due(id, now);
                self.arm(id);
            }
        }
    }

    /// A lease that is held and that nobody looks at when it is due.
    #[cfg(test)]
    pub(in crate::engine) fn unwatched(&self) -> Option<TicketId> {
        let in_batch = |id: TicketId, due: Instant| {
            let mut batches = self.unanswered.iter().filter(|(at, _)| *at <= due);
            batches.any(|(_, op)| match self.flights.get(op) {
                Some(Flight::Renew { tickets, .. }) => tickets.contains(&id),
                _ => false,
            })
        };
        let unwatched = |(id, ticket): (&TicketId, &Ticket)| {
            let Stage::Held(lease) = &ticket.stage else {
                return None;
            };
            let due = ticket.next_due(lease);
            let armed = ticket.armed.is_some_and(|at| at <= due);
            let watched = armed || (lease.leaving && in_batch(*id, due));
            (!watched).then_some(*id)
        };
        self.tickets.iter().find_map(unwatched)
    }

    /// From now on the lease has a timer of its own again, if it had none.
    fn has_left(&mut self, id: TicketId) -> bool {
        match self.tickets.get_mut(&id).map(|ticket| &mut ticket.stage) {
            Some(Stage::Held(lease)) => std::mem::take(&mut lease.leaving),
            _ => false,
        }
    }

    pub(super) fn send_renewals(&mut self, now: Instant) {
        if self.renewals.is_empty() {
            return;
        }
        let due = std::mem::take(&mut self.renewals);
        let (shares, locks): (Vec<_>, Vec<_>) = due.into_iter().partition(|id| self.is_share(*id));
        self.send_batches(&locks, false, now);
        self.send_batches(&shares, true, now);
    }

    fn is_share(&self, id: TicketId) -> bool {
        let ticket = self.tickets.get(&id);
        ticket.is_some_and(|ticket| ticket.acquire.share.is_some())
    }

    fn send_batches(&mut self, due: &[TicketId], shares: bool, now: Instant) {
        for batch in due.chunks(BATCH) {
            let mut tickets = Vec::with_capacity(batch.len());
            let mut renewals = Vec::with_capacity(batch.len());
            let mut patience = Duration::MAX;
            let mut first = now + Duration::MAX;
            for id in batch {
                let Some(ticket) = self.tickets.get(id) else {
                    continue;
                };
                // Released in the same instant: nothing to renew.
                let Stage::Held(lease) = &ticket.stage else {
                    continue;
                };
                first = first.min(ticket.next_due(lease));
                tickets.push(*id);
                renewals.push(Renewal {
                    key: ticket.acquire.key.clone(),
                    token: ticket.acquire.token,
                    ttl: ticket.acquire.terms.ttl(),
                });
                patience = patience.min(ticket.acquire.terms.attempt());
            }
            if !renewals.is_empty() {
                let flight = Flight::Renew {
                    tickets,
                    shares,
                    sent: now,
                    due: first,
                };
                let op = if shares { Op::Stay } else { Op::Renew };
                let op = self.send(op(renewals), patience, flight);
                self.unanswered.insert((first, op));
            }
        }
    }

    pub(super) fn renew_replied(
        &mut self,
        tickets: &[TicketId],
        shares: bool,
        sent: Instant,
        result: Result<Reply, Failure>,
        now: Instant,
    ) {
        match result {
            Ok(Reply::Renewed(kept)) => {
                let kept = kept.into_iter().map(Some);
                self.renewals_said(tickets, shares, sent, kept, now);
            }
            #[cfg(feature = "redis")]
            Ok(Reply::RenewedInPart(kept)) => {
                self.renewals_said(tickets, shares, sent, kept.into_iter(), now);
            }
            // Not known: the lease runs on as it was, and the same token is tried again.
            unknown => {
                let retry = unknown.map_or_else(|failure| failure.retry, |_| Retry::Later);
                for id in tickets {
                    if seeded!(self, UnknownIsSuccess) {
                        self.extend(*id, sent);
                    }
                    self.renew_soon(*id, retry, now);
                }
            }
        }
    }

    /// Of each whether its key was kept, as far as that is known: all of them have a timer of their own again after this.
    fn renewals_said(
        &mut self,
        tickets: &[TicketId],
        shares: bool,
        sent: Instant,
        kept: impl Iterator<Item = Option<bool>>,
        now: Instant,
    ) {
        let mixed = seeded!(self, WrongLeaseExtended);
        for (place, kept) in (0..tickets.len()).zip(kept.chain(iter::repeat(None))) {
            let place = if mixed {
                tickets.len() - 1 - place
            } else {
                place
            };
            self.renewal_said(tickets[place], shares, sent, kept, now);
        }
    }

    /// Whether the key was kept, if that is known.
    fn renewal_said(
        &mut self,
        id: TicketId,
        shares: bool,
        sent: Instant,
        kept: Option<bool>,
        now: Instant,
    ) {
        match kept {
            Some(true) => {
                let sent = if seeded!(self, CountedFromReply) {
                    now
                } else {
                    sent
                };
                self.extend(id, sent);
                if shares {
                    self.is_shared(id, now);
                }
            }
            Some(false) if !seeded!(self, LossIgnored) => self.lose(id, now),
            _ => self.renew_soon(id, Retry::Later, now),
        }
    }

    fn extend(&mut self, id: TicketId, sent: Instant) {
        let Some(ticket) = self.tickets.get_mut(&id) else {
            return;
        };
        let watchdog = ticket.acquire.watchdog;
        let Stage::Held(lease) = &mut ticket.stage else {
            return;
        };
        lease.renewing = false;
        lease.leaving = false;
        if lease.sent < sent {
            lease.sent = sent;
            lease.renew_at = watchdog.map(|dog| dog.due(sent, self.phase));
            lease.hurried = false;
        }
        let Some(deadline) = held_deadline(ticket) else {
            return;
        };
        self.signal(Signal::Extended {
            ticket: id,
            deadline,
        });
        self.arm(id);
    }

    fn renew_soon(&mut self, id: TicketId, retry: Retry, now: Instant) {
        let Some(ticket) = self.tickets.get_mut(&id) else {
            return;
        };
        let terms = ticket.acquire.terms;
        let Stage::Held(lease) = &mut ticket.stage else {
            return;
        };
        lease.leaving = false;
        let pause = if retry == Retry::Now && !std::mem::replace(&mut lease.hurried, true) {
            Duration::ZERO
        } else {
            // Even after an error that only an operator can mend: that may happen before the lease ends.
            self.jitter.around(terms.retry())
        };
        if let Some(renew_at) = &mut lease.renew_at {
            *renew_at = (now + pause).min(*renew_at);
        }
        self.arm(id);
    }

    /// The lease is over: tell the holder, and let the next one ask.
    fn lose(&mut self, id: TicketId, now: Instant) {
        let Some(ticket) = self.tickets.get_mut(&id) else {
            return;
        };
        let Stage::Held(lease) = &ticket.stage else {
            return;
        };
        let over = lease.ceiling.is_some_and(|ceiling| ceiling <= now);
        let (key, fence) = (ticket.acquire.key.clone(), lease.fence);
        let (lost, held_for) = (key.clone(), now.since(lease.since));
        reporter::log(move || {
            tracing::warn!(
                key = ?lost.name(),
                fence = fence.map(crate::Fence::get),
                ?held_for,
                reason = if over { "max_hold is over" } else { "not renewed in time, or taken away" },
                "lease lost"
            );
        });
        ticket.stage = Stage::Lost;
        self.signal(Signal::Lost(id));
        self.vacate(id, &key, false, now);
    }

    /// The local holder of `key` is gone, and makes way for other clients or does not.
    pub(super) fn vacate(&mut self, id: TicketId, key: &FullKey, makes_way: bool, now: Instant) {
        if let Some(queue) = self.queues.get_mut(key)
            && queue.holder == Some(id)
        {
            queue.vacated(makes_way, now, |pause| self.jitter.around(pause));
        }
        self.pump(key, now);
    }
}

fn held_deadline(ticket: &Ticket) -> Option<Instant> {
    match &ticket.stage {
        Stage::Held(lease) => Some(ticket.deadline(lease)),
        _ => None,
    }
}
