//! What happens inside the locks of a worker process, and what the oracle is told of it.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold::__test::{confirmed, now};
use leasehold::{LockError, LockHandle, LockPool};

use super::calls;
use super::job::Work;
use super::ledger::Ledger;
use super::shop::{Sale, Shop};
use crate::oracle::{History, Mode, Note};
use crate::random::Random;

static NEXT_HOLDER: AtomicU64 = AtomicU64::new(0);

/// How many bodies have begun in this process.
pub(super) fn begun() -> u64 {
    NEXT_HOLDER.load(Ordering::Relaxed)
}

/// What the bodies of a process share.
#[derive(Debug)]
pub(super) struct Desk {
    pub(super) history: History,
    pub(super) ledger: Ledger,
    pub(super) shop: Option<Shop>,
}

/// One call.
#[derive(Debug, Clone)]
pub(super) struct Errand {
    pub(super) desk: Arc<Desk>,
    pub(super) pool: LockPool,
    pub(super) key: String,
    pub(super) ttl: Duration,
    pub(super) mode: Mode,
    pub(super) work: Work,
    pub(super) block: Option<Duration>,
    pub(super) asked: u64,
    /// When the present poll of the whole call began, before it came to the lock's gate.
    pub(super) began: Arc<AtomicU64>,
}

/// Makes the call and notes how it ended.
pub(super) async fn run(errand: Errand, watchdog: bool, wait: Duration) {
    let (desk, key, asked) = (Arc::clone(&errand.desk), errand.key.clone(), errand.asked);
    let began = Arc::clone(&errand.began);
    let ended = stamped(&began, calls::make(errand, watchdog)).await;
    let at = now();
    match ended {
        Err(LockError::Lost { .. }) => desk.history.note(&Note::Lost { key, at }),
        Err(error) if error.is_contention() => desk.history.note(&Note::Refused {
            key,
            asked,
            at,
            wait: nanos(wait),
        }),
        Ok(()) => {}
        // The store is away; a loop of calls leaves it some time.
        Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
    }
}

/// Notes when each poll of `future` begins.
async fn stamped<F: Future>(began: &AtomicU64, future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|context| {
        began.store(now(), Ordering::Relaxed);
        future.as_mut().poll(context)
    })
    .await
}

/// The body of every call.
pub(super) async fn inside(errand: &Errand, lock: LockHandle) {
    let body = Body::enter(errand, lock);
    let mut work = pin!(body.work());
    poll_fn(|context| {
        body.polled();
        work.as_mut().poll(context)
    })
    .await;
}

/// A body; it has left when this is dropped.
struct Body<'a> {
    errand: &'a Errand,
    lock: LockHandle,
    holder: u64,
    fence: u64,
    /// The end of the lease as confirmed last.
    deadline: Arc<AtomicU64>,
}

impl<'a> Body<'a> {
    fn enter(errand: &'a Errand, lock: LockHandle) -> Self {
        let deadline = confirmed(&lock);
        let at = now();
        let number = NEXT_HOLDER.fetch_add(1, Ordering::Relaxed);
        let body = Self {
            holder: (u64::from(std::process::id()) << 32) | number,
            fence: lock.fence().map_or(0, u64::from),
            deadline: Arc::new(AtomicU64::new(deadline)),
            errand,
            lock,
        };
        let sent = deadline.saturating_sub(lease(errand.ttl));
        body.note(&Note::Enter {
            key: errand.key.clone(),
            holder: body.holder,
            fence: body.lock.fence().map(u64::from),
            asked: errand.asked,
            at,
            sent,
            deadline,
            mode: errand.mode,
        });
        body
    }

    fn note(&self, note: &Note) {
        self.errand.desk.history.note(note);
    }

    fn deadline(&self) -> u64 {
        self.deadline
            .fetch_max(confirmed(&self.lock), Ordering::Relaxed);
        self.deadline.load(Ordering::Relaxed)
    }

    /// Each poll: whether the gate should have prevented it.
    fn polled(&self) {
        let began = self.errand.began.load(Ordering::Relaxed);
        let deadline = self.deadline();
        if began >= deadline {
            self.note(&Note::LatePoll {
                key: self.errand.key.clone(),
                holder: self.holder,
                began,
                deadline,
            });
        }
    }

    async fn work(&self) {
        if let Some(block) = self.errand.block {
            std::thread::sleep(block);
        }
        match self.errand.work {
            Work::Count { pause_us } => self.count(Duration::from_micros(pause_us)).await,
            Work::Read { pause_us } => self.read(Duration::from_micros(pause_us)).await,
            Work::Stay { ms, .. } | Work::ByHand { ms } => {
                let until = now() + ms * 1_000_000;
                while now() < until {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
            Work::Sell { .. } => self.sell().await,
            Work::Block { ms } => std::thread::sleep(Duration::from_millis(ms)),
        }
    }

    async fn sell(&self) {
        let sale = Sale {
            desk: Arc::clone(&self.errand.desk),
            key: self.errand.key.clone(),
            holder: self.holder,
            lock: self.lock.clone(),
            deadline: Arc::clone(&self.deadline),
        };
        Arc::new(sale).sell().await;
        loop {
            self.deadline();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn read(&self, most: Duration) {
        let Errand { desk, key, .. } = self.errand;
        let first = desk.ledger.read(key, self.fence);
        self.pause(most).await;
        let last = desk.ledger.read(key, self.fence);
        self.note(&Note::Read {
            key: key.clone(),
            holder: self.holder,
            first,
            last,
            at: now(),
            deadline: self.deadline(),
        });
    }

    async fn pause(&self, most: Duration) {
        let pause = Random::new(self.holder).duration(most);
        if pause.is_zero() {
            tokio::task::yield_now().await;
        } else {
            tokio::time::sleep(pause).await;
        }
    }

    async fn count(&self, most: Duration) {
        let Errand { desk, key, .. } = self.errand;
        let seen = desk.ledger.read(key, self.fence);
        self.pause(most).await;
        let deadline = self.deadline();
        desk.ledger
            .write(key, self.fence, seen, deadline, |written| {
                self.note(&Note::Write {
                    key: key.clone(),
                    holder: self.holder,
                    fence: self.lock.fence().map(u64::from),
                    seen,
                    newest: written.newest,
                    at: written.at,
                    deadline,
                    kept: written.kept,
                });
            });
    }
}

impl Drop for Body<'_> {
    fn drop(&mut self) {
        if let Work::Stay { slow_drop_ms, .. } = self.errand.work {
            std::thread::sleep(Duration::from_millis(slow_drop_ms));
        }
        let deadline = self.deadline();
        self.note(&Note::Leave {
            key: self.errand.key.clone(),
            holder: self.holder,
            at: now(),
            deadline,
        });
    }
}

/// How long after its sending a lease of this ttl ends, in nanoseconds.
pub(super) fn lease(ttl: Duration) -> u64 {
    nanos(ttl.saturating_sub(ttl / 100 + Duration::from_millis(2)))
}

pub(super) fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
