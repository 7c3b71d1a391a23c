//! Taking the locks of a call: all of them or none.

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
    /// It has one, nothing stood in the way of asking for it, and it has been asked for: what nearly every call comes to.
    Asked(PendingLock, LeaseOrigin),
    /// Boxed: it would be a part of the future of every annotated function.
    Wanted(Box<Wanted>),
}

/// What is written down about the leases of a call.
#[derive(Clone, Copy)]
pub(crate) struct LeaseOrigin {
    pool: PoolId,
    at: At,
    shared: bool,
}

/// A call before it has asked for anything.
pub(crate) struct Wanted {
    taking: Taking,
    wants: OneOrMany<Want>,
    mark: LeaseOrigin,
}

/// Begins to take or enter every lock; to be followed by [`taken`](Begun::taken), and by nothing before that.
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
    let mark = LeaseOrigin {
        pool: pool.id(),
        at,
        shared: plan.share.is_some(),
    };
    let wants = match wants {
        OneOrMany::One(Want { key, holder: None }) => {
            let acquire = acquire(key, &pool, &plan, at.function(), plan.wait);
            return Ok(Begun::Asked(PendingLock::ask(pool, acquire)?, mark));
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
        mark,
    })))
}

impl Begun {
    /// Takes or enters every lock.
    ///
    /// Cancel safety: what was got is let go when this future is dropped.
    pub(crate) async fn taken(self, locks: Locks) -> Result<HeldLocks, LockError> {
        match self {
            Self::Asked(hold, mark) => {
                let hold = hold.taken().await?;
                locks.fill([mark.lease(hold.cell())]);
                Ok(HeldLocks::new(locks, OneOrMany::One(HeldLock::Held(hold))))
            }
            Self::Wanted(wanted) => Box::pin(wanted.taken(locks)).await,
        }
    }
}

impl LeaseOrigin {
    fn lease(self, cell: &Arc<LeaseCell>) -> LeaseRef {
        LeaseRef::new(self.pool, Arc::clone(cell), self.at, self.shared)
    }
}

impl Wanted {
    async fn taken(self: Box<Self>, locks: Locks) -> Result<HeldLocks, LockError> {
        let (taking, wants) = (&self.taking, &*self.wants);
        let places = taking.all(wants).await?;
        let leases = wants.iter().zip(places.iter());
        locks.fill(leases.map(|(want, place)| match &want.holder {
            Some(holder) => holder.entered(),
            None => self.mark.lease(place.cell()),
        }));
        Ok(HeldLocks::new(locks, places))
    }
}

/// One lock that a call wants.
struct Want {
    key: FullKey,
    /// The lease of the call further out that holds it.
    holder: Option<Box<LeaseRef>>,
}

/// Why not all locks could be had.
enum Setback {
    /// The first leases would be too old by now: everything from the start.
    Stale,
    Failed(LockError),
}

impl From<LockError> for Setback {
    fn from(error: LockError) -> Self {
        Self::Failed(error)
    }
}

/// One call that takes its locks.
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
            // A share is not entered: the key may be waited for by a writer, and two shares are not one.
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
    }
}

impl Taking {
    async fn all(&self, wants: &[Want]) -> Result<OneOrMany<HeldLock>, LockError> {
        if let Some(places) = self.at_once(wants).await? {
            return Ok(places);
        }
        loop {
            match self.one_by_one(wants).await {
                Ok(places) => return Ok(places),
                Err(Setback::Failed(error)) => return Err(error),
                Err(Setback::Stale) => {}
            }
        }
    }

    /// In one request, where nothing stands in the way of that: nobody has one of the keys, and the store can take all in one step.
    async fn at_once(&self, wants: &[Want]) -> Result<Option<OneOrMany<HeldLock>>, LockError> {
        if self.plan.share.is_some() || wants.iter().any(|want| want.holder.is_some()) {
            return Ok(None);
        }
        let acquires = wants.iter().map(|want| self.acquire(want, Duration::ZERO));
        match PendingLock::take_all(&self.pool, acquires, self.plan.wait).await {
            Ok(holds) => Ok(holds.map(|holds| holds.into_iter().map(HeldLock::Held).collect())),
            Err(error) if self.plan.wait.is_zero() => Err(error),
            // One by one they can wait for what is away or held.
            Err(_) if !self.left().is_zero() => Ok(None),
            Err(LockError::Contended { key, .. }) => Err(LockError::TimedOut {
                key,
                waited: self.waited(),
            }),
            Err(error) => Err(error),
        }
    }

    /// In the order of the keys. If one of them cannot be had, those before it are let go: a release that is asked for now is
    /// carried out before whatever this process asks for next.
    async fn one_by_one(&self, wants: &[Want]) -> Result<OneOrMany<HeldLock>, Setback> {
        let mut places = OneOrMany::default();
        for want in wants {
            let place = match &want.holder {
                Some(holder) => HeldLock::Entered(self.turn(want, holder).await?),
                None => HeldLock::Held(self.one(want, &places).await?),
            };
            places.push(place);
        }
        match places.iter().find(|place| !place.cell().is_live()) {
            None => Ok(places),
            Some(lost) if self.left().is_zero() => Err(lost.cell().lost_error().into()),
            Some(_) => Err(Setback::Stale),
        }
    }

    /// The turn of a nested call, within the call's budget if it has one.
    async fn turn(&self, want: &Want, holder: &LeaseRef) -> Result<NestedPermit, LockError> {
        let Some(budget) = self.plan.turn else {
            let turn = NestedPermit::wait(holder, pending()).await?;
            return turn.ok_or_else(|| self.timed_out(want));
        };
        holder.cell.check()?;
        if let Some(turn) = NestedPermit::at_once(holder) {
            return Ok(turn);
        }
        if budget.is_zero() {
            return Err(LockError::Contended {
                key: want.key.name().to_owned(),
                retry_after: Some(holder.cell.remaining()),
            });
        }
        let turn = NestedPermit::wait(holder, self.end_of(budget)).await?;
        turn.ok_or_else(|| self.timed_out(want))
    }

    /// Ends when the call has waited for so long.
    async fn end_of(&self, budget: Duration) {
        let (caller, mut rung) = oneshot::channel();
        let at = self.since + budget;
        let engine = self.pool.engine();
        // An engine that is gone drops the caller's end, and has told the slot that the lease is over.
        let _ = engine.send(Command::Wake { at, caller });
        poll_fn(|cx| {
            // The task may be polled for another reason before it hears.
            if at <= engine.clock().now() {
                return Poll::Ready(());
            }
            Pin::new(&mut rung).poll(cx).map(drop)
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

    /// What is left of the call's one budget.
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

    /// How long the leases that the call has by now may still age: nobody renews them without a watchdog, and the body is to
    /// begin with at least half a ttl.
    fn fresh(&self, places: &[HeldLock]) -> Duration {
        let own = places
            .iter()
            .filter(|place| matches!(place, HeldLock::Held(_)));
        let least = own.map(|place| place.cell().remaining()).min();
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
