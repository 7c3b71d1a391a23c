//! Locks in this process: `memory://`.
//!
//! A [`space`] has the locks that the pools of one name share. [`entries`] holds a space's keys and
//! queues, and [`entry`] is one key. `shares` handles keys that several calls hold. `results` has
//! the kept results. `recall` answers with kept results, and adopts locks. `look` inspects locks,
//! and takes them away. [`MemoryStore`] is one pool's access to a space.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll};

use self::entries::Entries;
use self::entry::{Limit, PoolId};
use self::space::Space;
use super::{Give, GiveKind, LockStore, Op, Reply, Request, StoreEvent, Take, TakeKind};
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
    /// Name by which pools find the space. `None` if the space has no name.
    name: Option<String>,
    pool: PoolId,
    events: VecDeque<StoreEvent>,
}

impl MemoryStore {
    /// Returns a pool's access to locks that no other pool shares.
    pub(crate) fn private(clock: Clock) -> Self {
        Self::inside(Space::new(clock))
    }

    /// Returns a pool's access to the locks that all pools of this name share in this process.
    pub(crate) fn named(name: String) -> Self {
        let (space, pool) = Space::enter_named(&name);
        Self {
            space,
            name: Some(name),
            pool,
            events: VecDeque::new(),
        }
    }

    /// Returns another pool's access to the same locks, for the pools of a test kit.
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
            Op::Take(take) => serve_take(pool, entries, &take, now),
            Op::TakeAll {
                keys,
                ttl,
                function,
            } => {
                let keys = keys.into_iter();
                let all = keys.map(|(key, token)| Take::lock(key, token, ttl, function));
                let all: Vec<_> = all.collect();
                entries.acquire_all(pool, &all, now)
            }
            Op::Keep { renewals, shares } => {
                let renew = |renewal| {
                    if shares {
                        entries.stay(renewal, now)
                    } else {
                        entries.renew(renewal, now)
                    }
                };
                Reply::Renewed(renewals.iter().map(renew).collect())
            }
            Op::Give(give) => released(serve_give(entries, &give, now)),
            Op::Leave { key } => {
                entries.leave(pool, &key, now);
                Reply::Left
            }
            Op::Forget { key } => Reply::Forgotten(entries.forget_result(&key, now)),
            Op::Adopt {
                key,
                from,
                token,
                ttl,
                function,
            } => {
                let take = Take::lock(key, token, ttl, function);
                entries.adopt(pool, &take, from, now)
            }
        }
    }
}

fn serve_take(pool: PoolId, entries: &mut Entries, take: &Take, now: Instant) -> Reply {
    match take.kind {
        TakeKind::Lock { .. } => entries.acquire(pool, take, now),
        TakeKind::Share { limit } => entries.join(pool, take, Limit(limit), now),
        TakeKind::Recall => entries.recall(pool, take, now),
    }
}

/// Returns true if the token had the lock or the share.
fn serve_give(entries: &mut Entries, give: &Give, now: Instant) -> bool {
    let Give {
        key, token, keep, ..
    } = give;
    match &give.kind {
        GiveKind::Lock => entries.release(key, *token, *keep, now),
        GiveKind::Share => entries.part(key, *token, *keep, now),
        GiveKind::Record(record) => entries.record(key, *token, *keep, record, now),
    }
}

/// Returns the answer to a release. `ordered` is always true: this store carries out each request
/// at once, so an earlier acquire cannot take the key after the release.
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
