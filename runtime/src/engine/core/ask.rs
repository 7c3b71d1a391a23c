//! Asking the store for a lock: selects the call of this process that asks, and the time.

use super::Core;
use super::requests::Flight;
use super::ticket::TicketId;
use crate::base::clock::Instant;
use crate::base::full_key::FullKey;
use crate::base::seeded::seeded;
use crate::store::{Op, Take, TakeKind};

/// Maximum number of calls that request shares of one lock at the same time.
const MOST_SHARES_AT_ONCE: usize = 64;

impl Core {
    /// Lets the head of the queue ask the store, if it may ask now. If the head requests a share,
    /// the calls directly behind it that request shares ask, too. Sets the head's timer and returns
    /// the head. If the queue is empty, removes it instead.
    pub(super) fn advance(&mut self, key: &FullKey, now: Instant) -> Option<TicketId> {
        let queue = self.queues.get(key)?;
        if queue.is_empty() {
            let has_place = queue.has_place();
            self.queues.remove(key);
            if has_place {
                self.leave_store_queue(key);
            }
            return None;
        }
        let head = queue.next_to_ask()?;
        if queue.may_ask(now) {
            self.ask_from_head(key, head, now);
        }
        self.arm(head);
        Some(head)
    }

    /// Lets the head ask, unless too many requests are under way: another request would only wait
    /// behind them.
    fn ask_from_head(&mut self, key: &FullKey, head: TicketId, now: Instant) {
        if self.requests.are_too_many() {
            return self.queues.hold_back(key);
        }
        let Some(ticket) = self.tickets.get(head) else {
            return;
        };
        if ticket.acquire().share.is_some() {
            for id in self.sharers_at_head(key) {
                self.ask(id, now);
            }
        } else if ticket.is_queued() {
            self.ask(head, now);
        }
    }

    /// Lets the heads of held-back queues ask, in the order in which they were held back, until too
    /// many requests are under way.
    pub(super) fn resume(&mut self, now: Instant) {
        while !self.requests.are_too_many() {
            let Some(key) = self.queues.next_held_back() else {
                return;
            };
            self.advance(&key, now);
        }
    }

    /// Returns the calls at the front of the queue that request shares, up to the first call for
    /// the exclusive lock. Leaves out the calls that have already asked.
    fn sharers_at_head(&self, key: &FullKey) -> Vec<TicketId> {
        let Some(queue) = self.queues.get(key) else {
            return Vec::new();
        };
        let share = |id| {
            let ticket = self.tickets.get(id)?;
            ticket.acquire().share.is_some().then_some((id, ticket))
        };
        let first = queue.waiting().take(MOST_SHARES_AT_ONCE);
        let sharers = first.map_while(share);
        let queued = sharers.filter(|(_, ticket)| ticket.is_queued());
        queued.map(|(id, _)| id).collect()
    }

    /// Ends the pause before the next try for `key`. The first waiting call of this process then
    /// requests the key now, or when the key is no longer left free for other clients.
    pub(super) fn hurry(&mut self, key: &FullKey, now: Instant) {
        if let Some(queue) = self.queues.get_mut(key) {
            queue.freed(now);
        }
        self.advance(key, now);
    }

    /// Handles the store's message that it has reserved the key for this process.
    pub(crate) fn called(&mut self, key: &FullKey, now: Instant) {
        match self.queues.get_mut(key) {
            // No call of this process still waits for the key.
            None => self.leave_store_queue(key),
            // The message is outdated: this process already has the key.
            Some(queue) if queue.holder().is_some() => {}
            Some(queue) => {
                queue.called();
                self.hurry(key, now);
            }
        }
    }

    /// Handles a message of the store: another process waits for a key that this process holds or
    /// held.
    pub(crate) fn key_wanted(&mut self, key: &FullKey, now: Instant) {
        if let Some(queue) = self.queues.get_mut(key) {
            queue.wanted(now);
        }
    }

    /// Sends a request that gives up this process's place in the store's queue. If the request is
    /// lost, the store may later reserve the key for this process. The processes behind this
    /// process then wait until its turn is over.
    fn leave_store_queue(&mut self, key: &FullKey) {
        if seeded!(DroppedCallKeepsItsPlace) {
            return;
        }
        let key = key.clone();
        let patience = self.limits.io_timeout;
        self.requests
            .send(Op::Leave { key }, patience, Flight::Leave);
    }

    fn ask(&mut self, id: TicketId, now: Instant) {
        let Some(ticket) = self.tickets.get_mut(id) else {
            return;
        };
        // The store's client replaces a connection on which no answer comes in this time. Most of
        // the `io_timeout` is then left to ask again on the new connection.
        let patience = self.limits.io_timeout / 4;
        let acquire = ticket.acquire();
        let queue = acquire.waits();
        let local = self.queues.get_mut(&acquire.key);
        let reserved_fences = local.map_or(0, |local| local.asked(queue));
        let kind = match acquire.share {
            Some(share) => TakeKind::Share {
                limit: share.limit(),
            },
            None if acquire.replay.is_some() => TakeKind::Recall,
            None => TakeKind::Lock { reserved_fences },
        };
        let op = Op::Take(Take {
            key: acquire.key.clone(),
            token: acquire.token,
            ttl: acquire.terms.ttl(),
            function: acquire.function,
            queue,
            kind,
        });
        let flight = Flight::Acquire {
            ticket: id,
            sent: now,
        };
        let op = self.requests.send(op, patience, flight);
        ticket.ask(op, now + self.limits.io_timeout);
    }
}
