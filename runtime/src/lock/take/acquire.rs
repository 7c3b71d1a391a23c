//! Takes the locks of a call: all of them or none.

use std::future::{Future, pending, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::sync::oneshot;

use super::held::{HeldLock, HeldLocks, NestedPermit};
use super::observed::Asking;
use super::pending::PendingLock;
use super::settings::{Plan, Settings};
use crate::base::clock::Instant;
use crate::base::full_key::FullKey;
use crate::base::label::Label;
use crate::base::one_or_many::OneOrMany;
use crate::base::seeded::seeded;
use crate::engine::core::hold_times::UNKNOWN;
use crate::engine::core::ticket::{Acquire, Adoption};
use crate::engine::driver::command::Command;
use crate::error::LockError;
use crate::lock::nest::call_site::At;
use crate::lock::nest::leases::{LeaseRef, Lock, Locks};
use crate::lock::nest::nesting::{self, Standing};
use crate::pool::LockPool;

/// A call in the process of taking its locks.
///
/// Cancel safety: dropping this gives up every lock that the call got or requested.
pub(crate) struct Acquisition {
    /// The locks of the call. For a call that takes a single lock itself, this has the requested
    /// lock from the start. For other calls, it is empty until `others` is ready.
    held: HeldLocks,
    /// The future that takes several locks, or enters a lock. Its result is moved into `held`.
    others: Option<Taken>,
    /// Minimum time for which the locks stay at the store, from the moment when all are taken.
    min_hold: Option<Duration>,
    /// Span and metrics of the pending acquire.
    asking: Option<Asking>,
}

type Taken = Pin<Box<dyn Future<Output = Result<OneOrMany<HeldLock>, LockError>> + Send>>;

/// Begins to take the locks of a call, or to enter those of enclosing calls. The caller must poll
/// the acquisition next, because nothing wakes its task before that.
pub(crate) fn begin(
    pool: LockPool,
    locks: Locks,
    settings: &Settings,
    at: At,
) -> Result<Acquisition, LockError> {
    let asking = Asking::begin(&pool, &locks, settings.label(at));
    observed(asking, ask(pool, locks, settings, at))
}

/// Adds the span and metrics of a call to its acquisition, or records the refusal.
fn observed(
    asking: Asking,
    mut begun: Result<Acquisition, LockError>,
) -> Result<Acquisition, LockError> {
    match &mut begun {
        Ok(acquisition) => acquisition.asking = Some(asking),
        Err(error) => asking.refused(error),
    }
    begun
}

fn ask(
    pool: LockPool,
    locks: Locks,
    settings: &Settings,
    at: At,
) -> Result<Acquisition, LockError> {
    let label = settings.label(at);
    let plan = settings.plan(&pool)?;
    if plan.replay.is_some() && locks.iter().len() > 1 {
        return Err(LockError::config(
            "`replay` keeps the result of one key, but this call locks several; lock one key that \
             stands for all of them",
        ));
    }
    let want = |lock| Want::new(&pool, lock, settings.reentrant);
    let wants: OneOrMany<Want> = locks.iter().map(want).collect::<Result<_, _>>()?;
    if !plan.wait.is_zero() {
        nesting::waits_in_task(pool.id(), wants.iter().map(|want| &want.key), at);
    }
    let min_hold = plan.min_hold;
    let others: Option<Taken> = match wants {
        OneOrMany::One(Want { key, holder: None }) => {
            let acquire = acquire(key, &pool, &plan, at, label, plan.wait);
            let lock = PendingLock::ask(pool, acquire)?;
            locks.fill([lease(&lock, &plan, at)]);
            let held = HeldLocks::new(locks, OneOrMany::One(HeldLock::Held(lock)));
            return Ok(Acquisition::new(held, min_hold));
        }
        wants => {
            let taking = Taking {
                since: pool.engine().clock().now(),
                pool,
                plan,
                at,
                label,
            };
            Some(Box::pin(taking.taken(locks.clone(), wants)))
        }
    };
    let held = HeldLocks::new(locks, OneOrMany::default());
    Ok(Acquisition {
        others,
        ..Acquisition::new(held, min_hold)
    })
}

/// Like `begin`, for a lock handed over by another process.
pub(crate) fn begin_adoption(
    pool: LockPool,
    locks: Locks,
    settings: &Settings,
    at: At,
    adoption: Adoption,
) -> Result<Acquisition, LockError> {
    let label = settings.label(at);
    let asking = Asking::begin(&pool, &locks, label);
    let adopted = settings.plan(&pool).and_then(|plan| {
        let key = pool.full_key(locks.first_name());
        let acquire = acquire(key, &pool, &plan, at, label, Duration::ZERO);
        let lock = PendingLock::adopt(pool, acquire, adoption)?;
        locks.fill([lease(&lock, &plan, at)]);
        let held = HeldLocks::new(locks, OneOrMany::One(HeldLock::Held(lock)));
        Ok(Acquisition::new(held, None))
    });
    observed(asking, adopted)
}

impl Acquisition {
    fn new(held: HeldLocks, min_hold: Option<Duration>) -> Self {
        Self {
            held,
            others: None,
            min_hold,
            asking: None,
        }
    }

    /// Ready when the call has all its locks, gets a kept result, or is refused.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LockError>> {
        let taken = ready!(self.poll_asking(cx));
        match (self.asking.take(), &taken) {
            (Some(asking), Ok(_)) if self.held.kept().is_some() => asking.replayed(),
            (Some(asking), Ok(now)) => self.held.begin_holding(asking, *now),
            (Some(asking), Err(error)) => asking.refused(error),
            (None, _) => {}
        }
        Poll::Ready(taken.map(drop))
    }

    /// Polls the requests for the locks. When all are taken, returns the current time, if known.
    fn poll_asking(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Instant>, LockError>> {
        let now = match &mut self.others {
            None => ready!(self.held.poll_taken(cx))?,
            Some(others) => {
                self.held.add(ready!(others.as_mut().poll(cx))?);
                self.others = None;
                None
            }
        };
        // Sets `min_hold` only now, because it counts from the start of the body. So it does not
        // keep a lock that the call took and gave back before the call had all its locks.
        if let Some(min_hold) = self.min_hold.take() {
            self.held.keep_min_hold(min_hold);
        }
        Poll::Ready(Ok(now))
    }

    /// Returns the locks. Call this once all are taken.
    pub(crate) fn into_held(self) -> HeldLocks {
        self.held
    }

    /// Takes or enters every lock.
    pub(crate) async fn taken(mut self) -> Result<HeldLocks, LockError> {
        poll_fn(|cx| self.poll(cx)).await?;
        Ok(self.held)
    }
}

/// One lock that a call requests.
struct Want {
    key: FullKey,
    /// The lease of an enclosing call that holds the lock, if any.
    holder: Option<Box<LeaseRef>>,
}

/// Parameters of a call that locks several keys, or that enters a lock of an enclosing call.
struct Taking {
    pool: LockPool,
    plan: Plan,
    at: At,
    label: Label,
    since: Instant,
}

impl Want {
    fn new(pool: &LockPool, lock: &Lock, reentrant: bool) -> Result<Self, LockError> {
        let key = pool.full_key(lock.name());
        let holder = match nesting::standing(pool.id(), &key) {
            // A call is refused if its enclosing call has a share of the lock. An exclusive call
            // would wait for it. A second share could queue behind a writer that waits for it.
            Standing::Inside(holder) if reentrant && (!holder.shared || seeded!(ShareEntered)) => {
                Some(holder)
            }
            Standing::Inside(holder) => {
                return Err(holder.would_deadlock(lock.name()));
            }
            Standing::Lost(error) if reentrant => return Err(error),
            Standing::Lost(_) | Standing::Outside => None,
        };
        Ok(Self { key, holder })
    }
}

pub(crate) fn acquire(
    key: FullKey,
    pool: &LockPool,
    plan: &Plan,
    at: At,
    label: Label,
    budget: Duration,
) -> Acquire {
    Acquire {
        key,
        token: pool.token(),
        function: plan.replay.map_or_else(|| at.function(), |_| at.path()),
        site: at.site(),
        label,
        terms: plan.terms,
        watchdog: plan.watchdog,
        wait: budget,
        cooldown: plan.cooldown,
        share: plan.share,
        min_hold: plan.min_hold,
        replay: plan.replay.map(Box::new),
    }
}

fn lease(lock: &PendingLock, plan: &Plan, at: At) -> LeaseRef {
    let cell = Arc::clone(lock.cell());
    LeaseRef::new(lock.pool_id(), cell, at, plan.share.is_some())
}

impl Taking {
    /// Takes or enters every lock, and then sets the leases in `locks`.
    async fn taken(
        self,
        locks: Locks,
        wants: OneOrMany<Want>,
    ) -> Result<OneOrMany<HeldLock>, LockError> {
        let held = self.all(&wants).await?;
        let leases = wants.iter().zip(held.iter());
        locks.fill(leases.filter_map(|(want, lock)| match lock {
            HeldLock::Entered(_) => want.holder.as_ref().map(|holder| holder.entered()),
            HeldLock::Held(lock) => Some(lease(lock, &self.plan, self.at)),
        }));
        Ok(held)
    }

    async fn all(&self, wants: &[Want]) -> Result<OneOrMany<HeldLock>, LockError> {
        if let Some(held) = self.at_once(wants).await? {
            return Ok(held);
        }
        loop {
            if let Some(held) = self.individually(wants).await? {
                return Ok(held);
            }
        }
    }

    /// Takes all locks with one request. This works only if the store can take them in one step,
    /// every key is free, and no other call of this process waits for one of the keys. Returns none
    /// if the call must take its locks individually.
    async fn at_once(&self, wants: &[Want]) -> Result<Option<OneOrMany<HeldLock>>, LockError> {
        if self.plan.share.is_some() || wants.iter().any(|want| want.holder.is_some()) {
            return Ok(None);
        }
        let acquires = wants.iter().map(|want| self.acquire(want, Duration::ZERO));
        match PendingLock::take_all(&self.pool, acquires, self.plan.wait).await {
            Ok(locks) => Ok(locks.map(|locks| locks.into_iter().map(HeldLock::Held).collect())),
            Err(error) if self.plan.wait.is_zero() => Err(error),
            // Until its `wait` is over, the call can queue for each lock, or wait for the store.
            Err(_) if !self.left().is_zero() => Ok(None),
            Err(LockError::Contended {
                key,
                retry_after,
                holder,
            }) => Err(LockError::TimedOut {
                key,
                waited: self.waited(),
                retry_after,
                holder,
            }),
            Err(error) => Err(error),
        }
    }

    /// Takes the locks individually, in the order of the keys. If one lock cannot be taken, the
    /// locks taken so far are released at once. Returns none if the first leases have become too
    /// old for the body to begin (see `fresh`). The caller then tries again.
    async fn individually(&self, wants: &[Want]) -> Result<Option<OneOrMany<HeldLock>>, LockError> {
        let mut held = OneOrMany::default();
        for want in wants {
            let fresh = self.fresh(&held);
            let lock = match &want.holder {
                Some(holder) => HeldLock::Entered(self.nested_permit(want, holder).await?),
                None => match self.one(want, &held).await? {
                    Some(lock) => HeldLock::Held(lock),
                    None => return Ok(None),
                },
            };
            // Starts again: the first leases grew old while another branch had the permit.
            if want.holder.is_some() && !fresh.is_zero() && self.fresh(&held).is_zero() {
                return Ok(None);
            }
            held.push(lock);
        }
        match held.iter().find(|lock| !lock.cell().is_live()) {
            None => Ok(Some(held)),
            Some(lost) if self.left().is_zero() => Err(lost.cell().lost_error()),
            Some(_) => Ok(None),
        }
    }

    /// Takes the permit to run inside an enclosing call's lock. Waits at most for `nested_wait`.
    async fn nested_permit(
        &self,
        want: &Want,
        holder: &LeaseRef,
    ) -> Result<NestedPermit, LockError> {
        if self.plan.parks {
            return NestedPermit::without_waiting(holder, want.key.name());
        }
        let Some(budget) = self.plan.nested_wait else {
            let permit = NestedPermit::wait(holder, pending()).await?;
            return permit.ok_or_else(|| self.timed_out(want, self.retry_nested(holder)));
        };
        holder.cell.check()?;
        if let Some(permit) = NestedPermit::at_once(holder) {
            return Ok(permit);
        }
        if budget.is_zero() {
            let retry_after = self.retry_nested(holder);
            return Err(LockError::contended(want.key.name(), retry_after));
        }
        let permit = NestedPermit::wait(holder, self.end_of(budget)).await?;
        permit.ok_or_else(|| self.timed_out(want, self.retry_nested(holder)))
    }

    /// Returns `retry_after` for a lock that another branch of the enclosing body has entered.
    /// Without the pool's `retry_hint`, this is at most 1 s: the branch's run time is unknown.
    fn retry_nested(&self, holder: &LeaseRef) -> Duration {
        let unknown = || holder.cell.remaining().min(UNKNOWN);
        self.pool.retry_hint().unwrap_or_else(unknown)
    }

    /// Completes when `budget` is over, counted from the start of the call's acquire.
    async fn end_of(&self, budget: Duration) {
        let (caller, mut woken) = oneshot::channel();
        let at = self.since + budget;
        let engine = self.pool.engine();
        // A stopped engine drops `caller`, which ends this wait. The enclosing lease is over, too.
        let _ = engine.send(Command::Wake { at, caller });
        poll_fn(|cx| {
            // After `at`, the task may be polled for another reason before the engine wakes it.
            if at <= engine.clock().now() {
                return Poll::Ready(());
            }
            Pin::new(&mut woken).poll(cx).map(drop)
        })
        .await;
    }

    /// Takes one lock for a call that already has the locks in `before`. Returns none if the leases
    /// in `before` become too old while the call waits.
    async fn one(
        &self,
        want: &Want,
        before: &[HeldLock],
    ) -> Result<Option<PendingLock>, LockError> {
        let (left, fresh) = (self.left(), self.fresh(before));
        let waits = !self.plan.wait.is_zero();
        if waits && left.is_zero() {
            return Err(self.timed_out(want, self.pool.retry_hint()));
        }
        if waits && fresh.is_zero() {
            return Ok(None);
        }
        let acquire = self.acquire(want, left.min(fresh));
        let mut lock = PendingLock::ask(self.pool.clone(), acquire)?;
        match poll_fn(|cx| lock.poll_taken(cx)).await {
            Ok(_) => Ok(Some(lock)),
            Err(LockError::TimedOut { .. }) if fresh < left => Ok(None),
            // The leases in `before` have become too old while the store was away.
            Err(LockError::Unavailable { .. }) if fresh < left && self.fresh(before).is_zero() => {
                Ok(None)
            }
            Err(mut error) => {
                if let LockError::TimedOut { waited, .. } = &mut error {
                    *waited = self.waited();
                }
                Err(error)
            }
        }
    }

    fn acquire(&self, want: &Want, budget: Duration) -> Acquire {
        let key = want.key.clone();
        acquire(key, &self.pool, &self.plan, self.at, self.label, budget)
    }

    /// Returns the rest of the call's `wait`, which all keys of the call share.
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

    /// Returns the time until the first lease in `held` has less than half its ttl left, which is
    /// too little for a body to begin. With a watchdog, which renews them, there is no limit.
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

    fn timed_out(&self, want: &Want, retry_after: impl Into<Option<Duration>>) -> LockError {
        LockError::timed_out(want.key.name(), self.waited(), retry_after)
    }
}
