//! Acquiring a lock: the wait for it, and the store's answers.

use std::sync::Arc;
use std::time::Duration;

use super::Core;
use super::lease::Lease;
use super::queue::{KeyQueue, Verdict};
use super::signal::Signal;
use super::tenure::Tenure;
use super::ticket::{Acquire, Share, Stage, Ticket, TicketId};
use crate::base::clock::Instant;
use crate::base::full_key::FullKey;
use crate::base::seeded::seeded;
use crate::error::{LockError, StoreError};
use crate::fence::Fence;
use crate::owner::Owner;
use crate::store::{Failure, OpId, Reply, Retry};

impl Core {
    /// Begins an acquire. The answer is `Granted` or `Failed`, or `Recalled` for a call with
    /// `replay`.
    pub(crate) fn acquire(&mut self, id: TicketId, acquire: Acquire, now: Instant) {
        if self.drain.is_some() {
            self.signal(Signal::Failed(id, LockError::ShuttingDown));
            return;
        }
        if let Some(error) = self.refusal(&acquire, now) {
            self.signal(Signal::Failed(id, error));
            return;
        }
        let key = acquire.key.clone();
        // Time limit of the acquire. A call that tries once also needs time, for the answer to its
        // one request.
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
        self.queues.join(id, &acquire);
        self.tickets
            .insert(id, Ticket::new(acquire, now, now + budget));
        if self.advance(&key, now) != Some(id) {
            self.arm(id);
        }
    }

    /// Returns the error of a call, if the call can be refused without a request to the store.
    pub(super) fn refusal(&self, acquire: &Acquire, now: Instant) -> Option<LockError> {
        let queue = self.queues.get(&acquire.key)?;
        if acquire.waits() {
            let limit = self.limits.max_waiters;
            let full = queue.len() >= limit;
            return full.then(|| LockError::QueueFull {
                key: acquire.key.name().to_owned(),
                limit,
                retry_after: self.retry_by_queue(queue, acquire, now),
            });
        }
        let contended = || {
            let retry_after = self.retry_by_queue(queue, acquire, now);
            acquire.contended(retry_after, self.owner_of(queue))
        };
        if queue.holder().is_some() {
            return Some(contended());
        }
        if acquire.share.is_some() {
            // Another process may hold only a share, and this call can then get a share, too. So
            // this call is refused only if a call of this process waits for the exclusive lock.
            let exclusive = |id| {
                let acquire = self.tickets.get(id).map(Ticket::acquire);
                acquire.is_some_and(|acquire| acquire.waits() && acquire.share.is_none())
            };
            return queue.waiting().any(exclusive).then(contended);
        }
        // While the request of the queue's head has no answer, this call is not refused, but waits
        // for the same answer.
        let head = queue.head().and_then(|head| self.tickets.get(head));
        let asking = head.is_some_and(Ticket::is_asking);
        (queue.held_for(now).is_some() && !asking).then(contended)
    }

    /// Returns the owner of the lock in this or another process, if known.
    fn owner_of(&self, queue: &KeyQueue) -> Option<Arc<Owner>> {
        match queue.holder().and_then(|id| self.tickets.get(id)) {
            Some(holder) => Some(Arc::new(Owner::here(holder.acquire().function))),
            None => queue.owner().cloned(),
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
        let Some(ticket) = self.tickets.get_mut(id) else {
            return;
        };
        ticket.answered(op, &result);
        let current = match ticket.stage() {
            Stage::Queued => false,
            Stage::Asking { op: asked, .. } => *asked == op,
            Stage::Held(_) | Stage::Lost | Stage::Releasing(_) => return self.settled(id),
        };
        let in_time = ticket.is_in_time(now);
        match result {
            Ok(Reply::Acquired {
                fence,
                reserved_fences,
                wanted,
            }) if in_time && now < ticket.acquire().terms.soft(sent) => {
                let acquire = ticket.acquire();
                if let Some(queue) = self.queues.get_mut(&acquire.key) {
                    let tenure = Tenure::begin(fence, reserved_fences, wanted, now);
                    queue.granted(id, acquire.share.is_some(), tenure, now);
                }
                self.grant(id, sent, fence, now);
            }
            // The answer is so late that the lease is nearly over. The call has time left
            // (`in_time`) for a new request, which gets the full ttl.
            Ok(Reply::Acquired { .. }) if current && in_time => self.ask_again(id, now),
            Ok(Reply::Held {
                left,
                queued,
                owner,
            }) if current => self.contended(id, left, queued, owner, now),
            Ok(Reply::Recalled(kept)) => self.recalled(id, &kept, now),
            Err(failure) if current => self.ask_failed(id, failure, now),
            _ => {}
        }
    }

    /// Notifies the caller if the ticket `id` holds its lock and all its acquires have answers.
    pub(super) fn settled(&mut self, id: TicketId) {
        let ticket = self.tickets.get(id);
        if ticket.is_some_and(|ticket| ticket.lease().is_some() && ticket.is_settled()) {
            self.signal(Signal::Settled(id, true));
        }
    }

    /// Grants the key to the ticket `id`. The lease is counted from `sent`.
    pub(super) fn grant(
        &mut self,
        id: TicketId,
        sent: Instant,
        fence: Option<Fence>,
        now: Instant,
    ) {
        let Some(ticket) = self.tickets.get_mut(id) else {
            return;
        };
        let sent = if seeded!(self, CountedFromReply) {
            now
        } else {
            sent
        };
        let fence = fence.filter(|_| !seeded!(self, FenceUnreported));
        let acquire = ticket.acquire();
        let mut lease = Lease::new(acquire.terms, sent, fence, now);
        if let Some(watchdog) = acquire.watchdog {
            // `max_hold` counts from the grant, because a handed-over lease began before this call
            // had the lock.
            lease.set_ceiling(watchdog.max_hold.map(|limit| now + limit));
            lease.plan_renewal(Some(self.renewals.time(watchdog, sent)));
        }
        let deadline = if seeded!(self, NoMargin) {
            sent + acquire.terms.ttl()
        } else {
            lease.deadline()
        };
        ticket.grant(lease);
        if !ticket.is_settled() {
            self.signals.push(Signal::Settled(id, false));
        }
        self.signals.push(Signal::Granted {
            ticket: id,
            deadline,
            fence,
        });
        let (key, share) = (&ticket.acquire().key, ticket.acquire().share);
        let queue = self.queues.get(key);
        // Refuses the queued calls that try once. Usually no call is queued, so most grants skip
        // this.
        if share.is_some() || queue.is_some_and(|queue| queue.head().is_some()) {
            let key = key.clone();
            let answer = Answer {
                share,
                granted: Some(id),
                left: Some(deadline.since(now)),
                owner: None,
            };
            self.refuse_single_tries(&key, &answer, now);
            if share.is_some() {
                self.advance(&key, now);
            }
        }
        if self
            .tickets
            .get(id)
            .is_some_and(|ticket| ticket.revoked.is_some())
        {
            return self.taken_away(id, now);
        }
        self.arm(id);
    }

    pub(super) fn ask_again(&mut self, id: TicketId, now: Instant) {
        if let Some(ticket) = self.tickets.get_mut(id) {
            ticket.requeue();
            let key = ticket.acquire().key.clone();
            self.hurry(&key, now);
        }
    }

    /// Handles the answer that another process holds the key. Calls that try once are refused. The
    /// others stay in the queue, and its head asks again later.
    fn contended(
        &mut self,
        id: TicketId,
        left: Option<Duration>,
        queued: bool,
        owner: Option<Arc<Owner>>,
        now: Instant,
    ) {
        let Some(ticket) = self.tickets.get_mut(id) else {
            return;
        };
        ticket.requeue();
        let (key, share) = (ticket.acquire().key.clone(), ticket.acquire().share);
        if let Some(queue) = self.queues.get_mut(&key) {
            queue.held(left, queued, owner.clone(), now, |pause| {
                if queued && seeded!(self, MessageBelieved) {
                    Duration::MAX
                } else {
                    self.jitter.around(pause)
                }
            });
        }
        let answer = Answer {
            share,
            granted: None,
            left,
            owner,
        };
        self.refuse_single_tries(&key, &answer, now);
        self.advance(&key, now);
    }

    /// Refuses the queued calls of this process that try once for `key`, if `answer` applies to
    /// them.
    fn refuse_single_tries(&mut self, key: &FullKey, answer: &Answer, now: Instant) {
        let Some(queue) = self.queues.get_mut(key) else {
            return;
        };
        let judge = |id| match self.tickets.get(id).map(Ticket::acquire) {
            Some(acquire) if acquire.waits() => Verdict::Waits,
            Some(acquire) if !answer.refuses(acquire) => Verdict::Tries,
            _ => Verdict::Refused,
        };
        for id in queue.refuse_single_tries(judge) {
            if let Some(refused) = self.tickets.get(id).map(Ticket::acquire) {
                let granted = answer.granted.and_then(|holder| self.tickets.get(holder));
                let owner = match granted {
                    Some(holder) => Some(Arc::new(Owner::here(holder.acquire().function))),
                    None => answer.owner.clone(),
                };
                let holder = granted.map_or(refused, Ticket::acquire);
                let error = refused.contended(self.retry_after(holder, answer.left), owner);
                self.fail(id, error, now);
            }
        }
    }

    fn ask_failed(&mut self, id: TicketId, failure: Failure, now: Instant) {
        let Some(ticket) = self.tickets.get_mut(id) else {
            return;
        };
        ticket.requeue();
        let key = ticket.acquire().key.clone();
        match failure.retry {
            Retry::Never => self.fail(id, failure.error, now),
            // Only the first failure after an answer is retried at once. Otherwise a persistent
            // failure would be repeated without any pause.
            Retry::Now if self.may_hurry(&key) => self.hurry(&key, now),
            Retry::Now | Retry::Later => {
                if let Some(queue) = self.queues.get_mut(&key) {
                    queue.troubled(failure.error, now, |pause| self.jitter.around(pause));
                }
                self.advance(&key, now);
            }
        }
    }

    fn may_hurry(&mut self, key: &FullKey) -> bool {
        let queue = self.queues.get_mut(key);
        queue.is_some_and(KeyQueue::may_hurry)
    }

    pub(super) fn acquire_due(&mut self, id: TicketId, now: Instant) {
        let Some(ticket) = self.tickets.get(id) else {
            return;
        };
        if ticket.adoption().is_some() {
            return self.adopt_due(id, now);
        }
        if !ticket.is_in_time(now) {
            let error = self.out_of_time(ticket, now);
            self.fail(id, error, now);
            return;
        }
        let key = ticket.acquire().key.clone();
        if let Stage::Asking { until, .. } = ticket.stage()
            && *until <= now
        {
            let failure = Failure {
                error: unanswered(self.limits.io_timeout),
                retry: Retry::Later,
                executed: true,
            };
            self.ask_failed(id, failure, now);
            return;
        }
        self.advance(&key, now);
    }

    /// Returns the error of a call that ran out of time, in the queue or because the store did not
    /// answer.
    fn out_of_time(&self, ticket: &Ticket, now: Instant) -> LockError {
        let (acquire, waited) = (ticket.acquire(), ticket.waited(now));
        let queue = self.queues.get(&acquire.key);
        if let Some(trouble) = queue.and_then(KeyQueue::trouble) {
            return trouble.clone();
        }
        let silent = ticket.is_asking() && queue.is_some_and(|queue| !queue.is_answered());
        if silent || !acquire.waits() {
            return unanswered(waited);
        }
        LockError::TimedOut {
            key: acquire.key.name().to_owned(),
            waited,
            retry_after: queue.and_then(|queue| self.retry_by_queue(queue, acquire, now)),
            holder: queue.and_then(|queue| self.owner_of(queue)),
        }
    }

    /// Ends an acquiring ticket with `error`, and removes the key that the ticket may have set on
    /// the server.
    pub(super) fn fail(&mut self, id: TicketId, error: LockError, now: Instant) {
        self.signal(Signal::Failed(id, error));
        self.leave(id, false, now);
    }
}

/// The store's answer to one call. It can also refuse other calls for the same key that try once.
struct Answer {
    /// Kind of share that the call requested; none for an exclusive lock.
    share: Option<Share>,
    /// The call of this process that gets the lock by this answer; none if another process has the
    /// lock.
    granted: Option<TicketId>,
    /// Remaining lease of the holder, if known.
    left: Option<Duration>,
    /// Owner in another process, if known.
    owner: Option<Arc<Owner>>,
}

impl Answer {
    /// True if the answer also refuses `acquire`, a call that tries once.
    fn refuses(&self, acquire: &Acquire) -> bool {
        match acquire.share {
            None => true,
            share if self.granted.is_some() => self.share.is_none() && share.is_some(),
            share => self.share == share,
        }
    }
}

pub(crate) fn unanswered(after: Duration) -> LockError {
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
