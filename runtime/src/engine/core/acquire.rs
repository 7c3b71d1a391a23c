//! Waiting for a lock and asking for it.

use std::time::Duration;

use super::Core;
use super::queue::{KeyQueue, Place, Tenure};
use super::signal::Signal;
use super::ticket::{Acquire, Lease, Share, Stage, Ticket, TicketId};
use crate::base::clock::Instant;
use crate::base::full_key::FullKey;
use crate::base::seeded::seeded;
use crate::error::{LockError, StoreError};
use crate::fence::Fence;
use crate::store::{Failure, OpId, Reply, Retry};

impl Core {
    pub(super) fn enter(&mut self, id: TicketId, acquire: Acquire, now: Instant) {
        if self.drain.is_some() {
            self.signal(Signal::Failed(id, LockError::ShuttingDown));
            return;
        }
        if let Some(error) = self.refusal(&acquire, now) {
            self.signal(Signal::Failed(id, error));
            return;
        }
        let key = acquire.key.clone();
        // A single try must still be able to cross the network.
        let budget = if acquire.waits() {
            acquire.wait
        } else {
            self.limits.io_timeout
        };
        let budget = if seeded!(self, BudgetIgnored) {
            budget * 10
        } else {
            budget
        };
        let queue = self.queues.entry(key.clone()).or_insert_with(KeyQueue::new);
        queue.push(id, &acquire);
        self.tickets
            .insert(id, Ticket::new(acquire, now, now + budget));
        if self.pump(&key, now) != Some(id) {
            self.arm(id);
        }
    }

    /// What can be answered without asking the store.
    fn refusal(&self, acquire: &Acquire, now: Instant) -> Option<LockError> {
        let queue = self.queues.get(&acquire.key)?;
        if acquire.waits() {
            let limit = self.limits.max_waiters;
            let full = queue.waiting.len() >= limit;
            return full.then(|| LockError::QueueFull {
                key: acquire.key.name().to_owned(),
                limit,
            });
        }
        if queue.holder.is_some() {
            return Some(acquire.contended(self.holder_left(queue, now)));
        }
        if acquire.share.is_some() {
            // What kept another out need not keep this one out; one that waits to be alone does.
            let alone = |id: &TicketId| {
                let ticket = self.tickets.get(id);
                ticket
                    .is_some_and(|ticket| ticket.acquire.waits() && ticket.acquire.share.is_none())
            };
            let behind = queue.waiting.iter().any(alone);
            return behind.then(|| acquire.contended(queue.held_for(now)));
        }
        // While the head asks, its answer will serve this call as well.
        let head = queue
            .waiting
            .front()
            .and_then(|head| self.tickets.get(head));
        let asking = head.is_some_and(|head| matches!(head.stage, Stage::Asking { .. }));
        let left = queue.held_for(now).filter(|_| !asking)?;
        Some(acquire.contended(Some(left)))
    }

    /// How long the lease of this process's holder still runs.
    fn holder_left(&self, queue: &KeyQueue, now: Instant) -> Option<Duration> {
        let holder = self.tickets.get(&queue.holder?)?;
        match &holder.stage {
            Stage::Held(lease) => Some(holder.deadline(lease).since(now)),
            _ => None,
        }
    }

    pub(super) fn acquire_replied(
        &mut self,
        op: OpId,
        id: TicketId,
        sent: Instant,
        result: Result<Reply, Failure>,
        now: Instant,
    ) {
        let Some(ticket) = self.tickets.get_mut(&id) else {
            return;
        };
        let settled = !result.as_ref().is_err_and(|failure| failure.executed);
        if settled {
            ticket.open.retain(|open| *open != op);
        }
        ticket.taken |= matches!(result, Ok(Reply::Acquired { .. }));
        let current = match ticket.stage {
            Stage::Queued => false,
            Stage::Asking { op: asked, .. } => asked == op,
            Stage::Held(_) | Stage::Lost | Stage::Releasing(_) => return,
        };
        let in_time = now < ticket.budget;
        match result {
            Ok(Reply::Acquired {
                fence,
                reserved_fences,
                wanted,
            }) if in_time && now < ticket.acquire.terms.soft(sent) => {
                let acquire = &ticket.acquire;
                if let Some(queue) = self.queues.get_mut(&acquire.key) {
                    queue.tenure = Tenure::begin(fence, reserved_fences, wanted, now);
                    queue.granted(id, acquire.share.is_some(), now);
                }
                self.grant(id, sent, fence, now);
            }
            // The answer took so long that hardly anything is left; asked again, the store gives the full ttl.
            Ok(Reply::Acquired { .. }) if current && in_time => self.ask_again(id, now),
            Ok(Reply::Limited(limit)) if current => {
                let error = ticket.acquire.limited(limit);
                self.fail(id, error, now);
            }
            Ok(Reply::Held { left, queued }) if current => self.contended(id, left, queued, now),
            Err(failure) if current => self.ask_failed(id, failure, now),
            _ => {}
        }
    }

    /// `ticket` holds the key, by a request that was sent at `sent`.
    pub(super) fn grant(
        &mut self,
        id: TicketId,
        sent: Instant,
        fence: Option<Fence>,
        now: Instant,
    ) {
        let Some(ticket) = self.tickets.get_mut(&id) else {
            return;
        };
        let watchdog = ticket.acquire.watchdog;
        let sent = if seeded!(self, CountedFromReply) {
            now
        } else {
            sent
        };
        let fence = fence.filter(|_| !seeded!(self, FenceUntold));
        let lease = Lease {
            sent,
            since: now,
            // From the grant: a lease that was passed on began before this call had it.
            ceiling: watchdog
                .and_then(|dog| dog.max_hold)
                .map(|limit| now + limit),
            renew_at: watchdog.map(|dog| dog.due(sent, self.phase)),
            fence,
            hurried: false,
            renewing: false,
            leaving: false,
        };
        let deadline = if seeded!(self, NoMargin) {
            sent + ticket.acquire.terms.ttl()
        } else {
            ticket.deadline(&lease)
        };
        ticket.stage = Stage::Held(lease);
        self.signals.push(Signal::Granted {
            ticket: id,
            deadline,
            fence,
        });
        let (key, share) = (&ticket.acquire.key, ticket.acquire.share);
        let queue = self.queues.get(key);
        // Mostly nobody else wants it.
        if share.is_some() || queue.is_some_and(|queue| !queue.waiting.is_empty()) {
            let key = key.clone();
            let answer = Answer {
                share,
                granted: true,
            };
            self.refuse_single_tries(&key, answer, Some(deadline.since(now)), now);
            if share.is_some() {
                self.pump(&key, now);
            }
        }
        self.arm(id);
    }

    pub(super) fn ask_again(&mut self, id: TicketId, now: Instant) {
        if let Some(ticket) = self.tickets.get_mut(&id) {
            ticket.stage = Stage::Queued;
            let key = ticket.acquire.key.clone();
            self.hurry(&key, now);
        }
    }

    /// Another holds the key: those that try once are told, the others look again later.
    fn contended(&mut self, id: TicketId, left: Option<Duration>, queued: bool, now: Instant) {
        let Some(ticket) = self.tickets.get_mut(&id) else {
            return;
        };
        ticket.stage = Stage::Queued;
        let (key, share) = (ticket.acquire.key.clone(), ticket.acquire.share);
        if let Some(queue) = self.queues.get_mut(&key) {
            queue.held(left, queued, now, |pause| self.jitter.around(pause));
            if queued && seeded!(self, MessageBelieved) {
                queue.ask_at = now + left.unwrap_or_default();
            }
            if queue.place == Place::Called {
                queue.ask_at = now;
            }
        }
        let answer = Answer {
            share,
            granted: false,
        };
        self.refuse_single_tries(&key, answer, left, now);
        self.pump(&key, now);
    }

    /// One answer serves all calls of this process that asked for the same key and do not queue.
    fn refuse_single_tries(
        &mut self,
        key: &FullKey,
        answer: Answer,
        left: Option<Duration>,
        now: Instant,
    ) {
        let queue = self.queues.get_mut(key);
        let Some(queue) = queue.filter(|queue| queue.single_tries > 0) else {
            return;
        };
        let (tickets, mut refused) = (&self.tickets, Vec::new());
        let mut single_tries = 0;
        queue.waiting.retain(|id| {
            let Some(ticket) = tickets.get(id) else {
                return false;
            };
            let waits = ticket.acquire.waits();
            let stays = waits || !answer.refuses(&ticket.acquire);
            single_tries += usize::from(stays && !waits);
            if !stays {
                refused.push(*id);
            }
            stays
        });
        queue.single_tries = single_tries;
        for id in refused {
            let error = self.tickets[&id].acquire.contended(left);
            self.fail(id, error, now);
        }
    }

    fn ask_failed(&mut self, id: TicketId, failure: Failure, now: Instant) {
        let Some(ticket) = self.tickets.get_mut(&id) else {
            return;
        };
        ticket.stage = Stage::Queued;
        let key = ticket.acquire.key.clone();
        match failure.retry {
            Retry::Never => self.fail(id, failure.error, now),
            // Once: what comes back at once would come back at the speed of the network.
            Retry::Now if self.may_hurry(&key) => self.hurry(&key, now),
            Retry::Now | Retry::Later => {
                if let Some(queue) = self.queues.get_mut(&key) {
                    queue.troubled(failure.error, now, |pause| self.jitter.around(pause));
                }
                self.pump(&key, now);
            }
        }
    }

    fn may_hurry(&mut self, key: &FullKey) -> bool {
        let queue = self.queues.get_mut(key);
        queue.is_some_and(|queue| !std::mem::replace(&mut queue.hurried, true))
    }

    pub(super) fn queued_due(&self, id: TicketId, ticket: &Ticket) -> Instant {
        let Some(queue) = self.queues.get(&ticket.acquire.key) else {
            return ticket.budget;
        };
        let may_ask = queue.holder.is_none() && !queue.held_back;
        if may_ask && queue.waiting.front() == Some(&id) {
            ticket.budget.min(queue.ask_at)
        } else {
            ticket.budget
        }
    }

    pub(super) fn acquire_due(&mut self, id: TicketId, now: Instant) {
        let ticket = &self.tickets[&id];
        if ticket.budget <= now {
            let error = self.out_of_time(ticket, now);
            self.fail(id, error, now);
            return;
        }
        let key = ticket.acquire.key.clone();
        if let Stage::Asking { until, .. } = ticket.stage
            && until <= now
        {
            let failure = Failure {
                error: unanswered(self.limits.io_timeout),
                retry: Retry::Later,
                executed: true,
            };
            self.ask_failed(id, failure, now);
            return;
        }
        self.pump(&key, now);
    }

    /// Whether the time went by in the queue or because the store did not answer.
    fn out_of_time(&self, ticket: &Ticket, now: Instant) -> LockError {
        let waited = now.since(ticket.since);
        let queue = self.queues.get(&ticket.acquire.key);
        if let Some(trouble) = queue.and_then(|queue| queue.trouble.clone()) {
            return trouble;
        }
        let alone = matches!(ticket.stage, Stage::Asking { .. })
            && queue.is_some_and(|queue| !queue.answered);
        if alone || !ticket.acquire.waits() {
            return unanswered(waited);
        }
        LockError::TimedOut {
            key: ticket.acquire.key.name().to_owned(),
            waited,
        }
    }

    /// Ends a ticket that is still acquiring; what it may have left on the server is removed.
    pub(super) fn fail(&mut self, id: TicketId, error: LockError, now: Instant) {
        self.signal(Signal::Failed(id, error));
        self.leave(id, false, now);
    }
}

/// What the store said to one call, which tells others something as well.
#[derive(Clone, Copy)]
struct Answer {
    /// What was asked for.
    share: Option<Share>,
    granted: bool,
}

impl Answer {
    /// Whether a call that tries once would be refused, too.
    fn refuses(self, acquire: &Acquire) -> bool {
        match acquire.share {
            None => true,
            share if self.granted => self.share.is_none() && share.is_some(),
            share => self.share == share,
        }
    }
}

fn unanswered(after: Duration) -> LockError {
    LockError::Unavailable {
        source: StoreError::new(
            "timeout",
            format!(
                "no answer within {}; check that the server is up and reachable, and give slow networks a \
                 longer `wait` or `io_timeout`",
                crate::error::millis(after)
            ),
        ),
    }
}
