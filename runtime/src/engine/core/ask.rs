//! Asking the store for a lock: which call of this process asks, and when.

use super::Core;
use super::queue::{MOST_RESERVED_FENCES, Place};
use super::signal::Flight;
use super::ticket::{Stage, TicketId};
use crate::base::clock::Instant;
use crate::base::full_key::FullKey;
use crate::store::Op;

/// How many calls that share a lock ask for it at once.
const MOST_SHARES_AT_ONCE: usize = 64;

impl Core {
    /// Lets the head of the queue ask if it may, together with the calls that would share the lock
    /// with it. Returns the head, after setting its timer. Removes the queue if it is empty.
    pub(super) fn advance(&mut self, key: &FullKey, now: Instant) -> Option<TicketId> {
        let queue = self.queues.get(key)?;
        if queue.is_empty() {
            let place = queue.place;
            self.queues.remove(key);
            if place != Place::None {
                self.leave_store_queue(key);
            }
            return None;
        }
        let (None, Some(&head)) = (queue.holder, queue.waiting.front()) else {
            return None;
        };
        if queue.ask_at <= now && !queue.held_back {
            self.ask_from_head(key, now);
        }
        self.arm(head);
        Some(head)
    }

    /// Asks, unless too many requests are under way: a further one would only wait behind them.
    fn ask_from_head(&mut self, key: &FullKey, now: Instant) {
        let Some(queue) = self.queues.get_mut(key) else {
            return;
        };
        if self.limits.in_flight <= self.flights.len() {
            queue.held_back = true;
            self.held_back.push_back(key.clone());
            return;
        }
        let Some(&head) = queue.waiting.front() else {
            return;
        };
        if self.tickets[&head].acquire.share.is_some() {
            for id in self.sharers_at_head(key) {
                self.ask(id, now);
            }
        } else if self.is_queued(head) {
            self.ask(head, now);
        }
    }

    /// Lets the keys that were held back ask, in their order, while few enough requests are under
    /// way.
    pub(super) fn resume(&mut self, now: Instant) {
        while self.flights.len() < self.limits.in_flight {
            let Some(key) = self.held_back.pop_front() else {
                return;
            };
            if let Some(queue) = self.queues.get_mut(&key) {
                queue.held_back = false;
                self.advance(&key, now);
            }
        }
    }

    /// The calls at the head of the queue that would share the lock and have not asked.
    fn sharers_at_head(&self, key: &FullKey) -> Vec<TicketId> {
        let queue = self.queues.get(key).map(|queue| queue.waiting.iter());
        let first = queue.into_iter().flatten().take(MOST_SHARES_AT_ONCE);
        let first = first.copied();
        let share = first.take_while(|id| self.tickets[id].acquire.share.is_some());
        share.filter(|id| self.is_queued(*id)).collect()
    }

    fn is_queued(&self, id: TicketId) -> bool {
        matches!(self.tickets[&id].stage, Stage::Queued)
    }

    /// The key is likely free: the head asks at once.
    pub(super) fn hurry(&mut self, key: &FullKey, now: Instant) {
        if let Some(queue) = self.queues.get_mut(key) {
            queue.freed(now);
        }
        self.advance(key, now);
    }

    /// The store says that it handed the key over to this process.
    pub(super) fn handed_over_by_store(&mut self, key: &FullKey, now: Instant) {
        match self.queues.get_mut(key) {
            // No call waits any more.
            None => self.leave_store_queue(key),
            // An older message: this process has the key.
            Some(queue) if queue.holder.is_some() => {}
            Some(queue) => {
                queue.place = Place::Called;
                self.hurry(key, now);
            }
        }
    }

    /// The store says that another process queues for a key that this process has, or had.
    pub(super) fn wanted(&mut self, key: &FullKey, now: Instant) {
        if let Some(queue) = self.queues.get_mut(key) {
            queue.tenure.wanted(now);
        }
    }

    /// Gives up the place in the store's queue. If that fails, the processes behind wait for at
    /// most one claim.
    fn leave_store_queue(&mut self, key: &FullKey) {
        let key = key.clone();
        let patience = self.limits.io_timeout;
        self.send(Op::Leave { key }, patience, Flight::Leave);
    }

    fn ask(&mut self, id: TicketId, now: Instant) {
        // A silent connection is replaced early, so that there is time to ask on the new one.
        let patience = self.limits.io_timeout / 4;
        let acquire = &self.tickets[&id].acquire;
        let queue = acquire.waits();
        let mut reserved_fences = 0;
        if let Some(local) = self.queues.get_mut(&acquire.key) {
            // From here on the store may have a place for this process, until it says otherwise.
            local.place = if queue || local.place != Place::None {
                Place::Queued
            } else {
                Place::None
            };
            reserved_fences = u32::try_from(local.waiting.len() - 1)
                .map_or(MOST_RESERVED_FENCES, |n| n.min(MOST_RESERVED_FENCES));
        }
        let (key, token, ttl) = (acquire.key.clone(), acquire.token, acquire.terms.ttl());
        let op = match acquire.share {
            Some(kind) => Op::Join {
                key,
                token,
                ttl,
                limit: kind.limit(),
                queue,
            },
            None => Op::Acquire {
                key,
                token,
                ttl,
                function: acquire.function,
                queue,
                reserved_fences,
            },
        };
        let flight = Flight::Acquire {
            ticket: id,
            sent: now,
        };
        let op = self.send(op, patience, flight);
        if let Some(ticket) = self.tickets.get_mut(&id) {
            ticket.open.push(op);
            let until = now + self.limits.io_timeout;
            ticket.stage = Stage::Asking { op, until };
        }
    }
}
