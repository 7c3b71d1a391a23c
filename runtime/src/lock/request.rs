//! A lock to take: what the attribute says, as a builder.

use std::future::Future;
use std::panic::Location;
use std::pin::pin;
use std::time::Duration;

use super::acquire::begin;
use super::call_site::At;
use super::detach::run_detached;
use super::gate::{Keep, OnLost, run_inside};
use super::guard::LockGuard;
use super::held::HeldLocks;
use super::leases::Locks;
use super::settings::{Beat, Settings};
use crate::engine::core::ticket::Share;
use crate::error::LockError;
use crate::pool::LockPool;

impl LockPool {
    /// A request for the lock `key`, to be given a ttl and acquired.
    #[track_caller]
    pub fn lock(&self, key: impl Into<String>) -> LockRequest {
        LockRequest::new(self.clone(), vec![key.into()], Location::caller())
    }

    /// A request for several locks, from 1 to 16: all of them or none.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # async fn example(pool: leasehold::LockPool) -> Result<(), leasehold::LockError> {
    /// let guard = pool.lock_all(["account:7", "account:3"]).ttl(Duration::from_secs(10)).acquire().await?;
    /// for (key, fence) in guard.fences() {
    ///     println!("{key} with {fence:?}"); // first account:3, then account:7
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Each key is locked once. Where all are free, one request takes them, and where one is not, that request takes nothing. A call
    /// that waits then asks for one after the other in their order as strings, so that two calls never wait for each other in a circle, and lets
    /// go what it has if one cannot be had; so does every call whose keys are in several slots of a cluster, on Redlock, for shares, or
    /// wanted by other calls of this process. `wait` is one budget for all. There is one guard: its lease
    /// is over when the first of them is, and then the body is dropped. Every key has its own [fence](crate::LockGuard::fences).
    ///
    /// Without a watchdog nobody renews the first leases while the call waits for the others. So that its body begins with at least half a
    /// ttl, a call whose first lease gets older than that begins again, for as long as its `wait` lasts.
    #[track_caller]
    pub fn lock_all<K: Into<String>>(&self, keys: impl IntoIterator<Item = K>) -> LockRequest {
        let keys = keys.into_iter().map(K::into).collect();
        LockRequest::new(self.clone(), keys, Location::caller())
    }
}

/// A lock to take, made by [`LockPool::lock`] and [`LockPool::lock_all`].
///
/// ```no_run
/// # use std::time::Duration;
/// # async fn example(pool: leasehold::LockPool) -> Result<(), leasehold::LockError> {
/// let guard = pool.lock("order:42").ttl(Duration::from_secs(10)).watchdog().acquire().await?;
/// println!("fence {:?}", guard.fence());
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "nothing is locked before `acquire` or `run`"]
pub struct LockRequest {
    pool: LockPool,
    keys: Vec<String>,
    at: &'static Location<'static>,
    settings: Settings,
}

impl LockRequest {
    pub(crate) fn new(pool: LockPool, keys: Vec<String>, at: &'static Location<'static>) -> Self {
        Self {
            pool,
            keys,
            at,
            settings: Settings::default(),
        }
    }

    /// How long the lock outlives a holder that dies, from 100 ms to 24 h. Required.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.settings.ttl = Some(ttl);
        self
    }

    /// Renews the lease every third of the ttl until the guard is dropped. Default: not renewed.
    pub fn watchdog(mut self) -> Self {
        self.settings.watchdog = Some(Beat::Default);
        self
    }

    /// Renews the lease at this interval, which must be shorter than the time after which a lease without
    /// renewal is given up (the ttl less its safety margins).
    pub fn watchdog_every(mut self, interval: Duration) -> Self {
        self.settings.watchdog = Some(Beat::Every(interval));
        self
    }

    /// With a watchdog: gives the lock up after this long, however healthy it is. At least the ttl. Default: no bound.
    pub fn max_hold(mut self, limit: Duration) -> Self {
        self.settings.max_hold = Some(limit);
        self
    }

    /// Takes a share of the lock: many readers, or one that takes the lock without this. A reader that comes while a writer
    /// queues, queues behind it. Each reader has a lease of its own. Default: exclusive.
    pub fn shared(mut self) -> Self {
        self.settings.share = Some(Share::Reader);
        self
    }

    /// Takes one of `permits` places; each has a lease of its own. All that use the key must say the same number: with a smaller
    /// one than others who are inside, or with zero, the call fails with [`LockError::Config`]. Default: exclusive.
    pub fn permits(mut self, permits: u32) -> Self {
        self.settings.share = Some(Share::Permit(permits));
        self
    }

    /// How long to queue for a lock that is held; a hard budget, I/O included. Zero tries once. Default:
    /// the pool's.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.settings.wait = Some(wait);
        self
    }

    /// If this call is nested in a body that holds the key, enters that body's lock instead of being refused with
    /// [`LockError::WouldDeadlock`]: with no round trip, on the lease of the body, with its deadline and fence, whatever `ttl`,
    /// `watchdog` and `max_hold` say here. Calls that are nested side by side in one body, as branches of a `join!`, take turns:
    /// each waits for as long as its [`wait`](Self::wait) says, and where neither it nor the pool has one, for as long as the lease
    /// lasts. Elsewhere the call takes the lock as any other. Default: off.
    ///
    /// Nested is what the body's future polls, and not what it spawns. Only [`run`](Self::run) and the attribute make
    /// a body: what is called while a [`LockGuard`] is alive is not nested in it, and waits for it.
    pub fn reentrant(mut self) -> Self {
        self.settings.reentrant = true;
        self
    }

    /// Takes the lock; of several keys all or none.
    ///
    /// Cancel safe: a dropped future leaves no place in the queue and no lock. Nothing need have been asked when the first poll returns: now and
    /// then a call lets the other tasks of its runtime go first, within its wait.
    ///
    /// # Errors
    ///
    /// [`LockError::Contended`], [`LockError::TimedOut`] or [`LockError::QueueFull`] if others have it,
    /// [`LockError::Unavailable`] if the store does not serve, [`LockError::InvalidKey`], [`LockError::ShuttingDown`],
    /// [`LockError::WouldDeadlock`] if this call is nested in a body that holds the key,
    /// and [`LockError::Config`] for a ttl, interval, `max_hold` or number of keys that is not possible.
    pub async fn acquire(self) -> Result<LockGuard, LockError> {
        self.take().await.map(LockGuard::new)
    }

    /// Runs `body` inside the lock: it is polled only while the lease lasts, dropped if the lease is lost, and the
    /// lock is released when it ends, panics, or this future is dropped.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire), and [`LockError::Lost`] if the lease was lost before the body's end.
    pub async fn run<F: Future>(self, body: F) -> Result<F::Output, LockError> {
        let body = pin!(Some(body));
        run_inside(self.take().await?, body, OnLost::Cancel, None).await
    }

    /// As [`run`](Self::run), and if the body returns `Ok` the lock stays for `hold` from then on, by the store's clock: who tries meanwhile
    /// is refused, with that time in `retry_after`. For a second click that comes after the first one is done. After `Err`, a panic or a
    /// loss, and when this future is dropped, the lock is released at once.
    ///
    /// A call that enters a lock as [`reentrant`](Self::reentrant) does not keep it.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run), and [`LockError::Config`] for a `hold` of less than a millisecond or more than 24 h, and for a share of a
    /// lock.
    pub async fn run_then_hold<T, E, F>(
        mut self,
        hold: Duration,
        body: F,
    ) -> Result<Result<T, E>, LockError>
    where
        F: Future<Output = Result<T, E>>,
    {
        self.settings.hold = Some(hold);
        let body = pin!(Some(body));
        let good = Result::is_ok;
        let keep = Some(Keep { hold, good });
        run_inside(self.take().await?, body, OnLost::Cancel, keep).await
    }

    /// As [`run`](Self::run), and the body runs to its end even if this future is dropped: inside the lock, which is
    /// then released. Once the lock is held the body is a task of the caller's tokio runtime.
    ///
    /// Cancel safe while it waits for the lock: nothing runs then. A body that panics does so in the caller, if it is still there. The
    /// task is in the present tracing span and [`LockPool::scope`]; it is nested in no lock but its own. A call that
    /// enters a lock as [`reentrant`](Self::reentrant) is a part of that body, and ends with it.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run); [`LockError::Config`] outside of a tokio runtime; [`LockError::Lost`] also if the runtime shut down before the
    /// body's end.
    pub async fn run_detached<F>(self, body: F) -> Result<F::Output, LockError>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        run_detached(self.take(), body, OnLost::Cancel, None).await
    }

    async fn take(self) -> Result<HeldLocks, LockError> {
        let locks = Locks::checked(self.keys)?;
        let begun = begin(self.pool, &locks, &self.settings, At::Call(self.at))?;
        begun.taken(locks).await
    }
}
