//! Takes the locks of a call: all of them or none.

use std::future::{Future, pending, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::oneshot;

use super::call_site::At;
use super::held::{HeldLock, HeldLocks, NestedPermit};
use super::leases::{LeaseRef, Lock, Locks};
use super::nesting::{self, Standing};
use super::pending::PendingLock;
use super::settings::{Plan, Settings};
use crate::base::clock::Instant;
use crate::base::full_key::FullKey;
use crate::base::one_or_many::OneOrMany;
use crate::base::seeded::seeded;
use crate::engine::core::ticket::Acquire;
use crate::engine::driver::command::Command;
use crate::engine::lease_cell::LeaseCell;
use crate::error::LockError;
use crate::pool::LockPool;
use crate::pool::PoolId;

/// A call that has begun to take its locks.
pub(crate) enum Begun {
    /// One lock that no enclosing call holds, and it has been asked for. Nearly every call comes to
    /// this.
    Asked(PendingLock, LeaseOrigin),
    /// Every other call. Boxed, because it would be a part of every annotated function's future.
    Wanted(Box<Wanted>),
}

/// What a call notes on each of its leases, and for how long it keeps them at least.
#[derive(Clone, Copy)]
pub(crate) struct LeaseOrigin {
    pool: PoolId,
    at: At,
    shared: bool,
    at_least: Option<Duration>,
}

/// A call that has asked for no lock yet.
pub(crate) struct Wanted {
    taking: Taking,
    wants: OneOrMany<Want>,
    origin: LeaseOrigin,
}

/// Begins to take or enter every lock. The caller awaits [`taken`](Begun::taken) next, and does
/// nothing in between.
pub(crate) fn begin(
    pool: LockPool,
    locks: &Locks,
    settings: &Settings,
    at: At,
) -> Result<Begun, LockError> {
    let plan = settings.plan(&pool)?;
    let wants = locks
        .iter()
        .map(|lock| Want::new(&pool, lock, settings.reentrant));
    let wants: OneOrMany<Want> = wants.collect::<Result<_, _>>()?;
    let origin = LeaseOrigin {
        pool: pool.id(),
        at,
        shared: plan.share.is_some(),
        at_least: plan.at_least,
    };
    let wants = match wants {
        OneOrMany::One(Want { key, holder: None }) => {
            let acquire = acquire(key, &pool, &plan, at.function(), plan.wait);
            return Ok(Begun::Asked(PendingLock::ask(pool, acquire)?, origin));
        }
        wants => wants,
    };
    let taking = Taking {
        plan,
        function: at.function(),
        since: pool.engine().clock().now(),
        pool,
    };
    Ok(Begun::Wanted(Box::new(Wanted {
        taking,
        wants,
        origin,
    })))
}

impl Begun {
    /// Takes or enters every lock.
    ///
    /// Cancel safety: a future that is dropped lets go of every lock that it got.
    pub(crate) async fn taken(self, locks: Locks) -> Result<HeldLocks, LockError> {
        match self {
            Self::Asked(lock, origin) => {
                let lock = lock.taken().await?;
                locks.fill([origin.lease(lock.cell())]);
                let held = OneOrMany::One(HeldLock::Held(lock));
                Ok(origin.held(locks, held))
            }
            Self::Wanted(wanted) => Box::pin(wanted.taken(locks)).await,
        }
    }
}

impl LeaseOrigin {
    fn lease(self, cell: &Arc<LeaseCell>) -> LeaseRef {
        LeaseRef::new(self.pool, Arc::clone(cell), self.at, self.shared)
    }

    /// The call has all its locks, and its body begins.
    fn held(self, locks: Locks, held: OneOrMany<HeldLock>) -> HeldLocks {
        let held = HeldLocks::new(locks, held);
        if let Some(at_least) = self.at_least {
            held.keep_at_least(at_least);
        }
        held
    }
}

impl Wanted {
    async fn taken(self: Box<Self>, locks: Locks) -> Result<HeldLocks, LockError> {
        let (taking, wants) = (&self.taking, &*self.wants);
        let held = taking.all(wants).await?;
        let leases = wants.iter().zip(held.iter());
        locks.fill(leases.map(|(want, lock)| match &want.holder {
            Some(holder) => holder.entered(),
            None => self.origin.lease(lock.cell()),
        }));
        Ok(self.origin.held(locks, held))
    }
}

/// One lock that a call wants.
struct Want {
    key: FullKey,
    /// The lease of an enclosing call that holds the lock.
    holder: Option<Box<LeaseRef>>,
}

/// Why a call did not get all its locks.
enum Setback {
    /// The first leases would be too old by now. The call starts again.
    Stale,
    Failed(LockError),
}

impl From<LockError> for Setback {
    fn from(error: LockError) -> Self {
        Self::Failed(error)
    }
}

/// A call that takes its locks.
struct Taking {
    pool: LockPool,
    plan: Plan,
    function: &'static str,
    since: Instant,
}

impl Want {
    fn new(pool: &LockPool, lock: &Lock, reentrant: bool) -> Result<Self, LockError> {
        let key = pool.full_key(lock.name());
        let holder = match nesting::standing(pool.id(), &key) {
            // A share is not entered: a writer may wait for the key, and two shares are not one.
            Standing::Inside(holder) if reentrant && (!holder.shared || seeded!(ShareEntered)) => {
                Some(holder)
            }
            Standing::Inside(holder) => {
                return Err(LockError::WouldDeadlock {
                    key: lock.name().to_owned(),
                    held_at: holder.at.to_string(),
                });
            }
            Standing::Lost(error) if reentrant => return Err(error),
            Standing::Lost(_) | Standing::Outside => None,
        };
        Ok(Self { key, holder })
    }
}

fn acquire(
    key: FullKey,
    pool: &LockPool,
    plan: &Plan,
    function: &'static str,
    budget: Duration,
) -> Acquire {
    Acquire {
        key,
        token: pool.token(),
        function,
        terms: plan.terms,
        watchdog: plan.watchdog,
        wait: budget,
        share: plan.share,
        at_least: plan.at_least,
    }
}

impl Taking {
    async fn all(&self, wants: &[Want]) -> Result<OneOrMany<HeldLock>, LockError> {
        if let Some(held) = self.at_once(wants).await? {
            return Ok(held);
        }
        loop {
            match self.individually(wants).await {
                Ok(held) => return Ok(held),
                Err(Setback::Failed(error)) => return Err(error),
                Err(Setback::Stale) => {}
            }
        }
    }

    /// Takes all locks in one request. That needs every key free, no call of this process that
    /// wants one of them, and a store that can take all in one step.
    ///
    /// Returns none if the call is to take its locks individually.
    async fn at_once(&self, wants: &[Want]) -> Result<Option<OneOrMany<HeldLock>>, LockError> {
        if self.plan.share.is_some() || wants.iter().any(|want| want.holder.is_some()) {
            return Ok(None);
        }
        let acquires = wants.iter().map(|want| self.acquire(want, Duration::ZERO));
        match PendingLock::take_all(&self.pool, acquires, self.plan.wait).await {
            Ok(locks) => Ok(locks.map(|locks| locks.into_iter().map(HeldLock::Held).collect())),
            Err(error) if self.plan.wait.is_zero() => Err(error),
            // Individually, the call can wait for a lock that is held, and for a store that is
            // away.
            Err(_) if !self.left().is_zero() => Ok(None),
            Err(LockError::Contended { key, .. }) => Err(LockError::TimedOut {
                key,
                waited: self.waited(),
            }),
            Err(error) => Err(error),
        }
    }

    /// Takes the locks individually, in the order of the keys. If one lock cannot be taken, the
    /// locks before it are let go. The engine carries out a release that is asked for now before
    /// any later request of this process.
    async fn individually(&self, wants: &[Want]) -> Result<OneOrMany<HeldLock>, Setback> {
        let mut held = OneOrMany::default();
        for want in wants {
            let lock = match &want.holder {
                Some(holder) => HeldLock::Entered(self.nested_permit(want, holder).await?),
                None => HeldLock::Held(self.one(want, &held).await?),
            };
            held.push(lock);
        }
        match held.iter().find(|lock| !lock.cell().is_live()) {
            None => Ok(held),
            Some(lost) if self.left().is_zero() => Err(lost.cell().lost_error().into()),
            Some(_) => Err(Setback::Stale),
        }
    }

    /// The permit of a nested call, within the call's budget if it has one.
    async fn nested_permit(
        &self,
        want: &Want,
        holder: &LeaseRef,
    ) -> Result<NestedPermit, LockError> {
        let Some(budget) = self.plan.nested_wait else {
            let permit = NestedPermit::wait(holder, pending()).await?;
            return permit.ok_or_else(|| self.timed_out(want));
        };
        holder.cell.check()?;
        if let Some(permit) = NestedPermit::at_once(holder) {
            return Ok(permit);
        }
        if budget.is_zero() {
            return Err(LockError::Contended {
                key: want.key.name().to_owned(),
                retry_after: Some(holder.cell.remaining()),
            });
        }
        let permit = NestedPermit::wait(holder, self.end_of(budget)).await?;
        permit.ok_or_else(|| self.timed_out(want))
    }

    /// Ends when the call has waited for `budget`.
    async fn end_of(&self, budget: Duration) {
        let (caller, mut woken) = oneshot::channel();
        let at = self.since + budget;
        let engine = self.pool.engine();
        // An engine that is gone drops `caller`. It has told the lease cell that the lease is over.
        let _ = engine.send(Command::Wake { at, caller });
        poll_fn(|cx| {
            // The task may be polled for another reason before the engine wakes it.
            if at <= engine.clock().now() {
                return Poll::Ready(());
            }
            Pin::new(&mut woken).poll(cx).map(drop)
        })
        .await;
    }

    async fn one(&self, want: &Want, before: &[HeldLock]) -> Result<PendingLock, Setback> {
        let (left, fresh) = (self.left(), self.fresh(before));
        let waits = !self.plan.wait.is_zero();
        if waits && left.is_zero() {
            return Err(self.timed_out(want).into());
        }
        if waits && fresh.is_zero() {
            return Err(Setback::Stale);
        }
        let asked = PendingLock::ask(self.pool.clone(), self.acquire(want, left.min(fresh)))?;
        match asked.taken().await {
            Err(LockError::TimedOut { .. }) if fresh < left => Err(Setback::Stale),
            Err(LockError::TimedOut { .. }) => Err(self.timed_out(want).into()),
            other => other.map_err(Setback::Failed),
        }
    }

    fn acquire(&self, want: &Want, budget: Duration) -> Acquire {
        let (pool, plan) = (&self.pool, &self.plan);
        acquire(want.key.clone(), pool, plan, self.function, budget)
    }

    /// What is left of the `wait` that the call has for all its keys.
    fn left(&self) -> Duration {
        if seeded!(BudgetPerKey) {
            return self.plan.wait;
        }
        let waited = self.waited();
        self.plan.wait.saturating_sub(waited)
    }

    fn waited(&self) -> Duration {
        self.pool.engine().clock().now().since(self.since)
    }

    /// For how long the leases taken so far may still age. Without a watchdog the engine does not
    /// renew them. The body is to begin with at least half a ttl.
    fn fresh(&self, held: &[HeldLock]) -> Duration {
        let own = held.iter().filter(|lock| matches!(lock, HeldLock::Held(_)));
        let least = own.map(|lock| lock.cell().remaining()).min();
        match least {
            Some(least) if self.plan.watchdog.is_none() => {
                least.saturating_sub(self.plan.terms.ttl() / 2)
            }
            _ => Duration::MAX,
        }
    }

    fn timed_out(&self, want: &Want) -> LockError {
        LockError::TimedOut {
            key: want.key.name().to_owned(),
            waited: self.waited(),
        }
    }
}
