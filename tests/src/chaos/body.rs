//! The bodies that a worker process runs, and the notes that they write for the oracle.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use leasehold::__test::{confirmed_of, now};
use leasehold::{Fence, LockError, LockGuard, LockHandle, distributed_lock};

use super::errand::Errand;
use super::job::{Form, Work};
use super::sale::Sale;
use super::span::{lease, nanos};
use crate::oracle::Note;
use crate::random::Random;

static NEXT_HOLDER: AtomicU64 = AtomicU64::new(0);

/// Returns the number of bodies that have begun in this process.
pub(super) fn begun() -> u64 {
    NEXT_HOLDER.load(Ordering::Relaxed)
}

/// Takes the lock again inside a body of the form `Form::Nesting`, and runs the body of this nested
/// call.
#[distributed_lock(key = "<errand.key()>", ttl = errand.ttl, reentrant, guard = lock, pool = errand.pool)]
async fn nested(errand: Errand) -> Result<(), LockError> {
    inside(&errand, lock).await
}

/// Runs the body of a call that neither downgrades its lock nor has `replay`.
pub(super) async fn inside(errand: &Errand, lock: LockHandle) -> Result<(), LockError> {
    ran(errand, lock).await.map(drop)
}

/// Like `inside`, but for a call with `replay`. Returns the number of this body, and the number of
/// the body that inserted its order (`Work::Order`).
pub(super) async fn ran(errand: &Errand, lock: LockHandle) -> Result<(u64, u64), LockError> {
    let body = Body::enter(errand, lock);
    let mut work = pin!(body.ends());
    poll_fn(|context| {
        if body.is_gated() {
            body.polled();
        }
        work.as_mut().poll(context)
    })
    .await?;
    Ok((body.holder, body.made_by.load(Ordering::Relaxed)))
}

/// Runs the body of a downgrading call: does the work, and downgrades the lock to a shared lock.
/// Then reads the counters if the work is `Work::Count`, or else does the work again.
pub(super) async fn downgraded(errand: &Errand, guard: &mut LockGuard) -> Result<(), LockError> {
    let body = Body::enter(errand, guard.handle());
    body.work().await;
    for stake in &body.stakes {
        body.note(&Note::Shared {
            key: stake.key.clone(),
            holder: body.holder,
            at: now(),
        });
    }
    guard.downgrade().await?;
    match errand.work {
        Work::Count { pause_us } => body.read(Duration::from_micros(pause_us)).await,
        _ => body.work().await,
    }
    Ok(())
}

/// A running body. Dropping it notes that the body has left.
struct Body<'a> {
    errand: &'a Errand,
    lock: LockHandle,
    holder: u64,
    /// The leases of the body, one for each key.
    stakes: Vec<Stake>,
    /// True once the body has ended with `Ok`.
    good: AtomicBool,
    /// Number of the body that made the order: this one, or an earlier one.
    made_by: AtomicU64,
}

/// A lease on one key.
struct Stake {
    key: String,
    fence: Option<Fence>,
    /// The latest confirmed end of the lease, as a timestamp of `now`.
    deadline: Arc<AtomicU64>,
}

impl Stake {
    fn of(key: &str, lock: &LockHandle) -> Self {
        Self {
            key: key.to_owned(),
            fence: lock.fence_of(key),
            deadline: Arc::new(AtomicU64::new(confirmed_of(lock, key))),
        }
    }

    fn fence(&self) -> u64 {
        self.fence.map_or(0, u64::from)
    }

    fn deadline(&self, lock: &LockHandle) -> u64 {
        let confirmed = confirmed_of(lock, &self.key);
        self.deadline.fetch_max(confirmed, Ordering::Relaxed);
        self.deadline.load(Ordering::Relaxed)
    }
}

impl<'a> Body<'a> {
    fn enter(errand: &'a Errand, lock: LockHandle) -> Self {
        // The leases are read before the clock. Otherwise a renewal after `at` could already be
        // part of a deadline.
        let stakes = errand.keys.iter().map(|key| Stake::of(key, &lock));
        let stakes: Vec<_> = stakes.collect();
        let at = now();
        let number = NEXT_HOLDER.fetch_add(1, Ordering::Relaxed);
        let holder = (u64::from(std::process::id()) << 32) | number;
        let body = Self {
            holder,
            made_by: AtomicU64::new(holder),
            stakes,
            errand,
            lock,
            good: AtomicBool::new(false),
        };
        for stake in &body.stakes {
            let deadline = stake.deadline.load(Ordering::Relaxed);
            body.note(&Note::Enter {
                key: stake.key.clone(),
                holder: body.holder,
                fence: stake.fence.map(u64::from),
                asked: errand.asked,
                at,
                sent: deadline.saturating_sub(lease(errand.ttl)),
                deadline,
                mode: errand.mode,
                within: errand.within,
            });
        }
        body
    }

    fn note(&self, note: &Note) {
        self.errand.desk.history.note(note);
    }

    /// Notes the poll if it began after the end of a lease. The gate, which checks the deadline
    /// before each poll of the body, should have prevented such a poll.
    fn polled(&self) {
        let began = self.errand.began.load(Ordering::Relaxed);
        for stake in &self.stakes {
            let deadline = stake.deadline(&self.lock);
            if began >= deadline {
                self.note(&Note::LatePoll {
                    key: stake.key.clone(),
                    holder: self.holder,
                    began,
                    deadline,
                });
            }
        }
    }

    /// Does the work and the nested calls, and returns the result.
    async fn ends(&self) -> Result<(), LockError> {
        self.work().await;
        if self.errand.form == Form::Nesting {
            self.nest().await;
        }
        if self.errand.fails {
            // Any error will do, because the test only needs a failing body.
            return Err(LockError::NotInstalled);
        }
        self.good.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Makes two nested calls at the same time. Their bodies run one after the other.
    async fn nest(&self) {
        let nested = || Box::pin(nested(self.errand.nested_in(self.holder)));
        // Errors of the nested calls are ignored. If the lease is lost, the gate of this body
        // detects the loss.
        let _ = tokio::join!(nested(), nested());
        // Both nested calls may have ended in one long poll of this body. The yield ends this poll,
        // so that the gate checks the lease before the body continues.
        tokio::task::yield_now().await;
    }

    async fn work(&self) {
        if let Some(block) = self.errand.block {
            std::thread::sleep(block);
        }
        match self.errand.work {
            Work::Count { pause_us } => self.count(Duration::from_micros(pause_us)).await,
            Work::Read { pause_us } => self.read(Duration::from_micros(pause_us)).await,
            Work::Stay { ms, .. } => {
                let until = now() + ms * 1_000_000;
                // A body under a guard has no gate (`is_gated`), so the body itself checks the
                // lease.
                while now() < until && (self.is_gated() || self.lock.check().is_ok()) {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
            Work::Wait { ms } => tokio::time::sleep(Duration::from_millis(ms)).await,
            Work::Sell { .. } => self.sell().await,
            Work::Order { pause_us } => self.order(Duration::from_micros(pause_us)).await,
            Work::Block { ms } => std::thread::sleep(Duration::from_millis(ms)),
        }
    }

    fn is_gated(&self) -> bool {
        !matches!(self.errand.form, Form::ByHand | Form::Downgrading { .. })
    }

    async fn sell(&self) {
        let stake = &self.stakes[0];
        let sale = Sale {
            desk: Arc::clone(&self.errand.desk),
            key: stake.key.clone(),
            holder: self.holder,
            lock: self.lock.clone(),
            deadline: Arc::clone(&stake.deadline),
        };
        Arc::new(sale).sell().await;
        loop {
            stake.deadline(&self.lock);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Inserts the order into the table, and then waits for `pause` before the lock is released.
    async fn order(&self, pause: Duration) {
        let orders = self.errand.desk.orders.as_ref();
        let orders = orders.expect("a job that makes orders has a table");
        let made_by = orders.commit(self.errand.key(), self.holder).await;
        self.made_by.store(made_by, Ordering::Relaxed);
        tokio::time::sleep(pause).await;
    }

    /// Reads the counter of each key.
    fn look(&self) -> Vec<u64> {
        let ledger = &self.errand.desk.ledger;
        let stakes = self.stakes.iter();
        stakes
            .map(|stake| ledger.read(&stake.key, stake.fence()))
            .collect()
    }

    async fn read(&self, most: Duration) {
        let first = self.look();
        self.pause(most).await;
        let last = self.look();
        for (stake, (first, last)) in self.stakes.iter().zip(first.into_iter().zip(last)) {
            self.note(&Note::Read {
                key: stake.key.clone(),
                holder: self.holder,
                first,
                last,
                at: now(),
                deadline: stake.deadline(&self.lock),
            });
        }
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
        let seen = self.look();
        self.pause(most).await;
        for (stake, seen) in self.stakes.iter().zip(seen) {
            self.write(stake, seen);
        }
    }

    fn write(&self, stake: &Stake, seen: u64) {
        let deadline = stake.deadline(&self.lock);
        let ledger = &self.errand.desk.ledger;
        ledger.write(&stake.key, stake.fence(), seen, deadline, |written| {
            self.note(&Note::Write {
                key: stake.key.clone(),
                holder: self.holder,
                fence: stake.fence.map(u64::from),
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
        let good = self.good.load(Ordering::Relaxed);
        let cooldown = self.errand.cooldown();
        for stake in &self.stakes {
            self.note(&Note::Leave {
                key: stake.key.clone(),
                holder: self.holder,
                at: now(),
                deadline: stake.deadline(&self.lock),
                keeps: (good && !cooldown.is_zero()).then(|| nanos(cooldown)),
            });
        }
    }
}
