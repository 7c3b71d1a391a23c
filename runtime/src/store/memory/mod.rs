//! Locks in this process: `memory://`.
//!
//! [`space`] is what the pools of one URL share. [`entries`] holds its keys and queues, and
//! [`entry`] is one key. [`MemoryStore`] is one pool's access to them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll};

use self::entries::{Entries, Mailbox, PoolId};
use self::entry::{Limit, Params};
use self::space::Space;
use super::{LockStore, Op, Reply, Request, StoreEvent};
use crate::base::clock::Instant;

mod entries;
mod entry;
pub(crate) mod space;

/// One pool's access to a [`Space`].
#[derive(Debug)]
pub(crate) struct MemoryStore {
    space: Arc<Space>,
    pool: PoolId,
    events: VecDeque<StoreEvent>,
}

impl MemoryStore {
    pub(crate) fn new(space: Arc<Space>) -> Self {
        let pool = {
            let mut entries = space.entries();
            entries.last_pool += 1;
            let pool = PoolId(entries.last_pool);
            entries.pools.insert(pool, Mailbox::default());
            pool
        };
        Self {
            space,
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
                queue,
                reserved_fences,
                ..
            } => {
                let params = Params {
                    key: &key,
                    token,
                    ttl,
                    queue,
                    reserved_fences,
                };
                entries.acquire(pool, &params, now)
            }
            Op::AcquireAll { keys, ttl, .. } => {
                let all = keys.iter().map(|(key, token)| Params {
                    key,
                    token: *token,
                    ttl,
                    queue: false,
                    reserved_fences: 0,
                });
                let all: Vec<_> = all.collect();
                entries.acquire_all(pool, &all, now)
            }
            Op::Renew(renewals) => Reply::Renewed(
                renewals
                    .iter()
                    .map(|renewal| entries.renew(renewal, now))
                    .collect(),
            ),
            Op::Release {
                key, token, keep, ..
            } => Reply::Released {
                found: entries.release(&key, token, keep, now),
                ordered: true,
            },
            Op::Join {
                key,
                token,
                ttl,
                limit,
                queue,
            } => {
                let params = Params {
                    key: &key,
                    token,
                    ttl,
                    queue,
                    reserved_fences: 0,
                };
                entries.join(pool, &params, Limit(limit), now)
            }
            Op::Stay(renewals) => Reply::Renewed(
                renewals
                    .iter()
                    .map(|renewal| entries.stay(renewal, now))
                    .collect(),
            ),
            Op::Part {
                key, token, keep, ..
            } => Reply::Released {
                found: entries.part(&key, token, keep, now),
                ordered: true,
            },
            Op::Leave { key } => {
                entries.leave(pool, &key, now);
                Reply::Left
            }
        }
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
}

impl Drop for MemoryStore {
    fn drop(&mut self) {
        let mut entries = self.space.entries();
        let now = self.space.clock.now();
        entries.forget(self.pool, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::Clock;
    use crate::testing::conformance::{self, Promises};

    #[tokio::test]
    async fn conforms() {
        let space = Space::private(Clock::System);
        let connect = || Box::new(MemoryStore::new(Arc::clone(&space))) as _;
        conformance::run(Promises::ONE, connect).await;
        conformance::run_queue(connect).await;
    }

    #[test]
    fn spaces_are_shared_by_name() {
        assert!(Arc::ptr_eq(&Space::shared("one"), &Space::shared("one")));
        assert!(!Arc::ptr_eq(&Space::shared("one"), &Space::shared("two")));
    }
}
