//! Taking the locks of a call: all of them or none.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;

use crate::clock::Instant;
use crate::engine::{Order, Slot};
use crate::hold::Hold;
use crate::locks::{Lease, Lock, Locks, any_over};
use crate::path::{self, Standing};
use crate::request::{Plan, Settings};
use crate::site::At;
use crate::{LockError, LockPool};

/// The locks of a call, held. Dropping it releases those that the call has taken itself.
pub(crate) struct Taken {
    locks: Locks,
    places: Vec<Place>,
}

/// How a call came to one of its locks.
enum Place {
    /// It took the lock.
    Held(Hold),
    /// It is nested in a call that holds the lock, and it is its turn.
    Entered(Turn),
}

struct Turn {
    slot: Arc<Slot>,
    _permit: OwnedSemaphorePermit,
}

impl Place {
    fn slot(&self) -> &Arc<Slot> {
        match self {
            Self::Held(hold) => hold.slot(),
            Self::Entered(turn) => &turn.slot,
        }
    }
}

impl Taken {
    pub(crate) fn locks(&self) -> &Locks {
        &self.locks
    }

    /// Whether a call further out holds one of the locks: then this call is a part of that one.
    pub(crate) fn is_nested(&self) -> bool {
        self.entered().next().is_some()
    }

    /// Wakes this task when a lease that the call has taken itself is lost.
    pub(crate) fn register(&self, cx: &Context<'_>) {
        for place in &self.places {
            if let Place::Held(hold) = place {
                hold.slot().register(cx);
            }
        }
    }

    /// Ends when a lease that the call has entered is over. Its slot wakes one task, which is that of the call further out;
    /// this call may be polled by another, in a `FuturesUnordered` for example.
    pub(crate) fn left(&self) -> Option<Pin<Box<dyn Future<Output = ()> + Send + '_>>> {
        if !self.is_nested() {
            return None;
        }
        Some(Box::pin(any_over(self.entered().map(|turn| &turn.slot))))
    }

    /// Makes shares of the locks.
    pub(crate) async fn downgrade(&self) -> Result<(), LockError> {
        for place in &self.places {
            match place {
                Place::Held(hold) => hold.downgrade().await?,
                Place::Entered(_) => {
                    return Err(LockError::config(
                        "a lock that a nested call has entered belongs to the call further out, which alone can share it; \
                         take the lock where it is to be downgraded",
                    ));
                }
            }
        }
        Ok(())
    }

    /// Releases what the call has taken itself and waits for the store's answers, at most ttl/10 and 1 s.
    ///
    /// Cancel safe: all releases have been asked for before the first wait.
    pub(crate) async fn release(mut self) {
        for place in &mut self.places {
            if let Place::Held(hold) = place {
                hold.begin_release();
            }
        }
        for place in &self.places {
            if let Place::Held(hold) = place {
                hold.released().await;
            }
        }
    }

    fn entered(&self) -> impl Iterator<Item = &Turn> {
        self.places.iter().filter_map(|place| match place {
            Place::Entered(turn) => Some(turn),
            Place::Held(_) => None,
        })
    }
}

/// Takes or enters every lock.
///
/// Cancel safety: what was got is let go when this future is dropped.
pub(crate) async fn take(
    pool: LockPool,
    locks: Locks,
    settings: &Settings,
    at: At,
) -> Result<Taken, LockError> {
    let taking = Taking {
        plan: settings.plan(&pool)?,
        owner: pool.owner(at.function()),
        since: pool.engine().clock().now(),
        pool,
    };
    let wants: Vec<Want> = locks
        .iter()
        .map(|lock| taking.want(lock, settings.reentrant))
        .collect::<Result<_, _>>()?;
    let places = taking.all(&wants).await?;
    let leases = wants.into_iter().zip(&places).map(|(want, place)| {
        let slot = Arc::clone(place.slot());
        let shared = taking.plan.share.is_some();
        want.holder.map_or_else(
            || Lease::new(taking.pool.id(), want.key, slot, at, shared),
            |holder| holder.entered(),
        )
    });
    locks.fill(leases);
    Ok(Taken { locks, places })
}

/// One lock that a call wants.
struct Want {
    name: Arc<str>,
    key: Arc<str>,
    /// The lease of the call further out that holds it.
    holder: Option<Arc<Lease>>,
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
    owner: Arc<str>,
    since: Instant,
}

impl Taking {
    fn want(&self, lock: &Lock, reentrant: bool) -> Result<Want, LockError> {
        let key = self.pool.full_key(lock.name());
        let holder = match path::standing(self.pool.id(), &key) {
            // A share is not entered: the key may be waited for by a writer, and two shares are not one.
            Standing::Inside(holder) if reentrant && !holder.shared => Some(holder),
            Standing::Inside(holder) => {
                return Err(LockError::WouldDeadlock {
                    key: lock.name().as_ref().to_owned(),
                    held_at: holder.at.to_string(),
                });
            }
            Standing::Lost(error) if reentrant => return Err(error),
            Standing::Lost(_) | Standing::Outside => None,
        };
        Ok(Want {
            name: Arc::clone(lock.name()),
            key,
            holder,
        })
    }

    async fn all(&self, wants: &[Want]) -> Result<Vec<Place>, LockError> {
        loop {
            match self.one_by_one(wants).await {
                Ok(places) => return Ok(places),
                Err(Setback::Failed(error)) => return Err(error),
                Err(Setback::Stale) => {}
            }
        }
    }

    /// In the order of the keys. If one of them cannot be had, those before it are let go: a release that is asked for now is
    /// carried out before whatever this process asks for next.
    async fn one_by_one(&self, wants: &[Want]) -> Result<Vec<Place>, Setback> {
        let mut places = Vec::with_capacity(wants.len());
        for want in wants {
            let place = match &want.holder {
                Some(holder) => Place::Entered(turn(holder).await?),
                None => Place::Held(self.one(want, &places).await?),
            };
            places.push(place);
        }
        match places.iter().find(|place| !place.slot().is_live()) {
            None => Ok(places),
            Some(lost) if self.left().is_zero() => Err(lost.slot().lost_error().into()),
            Some(_) => Err(Setback::Stale),
        }
    }

    async fn one(&self, want: &Want, before: &[Place]) -> Result<Hold, Setback> {
        let (left, fresh) = (self.left(), self.fresh(before));
        let waits = !self.plan.wait.is_zero();
        if waits && left.is_zero() {
            return Err(self.timed_out(want).into());
        }
        if waits && fresh.is_zero() {
            return Err(Setback::Stale);
        }
        let order = self.order(want, left.min(fresh));
        match Hold::take(self.pool.clone(), Slot::new(Arc::clone(&want.name)), order).await {
            Err(LockError::TimedOut { .. }) if fresh < left => Err(Setback::Stale),
            Err(LockError::TimedOut { .. }) => Err(self.timed_out(want).into()),
            other => other.map_err(Setback::Failed),
        }
    }

    fn order(&self, want: &Want, budget: Duration) -> Order {
        Order {
            key: Arc::clone(&want.key),
            name: Arc::clone(&want.name),
            token: self.pool.token(),
            owner: Arc::clone(&self.owner),
            terms: self.plan.terms,
            watchdog: self.plan.watchdog,
            wait: budget,
            share: self.plan.share,
        }
    }

    /// What is left of the call's one budget.
    fn left(&self) -> Duration {
        let waited = self.waited();
        self.plan.wait.saturating_sub(waited)
    }

    fn waited(&self) -> Duration {
        self.pool.engine().clock().now().since(self.since)
    }

    /// How long the leases that the call has by now may still age: nobody renews them without a watchdog, and the body is to
    /// begin with at least half a ttl.
    fn fresh(&self, places: &[Place]) -> Duration {
        let own = places
            .iter()
            .filter(|place| matches!(place, Place::Held(_)));
        let least = own.map(|place| place.slot().remaining()).min();
        match least {
            Some(least) if self.plan.watchdog.is_none() => {
                least.saturating_sub(self.plan.terms.ttl() / 2)
            }
            _ => Duration::MAX,
        }
    }

    fn timed_out(&self, want: &Want) -> LockError {
        LockError::TimedOut {
            key: want.name.as_ref().to_owned(),
            waited: self.waited(),
        }
    }
}

/// Waits for the turn of a nested call, as long as the lease lasts.
async fn turn(holder: &Lease) -> Result<Turn, LockError> {
    let mut turn = pin!(holder.turns().acquire_owned());
    let mut over = pin!(holder.slot.over());
    let permit = poll_fn(|cx| {
        if over.as_mut().poll(cx).is_ready() {
            return Poll::Ready(None);
        }
        // Nobody closes the semaphore.
        turn.as_mut().poll(cx).map(Result::ok)
    });
    let permit = permit.await.ok_or_else(|| holder.slot.lost_error())?;
    Ok(Turn {
        slot: Arc::clone(&holder.slot),
        _permit: permit,
    })
}
