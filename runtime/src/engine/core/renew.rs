//! Renewing leases, and detecting lost ones.

#[cfg(feature = "__session")]
use std::collections::HashSet;
use std::iter;
use std::time::Duration;

use super::Core;
use super::lease::Lease;
use super::requests::Flight;
use super::signal::Signal;
use super::ticket::{Ticket, TicketId};
use crate::base::clock::Instant;
use crate::base::codes;
use crate::base::full_key::FullKey;
use crate::base::reporter;
use crate::base::seeded::seeded;
#[cfg(feature = "__session")]
use crate::base::token::Token;
use crate::fence::Fence;
use crate::store::{Failure, Op, OpId, Renewal, Reply, Retry};

/// Maximum number of leases in one request. A script that renews 1,000 keys doubles the p99 latency
/// of the server's other clients. With 200 keys the latency hardly changes, and the cost for this
/// client is the same.
const BATCH: usize = 200;

/// Longest mean pause before an unconfirmed downgrade is repeated. Its caller waits for the answer.
const LONGEST_DOWNGRADE_RETRY: Duration = Duration::from_secs(1);

impl Core {
    pub(super) fn lease_due(&mut self, id: TicketId, now: Instant) {
        let Some(lease) = self.tickets.get(id).and_then(Ticket::lease) else {
            return;
        };
        if lease.is_over(now) {
            self.lose(id, now);
        } else if lease.is_to_renew(now) {
            self.renew(id, now);
        }
    }

    /// Adds the lease to the batch to send now, and plans a retry in case there is no answer.
    pub(super) fn renew(&mut self, id: TicketId, now: Instant) {
        let longest = self.longest_retry(id);
        let Some(ticket) = self.tickets.get_mut(id) else {
            return;
        };
        let terms = ticket.acquire().terms;
        if let Some(lease) = ticket.lease_mut() {
            let pause = self.jitter.around(terms.retry().min(longest));
            lease.renew(now + terms.attempt() + pause);
            if seeded!(self, WatchdogAsleep) {
                return;
            }
            lease.enter_batch();
            self.renewals.add(id);
        }
    }

    /// Returns the longest mean pause before a renewal of the lease is retried.
    fn longest_retry(&self, id: TicketId) -> Duration {
        if self.is_downgrading(id) {
            LONGEST_DOWNGRADE_RETRY
        } else {
            Duration::MAX
        }
    }

    /// Handles an unanswered batch `op` when one of its leases is due. Removes the leases from the
    /// batch, and renews or ends those that are due.
    pub(super) fn batch_due(&mut self, op: OpId, now: Instant) {
        for id in self.requests.renewed_by(op).to_vec() {
            let ticket = self.tickets.get_mut(id);
            let lease = ticket.and_then(Ticket::lease_mut);
            if lease.is_some_and(Lease::leave_batch) {
                self.renewed.unknown += 1;
                self.lease_due(id, now);
                self.arm(id);
            }
        }
    }

    pub(super) fn send_renewals(&mut self, now: Instant) {
        if !self.renewals.are_due() {
            return;
        }
        let due = self.renewals.take_due();
        let (shares, locks): (Vec<_>, Vec<_>) = due.into_iter().partition(|id| self.is_share(*id));
        self.send_batches(&locks, false, now);
        self.send_batches(&shares, true, now);
    }

    fn is_share(&self, id: TicketId) -> bool {
        let ticket = self.tickets.get(id);
        ticket.is_some_and(|ticket| ticket.acquire().share.is_some())
    }

    fn send_batches(&mut self, due: &[TicketId], shares: bool, now: Instant) {
        for batch in due.chunks(BATCH) {
            let mut tickets = Vec::with_capacity(batch.len());
            let mut renewals = Vec::with_capacity(batch.len());
            let mut patience = Duration::MAX;
            let mut first = now + Duration::MAX;
            for id in batch {
                let Some(ticket) = self.tickets.get(*id) else {
                    continue;
                };
                // The lock was released or lost after its renewal became due, so there is no lease
                // to renew.
                let Some(lease) = ticket.lease() else {
                    continue;
                };
                let acquire = ticket.acquire();
                first = first.min(lease.next_due());
                tickets.push(*id);
                renewals.push(Renewal {
                    key: acquire.key.clone(),
                    token: acquire.token,
                    ttl: acquire.terms.ttl(),
                });
                patience = patience.min(acquire.terms.attempt());
            }
            if !renewals.is_empty() {
                let flight = Flight::Renew {
                    tickets,
                    shares,
                    sent: now,
                    due: first,
                };
                let op = Op::Keep { renewals, shares };
                let op = self.requests.send(op, patience, flight);
                self.renewals.sent(op, first);
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
                self.renewals_answered(tickets, shares, sent, kept, now);
            }
            Ok(Reply::RenewedInPart(kept)) => {
                self.renewals_answered(tickets, shares, sent, kept.into_iter(), now);
            }
            // The outcome is unknown. The leases keep their deadline, and are renewed again with
            // the same tokens.
            unknown => {
                self.renewed.unknown += tickets.len();
                let failure = unknown.err();
                let retry = failure
                    .as_ref()
                    .map_or(Retry::Later, |failure| failure.retry);
                for id in tickets {
                    let lease = self.tickets.get_mut(*id).and_then(Ticket::lease_mut);
                    if let (Some(lease), Some(failure)) = (lease, &failure) {
                        lease.not_confirmed(failure.error.clone());
                    }
                    if seeded!(self, UnknownIsSuccess) {
                        self.extend(*id, sent);
                    }
                    self.renew_soon(*id, retry, now);
                }
            }
        }
    }

    /// Applies the answer to a batch. `kept` has an item for each lease: true if the store renewed
    /// it, false if it is lost, none if the outcome is unknown. A missing item counts as none.
    /// Afterwards each lease has its own timer again.
    fn renewals_answered(
        &mut self,
        tickets: &[TicketId],
        shares: bool,
        sent: Instant,
        kept: impl Iterator<Item = Option<bool>>,
        now: Instant,
    ) {
        let mixed = seeded!(self, WrongLeaseExtended);
        for (index, kept) in (0..tickets.len()).zip(kept.chain(iter::repeat(None))) {
            let index = if mixed {
                tickets.len() - 1 - index
            } else {
                index
            };
            self.renewal_answered(tickets[index], shares, sent, kept, now);
        }
    }

    /// Applies the answer for one lease. For `kept`, see `renewals_answered`. `shares` is true if
    /// the lock was renewed as a share.
    fn renewal_answered(
        &mut self,
        id: TicketId,
        shares: bool,
        sent: Instant,
        kept: Option<bool>,
        now: Instant,
    ) {
        // If the lock has become a share since, an exclusive renewal that arrived late has not
        // found it. That is no loss.
        let ticket = self.tickets.get(id);
        let is_share = ticket.is_some_and(|ticket| ticket.acquire().share.is_some());
        let kept = kept.filter(|kept| *kept || shares || !is_share);
        match kept {
            Some(true) => self.renewed.kept += 1,
            // The lease had already ended, so this answer does not count as another loss.
            Some(false) if self.tickets.get(id).and_then(Ticket::lease).is_none() => {}
            Some(false) => self.renewed.lost += 1,
            None => self.renewed.unknown += 1,
        }
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
        let Some(ticket) = self.tickets.get_mut(id) else {
            return;
        };
        let watchdog = ticket.acquire().watchdog;
        let Some(lease) = ticket.lease_mut() else {
            return;
        };
        let renew_at = watchdog.map(|watchdog| self.renewals.time(watchdog, sent));
        lease.renewed(sent, renew_at);
        let deadline = lease.deadline();
        self.signal(Signal::Extended {
            ticket: id,
            deadline,
        });
        self.arm(id);
    }

    fn renew_soon(&mut self, id: TicketId, retry: Retry, now: Instant) {
        let longest = self.longest_retry(id);
        let Some(ticket) = self.tickets.get_mut(id) else {
            return;
        };
        let terms = ticket.acquire().terms;
        let Some(lease) = ticket.lease_mut() else {
            return;
        };
        lease.leave_batch();
        let hurries = retry == Retry::Now && lease.may_hurry();
        let pause = if hurries || seeded!(self, RetriedTogether) {
            Duration::ZERO
        } else {
            // Retries even after an error that only an operator can fix, because the operator may
            // fix it before the lease ends. Each lease has a different pause, so the retries are
            // separate requests. If one lease made the store refuse the whole batch, the other
            // leases are renewed this way.
            self.jitter.around(terms.retry().min(longest))
        };
        lease.renew_by(now + pause);
        self.arm(id);
    }

    /// Ends every lease on `key`. Only `leasehold::testing` uses this, to simulate a store that has
    /// lost the key.
    pub(crate) fn key_lost(&mut self, key: &FullKey, now: Instant) {
        let held = self.tickets.iter().filter(|(_, ticket)| {
            let acquire = ticket.acquire();
            ticket.lease().is_some() && acquire.key == *key
        });
        let mut held: Vec<_> = held.map(|(id, _)| id).collect();
        held.sort_unstable();
        for id in held {
            self.lose(id, now);
        }
    }

    /// Ends the leases of `locks`, because the store reports these locks as lost.
    #[cfg(feature = "__session")]
    pub(crate) fn lost(&mut self, locks: &[(FullKey, Token)], now: Instant) {
        let lost: HashSet<&(FullKey, Token)> = locks.iter().collect();
        let holders = self.tickets.iter().filter(|(_, ticket)| {
            let acquire = ticket.acquire();
            ticket.lease().is_some() && lost.contains(&(acquire.key.clone(), acquire.token))
        });
        let holders: Vec<_> = holders.map(|(id, _)| id).collect();
        for id in holders {
            self.lose(id, now);
        }
    }

    /// Ends the lease as lost: notifies the holder, and lets the next waiting call ask.
    pub(super) fn lose(&mut self, id: TicketId, now: Instant) {
        if let Some(key) = self.end_lease(id, now) {
            self.vacate(id, &key, false, now);
        }
    }

    /// Ends the lease as lost and notifies the holder, but lets no other call request the
    /// lock yet. Returns the key; none if the ticket has no lease.
    pub(super) fn end_lease(&mut self, id: TicketId, now: Instant) -> Option<FullKey> {
        let ticket = self.tickets.get_mut(id)?;
        let lease = ticket.lease_mut()?;
        let (reason, fence) = (lease.loss(now), lease.fence());
        let held_for = lease.held_for(now);
        let (key, label) = (ticket.acquire().key.clone(), ticket.acquire().label);
        let lost = key.clone();
        label.lost();
        reporter::log(move || {
            tracing::warn!(
                code = codes::LEASE_LOST,
                lock.template = label.template(),
                key = ?lost.name(),
                fence = fence.map(Fence::get),
                ?held_for,
                reason,
                "lease lost"
            );
        });
        ticket.lose();
        self.signal(Signal::Lost(id));
        Some(key)
    }

    /// Records that the ticket `id` no longer holds `key`, and lets the next call ask. If
    /// `makes_way`, the next call first waits while the key is left free for other clients.
    pub(super) fn vacate(&mut self, id: TicketId, key: &FullKey, makes_way: bool, now: Instant) {
        let queue = self.queues.get_mut(key);
        if let Some(queue) = queue.filter(|queue| queue.is_held_by(id)) {
            queue.vacated(makes_way, now, |pause| self.jitter.around(pause));
        }
        self.advance(key, now);
    }
}
