//! Locks in this process: `memory://`.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime};

use super::{LockStore, Op, OpId, Renewal, Reply, Request, StoreEvent};
use crate::Fence;
use crate::clock::{Clock, Instant};
use crate::token::Token;

/// At least so many acquisitions go by between sweeps of expired entries.
const SWEEP_EVERY: usize = 1024;

/// One process's locks of one name. Pools that share the name exclude each other.
#[derive(Debug)]
pub(crate) struct Space {
    clock: Clock,
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    by_key: HashMap<Arc<str>, Entry>,
    last_fence: u64,
    since_sweep: usize,
    left_by_sweep: usize,
}

#[derive(Debug)]
struct Entry {
    token: Token,
    fence: Fence,
    expires: Instant,
}

impl Space {
    /// A space that nobody else sees.
    pub(crate) fn private(clock: Clock) -> Arc<Self> {
        Arc::new(Self {
            clock,
            entries: Mutex::default(),
        })
    }

    /// The space that all pools of this process with this URL share.
    pub(crate) fn shared(name: &str) -> Arc<Self> {
        static SPACES: Mutex<Option<HashMap<String, Arc<Space>>>> = Mutex::new(None);
        let mut spaces = SPACES.lock().unwrap_or_else(PoisonError::into_inner);
        let space = spaces
            .get_or_insert_default()
            .entry(name.to_owned())
            .or_insert_with(|| Self::private(Clock::System));
        Arc::clone(space)
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entries {
    fn acquire(&mut self, key: &Arc<str>, token: Token, ttl: Duration, now: Instant) -> Reply {
        self.sweep(now);
        if let Some(entry) = self.live(key, now) {
            if entry.token != token {
                let left = Some(entry.expires.since(now));
                return Reply::Held { left };
            }
            entry.expires = now + ttl;
            let fence = Some(entry.fence);
            return Reply::Acquired { fence };
        }
        let fence = self.next_fence();
        let entry = Entry {
            token,
            fence,
            expires: now + ttl,
        };
        self.by_key.insert(Arc::clone(key), entry);
        Reply::Acquired { fence: Some(fence) }
    }

    fn renew(&mut self, renewal: &Renewal, now: Instant) -> bool {
        match self.live(&renewal.key, now) {
            Some(entry) if entry.token == renewal.token => {
                entry.expires = now + renewal.ttl;
                true
            }
            _ => false,
        }
    }

    fn release(&mut self, key: &Arc<str>, token: Token, now: Instant) -> bool {
        let found = self
            .live(key, now)
            .is_some_and(|entry| entry.token == token);
        if found {
            self.by_key.remove(key);
        }
        found
    }

    fn live(&mut self, key: &Arc<str>, now: Instant) -> Option<&mut Entry> {
        self.by_key.get_mut(key).filter(|entry| now < entry.expires)
    }

    fn next_fence(&mut self) -> Fence {
        let micros = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, |since| u64::try_from(since.as_micros()).unwrap_or(0));
        self.last_fence = micros.max(self.last_fence + 1);
        Fence::new(self.last_fence)
    }

    /// Forgets the keys of holders that died, now and then.
    fn sweep(&mut self, now: Instant) {
        self.since_sweep += 1;
        if self.since_sweep > SWEEP_EVERY.max(self.left_by_sweep) {
            self.by_key.retain(|_, entry| now < entry.expires);
            self.since_sweep = 0;
            self.left_by_sweep = self.by_key.len();
        }
    }
}

/// One pool's access to a [`Space`].
#[derive(Debug)]
pub(crate) struct MemoryStore {
    space: Arc<Space>,
    events: VecDeque<StoreEvent>,
    waker: Option<Waker>,
}

impl MemoryStore {
    pub(crate) fn new(space: Arc<Space>) -> Self {
        Self {
            space,
            events: VecDeque::new(),
            waker: None,
        }
    }

    fn answer(&mut self, id: OpId, reply: Reply) {
        self.events.push_back(StoreEvent::Reply(id, Ok(reply)));
    }
}

impl LockStore for MemoryStore {
    fn submit(&mut self, batch: Vec<Request>) {
        let space = Arc::clone(&self.space);
        let mut entries = space.entries();
        let now = space.clock.now();
        for request in batch {
            let reply = match request.op {
                Op::Acquire {
                    key, token, ttl, ..
                } => entries.acquire(&key, token, ttl, now),
                Op::Renew(renewals) => {
                    Reply::Renewed(renewals.iter().map(|one| entries.renew(one, now)).collect())
                }
                Op::Release { key, token, .. } => Reply::Released {
                    found: entries.release(&key, token, now),
                    ordered: true,
                },
            };
            self.answer(request.id, reply);
        }
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<StoreEvent> {
        if let Some(event) = self.events.pop_front() {
            return Poll::Ready(event);
        }
        self.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::conformance::{self, Promises};
    use crate::token::Nonce;

    #[tokio::test]
    async fn conforms() {
        let space = Space::private(Clock::System);
        let connect = || Box::new(MemoryStore::new(Arc::clone(&space))) as _;
        conformance::run(Promises::ONE, connect).await;
    }

    #[test]
    fn expired_entries_are_swept() {
        let space = Space::private(Clock::System);
        let mut entries = space.entries();
        let start = Instant::from_nanos(1);
        for number in 0..5_000_u32 {
            let key: Arc<str> = number.to_string().into();
            let now = start + Duration::from_millis(number.into());
            entries.acquire(
                &key,
                Token::random(Nonce::new()),
                Duration::from_millis(100),
                now,
            );
        }
        assert!(
            entries.by_key.len() <= 2 * SWEEP_EVERY,
            "{} kept",
            entries.by_key.len()
        );
    }

    #[test]
    fn spaces_are_shared_by_name() {
        assert!(Arc::ptr_eq(&Space::shared("one"), &Space::shared("one")));
        assert!(!Arc::ptr_eq(&Space::shared("one"), &Space::shared("two")));
    }
}
