//! Locks in this process: `memory://`.
//!
//! A [`space`] has the locks that the pools of one name share. [`entries`] holds a space's keys and
//! queues, and [`entry`] is one key. `shares` handles keys that several calls hold. `results` holds
//! the results kept beside keys. `recall` answers with kept results, and adopts locks. `look` shows
//! locks to people. [`MemoryStore`] is one pool's access to a space.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll};

use self::entries::Entries;
use self::entry::{Limit, Params, PoolId};
use self::space::Space;
use super::{LockStore, Op, Renewal, Reply, Request, StoreEvent};
use crate::base::clock::{Clock, Instant};

pub(crate) mod backend;
mod entries;
mod entry;
mod fences;
mod look;
mod recall;
mod results;
mod shares;
pub(crate) mod space;

/// One pool's access to a [`Space`].
#[derive(Debug)]
pub(crate) struct MemoryStore {
    space: Arc<Space>,
    /// Name by which pools share the space; none if the space is private.
    name: Option<String>,
    pool: PoolId,
    events: VecDeque<StoreEvent>,
}

impl MemoryStore {
    /// Returns locks that no other pool shares.
    pub(crate) fn private(clock: Clock) -> Self {
        Self::inside(Space::new(clock))
    }

    /// Returns the locks that all pools of this name share in this process.
    pub(crate) fn named(name: String) -> Self {
        let (space, pool) = Space::enter_named(&name);
        Self {
            space,
            name: Some(name),
            pool,
            events: VecDeque::new(),
        }
    }

    /// Returns another pool on the same locks, for the pools of a test kit.
    #[cfg(feature = "testing")]
    pub(crate) fn beside(&self) -> Self {
        Self::inside(Arc::clone(&self.space))
    }

    fn inside(space: Arc<Space>) -> Self {
        let pool = space.enter();
        Self {
            space,
            name: None,
            pool,
            events: VecDeque::new(),
        }
    }

    fn serve(pool: PoolId, entries: &mut Entries, op: Op, now: Instant) -> Reply {
        match op {
            Op::Acquire {
                key,
                token,
                ttl,
                function,
                queue,
                reserved_fences,
            } => {
                let params = Params {
                    queue,
                    reserved_fences,
                    ..Params::of(&key, token, ttl, function)
                };
                entries.acquire(pool, &params, now)
            }
            Op::AcquireAll {
                keys,
                ttl,
                function,
            } => {
                let all = keys
                    .iter()
                    .map(|(key, token)| Params::of(key, *token, ttl, function));
                let all: Vec<_> = all.collect();
                entries.acquire_all(pool, &all, now)
            }
            Op::Renew(renewals) => renewed(&renewals, |renewal| entries.renew(renewal, now)),
            Op::Release {
                key, token, keep, ..
            } => released(entries.release(&key, token, keep, now)),
            Op::Join {
                key,
                token,
                ttl,
                function,
                limit,
                queue,
            } => {
                let params = Params::of(&key, token, ttl, function).queueing(queue);
                entries.join(pool, &params, Limit(limit), now)
            }
            Op::Stay(renewals) => renewed(&renewals, |renewal| entries.stay(renewal, now)),
            Op::Part {
                key, token, keep, ..
            } => released(entries.part(&key, token, keep, now)),
            Op::Leave { key } => {
                entries.leave(pool, &key, now);
                Reply::Left
            }
            Op::Recall { .. } | Op::Record { .. } | Op::Forget { .. } | Op::Adopt { .. } => {
                serve_kept(pool, entries, op, now)
            }
        }
    }
}

/// Serves requests about results and adoptions.
fn serve_kept(pool: PoolId, entries: &mut Entries, op: Op, now: Instant) -> Reply {
    match op {
        Op::Recall {
            key,
            token,
            ttl,
            function,
            queue,
        } => {
            let params = Params::of(&key, token, ttl, function).queueing(queue);
            entries.recall(pool, &params, now)
        }
        Op::Record {
            key,
            token,
            keep,
            record,
            ..
        } => released(entries.record(&key, token, keep, &record, now)),
        Op::Forget { key } => Reply::Forgotten(entries.forget_result(&key, now)),
        Op::Adopt {
            key,
            from,
            token,
            ttl,
            function,
        } => {
            let params = Params::of(&key, token, ttl, function);
            entries.adopt(pool, &params, from, now)
        }
        // `serve` passes only the requests above to this function.
        _ => Reply::Gone,
    }
}

/// Answers a renewal, with true for each lease that goes on.
fn renewed(renewals: &[Renewal], renew: impl FnMut(&Renewal) -> bool) -> Reply {
    Reply::Renewed(renewals.iter().map(renew).collect())
}

/// Answers a release. It is `ordered`, because requests are carried out in their order.
fn released(found: bool) -> Reply {
    Reply::Released {
        found,
        ordered: true,
    }
}

impl LockStore for MemoryStore {
    fn submit(&mut self, batch: &mut Vec<Request>) {
        let mut entries = self.space.entries();
        let now = self.space.clock.now();
        for request in batch.drain(..) {
            let reply = Self::serve(self.pool, &mut entries, request.op, now);
            let event = StoreEvent::Reply(request.id, Ok(reply));
            self.events.push_back(event);
        }
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<StoreEvent> {
        if let Some(event) = self.events.pop_front() {
            return Poll::Ready(event);
        }
        let mut entries = self.space.entries();
        let Some(mailbox) = entries.pools.get_mut(&self.pool) else {
            return Poll::Pending;
        };
        if let Some(event) = mailbox.events.pop_front() {
            return Poll::Ready(event);
        }
        match &mut mailbox.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            None => mailbox.waker = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    fn local(&self) -> Option<Arc<Space>> {
        Some(Arc::clone(&self.space))
    }
}

impl Drop for MemoryStore {
    fn drop(&mut self) {
        self.space.leave(self.pool);
        if let Some(name) = &self.name {
            space::forget_unused(name);
        }
    }
}

#[cfg(test)]
#[path = "memory_tests.rs"]
mod tests;
