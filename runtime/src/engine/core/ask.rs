//! Asking the store for a lock: whose turn it is, here and among the processes.

use super::Core;
use super::queue::{MOST_RESERVED_FENCES, Place};
use super::signal::Flight;
use super::ticket::{Stage, TicketId};
use crate::base::clock::Instant;
use crate::base::full_key::FullKey;
use crate::store::Op;

/// So many calls that share a lock ask for it at once.
const MOST_TOGETHER: usize = 64;

impl Core {
    /// Lets the head of the queue ask, if it may, and with it those that would share the lock with it. Whose timer is set for that.
    pub(super) fn pump(&mut self, key: &FullKey, now: Instant) -> Option<TicketId> {
        let queue = self.queues.get(key)?;
        if queue.is_empty() {
            let place = queue.place;
            self.queues.remove(key);
            if place != Place::None {
                self.leave_line(key);
            }
            return None;
        }
        let (None, Some(&head)) = (queue.holder, queue.waiting.front()) else {
            return None;
        };
        if queue.ask_at <= now && !queue.held_back {
            self.ask_together(key, now);
        }
        self.arm(head);
        Some(head)
    }

    /// Asks, unless so much is under way that what is asked now would only grow old behind it.
    fn ask_together(&mut self, key: &FullKey, now: Instant) {
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
            for id in self.asking_together(key) {
                self.ask(id, now);
            }
        } else if self.is_queued(head) {
            self.ask(head, now);
        }
    }

    /// Less is under way: those that were held back ask, in their order.
    pub(super) fn resume(&mut self, now: Instant) {
        while self.flights.len() < self.limits.in_flight {
            let Some(key) = self.held_back.pop_front() else {
                return;
            };
            if let Some(queue) = self.queues.get_mut(&key) {
                queue.held_back = false;
                self.pump(&key, now);
            }
        }
    }

    /// Those at the head of the queue that would share the lock and have not asked.
    fn asking_together(&self, key: &FullKey) -> Vec<TicketId> {
        let queue = self.queues.get(key).map(|queue| queue.waiting.iter());
        let first = queue.into_iter().flatten().copied().take(MOST_TOGETHER);
        let share = first.take_while(|id| self.tickets[id].acquire.share.is_some());
        share.filter(|id| self.is_queued(*id)).collect()
    }

    fn is_queued(&self, id: TicketId) -> bool {
        matches!(self.tickets[&id].stage, Stage::Queued)
    }

    /// The key is likely free: the next in its queue asks at once.
    pub(super) fn hurry(&mut self, key: &FullKey, now: Instant) {
        if let Some(queue) = self.queues.get_mut(key) {
            queue.freed(now);
        }
        self.pump(key, now);
    }

    /// The store says that the key was handed to this process.
    pub(super) fn turn(&mut self, key: &FullKey, now: Instant) {
        match self.queues.get_mut(key) {
            // Nobody wants it any more.
            None => self.leave_line(key),
            // An older message: we have the key.
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

    /// Gives up the place in the store's queue. A failure costs those that follow a claim's time at most.
    fn leave_line(&mut self, key: &FullKey) {
        let key = key.clone();
        let patience = self.limits.io_timeout;
        self.send(Op::Leave { key }, patience, Flight::Leave);
    }

    fn ask(&mut self, id: TicketId, now: Instant) {
        // A silent connection is replaced, and the question asked again on the new one, before the time is up.
        let patience = self.limits.io_timeout / 4;
        let acquire = &self.tickets[&id].acquire;
        let queue = acquire.waits();
        let mut reserved_fences = 0;
        if let Some(local) = self.queues.get_mut(&acquire.key) {
            // From here on the store may have a place for us, until it says otherwise.
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
