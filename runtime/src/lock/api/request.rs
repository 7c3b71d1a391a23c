//! The builder of lock requests. It has the same options as the attribute.

use std::panic::Location;
use std::time::Duration;

use crate::base::label::Label;
use crate::engine::core::ticket::Share;
use crate::lock::call::run::Call;
use crate::lock::nest::call_site::At;
use crate::lock::nest::leases::Locks;
use crate::lock::take::settings::{Beat, Settings};
use crate::pool::LockPool;

impl LockPool {
    /// Creates a request for the lock `key`. The request needs a [`ttl`](LockRequest::ttl). Nothing
    /// is locked before [`acquire`](LockRequest::acquire) or [`run`](LockRequest::run).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// # let pool = leasehold::LockPool::connect("memory://").await?;
    /// let guard = pool.lock("order:42").ttl(Duration::from_secs(10)).acquire().await?;
    /// assert_eq!(guard.key(), "order:42");
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn lock(&self, key: impl Into<String>) -> LockRequest {
        LockRequest::new(self.clone(), vec![key.into()], Location::caller())
    }

    /// Creates a request for several locks, from 1 to 16. The call takes all of them or none.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # async fn example(pool: leasehold::LockPool) -> Result<(), leasehold::LockError> {
    /// let both = pool.lock_all(["account:7", "account:3"]).ttl(Duration::from_secs(10));
    /// let guard = both.acquire().await?;
    /// for (key, fence) in guard.fences() {
    ///     println!("{key} with {fence:?}"); // first account:3, then account:7
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Repeated keys are locked once. If all keys are free, one request takes them. If one key is
    /// not free, that request takes nothing. A call with a `wait` then requests its keys
    /// individually, in their order as strings, so that calls cannot deadlock. If the call cannot
    /// get one of the keys, it releases the keys that it has already taken.
    ///
    /// These calls always request their keys individually:
    ///
    /// - calls on Redlock, and in a cluster if the keys are in several slots
    /// - calls for shares, and calls that enter one key as [`reentrant`](LockRequest::reentrant)
    /// - calls for a key that other calls of this process hold or request
    ///
    /// `wait` is one budget for all keys. One guard holds all keys. As soon as the lease of one key
    /// is over, the guard's lease is over, and a running body is dropped. Every key has its own
    /// [fence](crate::LockGuard::fences).
    ///
    /// A call that requests its keys individually already has leases while it waits for the next
    /// key. Without a watchdog, these leases are not renewed. But the body must begin with at least
    /// half a ttl left. So when less than half a ttl of the first lease is left, the call releases
    /// its keys and starts again, within its `wait`.
    #[track_caller]
    pub fn lock_all<K: Into<String>>(&self, keys: impl IntoIterator<Item = K>) -> LockRequest {
        let keys = keys.into_iter().map(K::into).collect();
        LockRequest::new(self.clone(), keys, Location::caller())
    }
}

/// A request for a lock, created by [`LockPool::lock`] and [`LockPool::lock_all`].
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
#[must_use = "nothing is locked unless `acquire` or `run` is called"]
pub struct LockRequest {
    pub(super) pool: LockPool,
    pub(super) keys: Vec<String>,
    pub(super) at: At,
    pub(super) settings: Settings,
}

impl LockRequest {
    pub(crate) fn new(pool: LockPool, keys: Vec<String>, at: &'static Location<'static>) -> Self {
        Self {
            pool,
            keys,
            at: At::Call(at),
            settings: Settings::default(),
        }
    }

    /// Sets the source location that requests the lock. If this is an annotated function, its path
    /// is a part of the owner, which the store keeps beside the lock.
    pub(crate) fn at(mut self, at: At) -> Self {
        self.at = at;
        self
    }

    /// Sets the time after which the lock expires, counted from its grant or last renewal. So this
    /// is how long the lock outlives a holder that dies. From 100 ms to 24 h. Required.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// # let pool = leasehold::LockPool::connect("memory://").await?;
    /// let error = pool.lock("order:42").acquire().await.unwrap_err();
    /// assert_eq!(error.to_string(), "the lock has no ttl; add `.ttl(Duration::from_secs(10))`");
    ///
    /// let guard = pool.lock("order:42").ttl(Duration::from_secs(10)).acquire().await?;
    /// # Ok(()) }
    /// ```
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.settings.ttl = Some(ttl);
        self
    }

    /// Renews the lease every third of the ttl until the lock is released. Default: not renewed.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # fn example(pool: leasehold::LockPool, ttl: Duration) -> leasehold::LockRequest {
    /// pool.lock("order:42").ttl(ttl).watchdog()
    /// # }
    /// ```
    pub fn watchdog(mut self) -> Self {
        self.settings.watchdog = Some(Beat::Default);
        self
    }

    /// Renews the lease at this interval: at least 10 ms, and less than the ttl minus safety
    /// margins. The lease is given up when the ttl minus these margins has passed since its last
    /// renewal. Default: not renewed.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # fn example(pool: leasehold::LockPool, ttl: Duration) -> leasehold::LockRequest {
    /// pool.lock("order:42").ttl(ttl).watchdog_every(Duration::from_secs(2))
    /// # }
    /// ```
    pub fn watchdog_every(mut self, interval: Duration) -> Self {
        self.settings.watchdog = Some(Beat::Every(interval));
        self
    }

    /// Gives up a lock with a watchdog after this time, even if the lease could be renewed. Must be
    /// at least the ttl. Default: no limit.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # fn example(pool: leasehold::LockPool, ttl: Duration) -> leasehold::LockRequest {
    /// pool.lock("job:invoices").ttl(ttl).watchdog().max_hold(Duration::from_secs(60 * 60))
    /// # }
    /// ```
    pub fn max_hold(mut self, limit: Duration) -> Self {
        self.settings.max_hold = Some(limit);
        self
    }

    /// Keeps the lock at the store for at least this long after it is taken. This applies whether
    /// the call ends by `Ok`, `Err`, a panic or a drop. From 1 ms to 24 h, and without a watchdog
    /// at most the ttl. Default: off, and the lock is free when its call ends.
    ///
    /// Use this for a job that several machines start at the same time. A machine whose clock is
    /// late then finds the lock still taken, even if another machine did the job in a moment.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # async fn example(pool: leasehold::LockPool) -> Result<(), leasehold::LockError> {
    /// # async fn sweep() {}
    /// let minute = Duration::from_secs(60);
    /// let swept = pool.lock("job:sweep").ttl(minute).min_hold(minute / 2).run(sweep()).await;
    /// match swept {
    ///     Err(error) if error.is_contention() => println!("another machine has swept"),
    ///     other => other?,
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The lease and the guard end as usual. For the rest of this time, the store keeps the lock,
    /// and other calls are refused or wait, including those of this process. With several keys,
    /// this time begins when the call has all of them. If the call gives up earlier, it keeps no
    /// lock. Shares and permits are kept in the same way.
    ///
    /// With a watchdog, this time may be longer than the ttl. If the process then dies, the lock is
    /// free after the ttl. If the lease is lost, the store keeps the lock only if no other holder
    /// has it already. A call that enters a lock as [`reentrant`](Self::reentrant) does not keep
    /// it. On `zookeeper://`, each call with this option is refused with
    /// [`LockError::Config`](crate::LockError::Config).
    pub fn min_hold(mut self, min_hold: Duration) -> Self {
        self.settings.min_hold = Some(min_hold);
        self
    }

    /// Takes a share of the lock, as a reader. Many readers can hold the lock together. A call
    /// without this option is a writer, and holds it alone. A reader that arrives while a writer
    /// queues must queue behind the writer. Each reader has a separate lease. Default: exclusive.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// # let pool = leasehold::LockPool::connect("memory://").await?;
    /// # let ttl = Duration::from_secs(10);
    /// let first = pool.lock("catalog").ttl(ttl).shared().acquire().await?;
    /// let second = pool.lock("catalog").ttl(ttl).shared().acquire().await?; // beside the first
    /// let writer = pool.lock("catalog").ttl(ttl).acquire().await;
    /// assert!(writer.unwrap_err().is_contention());
    /// # Ok(()) }
    /// ```
    pub fn shared(mut self) -> Self {
        self.settings.share = Some(Share::Reader);
        self
    }

    /// Takes one of `permits` permits: at most this many calls hold the lock at the same time, each
    /// with a separate lease. All calls for the key should specify the same number. If the numbers
    /// differ, as in a rolling deploy, each call gets a permit if fewer calls than its own number
    /// hold one. Zero fails with [`LockError::Config`](crate::LockError::Config). Default:
    /// exclusive.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// # let pool = leasehold::LockPool::connect("memory://").await?;
    /// # let ttl = Duration::from_secs(10);
    /// let first = pool.lock("partner").ttl(ttl).permits(2).acquire().await?;
    /// let second = pool.lock("partner").ttl(ttl).permits(2).acquire().await?;
    /// let third = pool.lock("partner").ttl(ttl).permits(2).acquire().await;
    /// assert!(third.unwrap_err().is_contention());
    /// # Ok(()) }
    /// ```
    pub fn permits(mut self, permits: u32) -> Self {
        self.settings.share = Some(Share::Permit(permits));
        self
    }

    /// Sets the maximum time to queue for a held lock. This is a hard budget that includes I/O.
    /// Zero tries once. Default: the pool's [`wait`](crate::LockPoolBuilder::wait).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// # let pool = leasehold::LockPool::connect("memory://").await?;
    /// # let ttl = Duration::from_secs(10);
    /// let first = pool.lock("item:7").ttl(ttl).acquire().await?;
    /// let second = pool.lock("item:7").ttl(ttl).wait(Duration::from_secs(5)).acquire();
    /// let (second, released) = tokio::join!(second, first.release());
    /// released?;
    /// assert_eq!(second?.key(), "item:7"); // it queued, and got the lock
    /// # Ok(()) }
    /// ```
    pub fn wait(mut self, wait: Duration) -> Self {
        self.settings.wait = Some(wait);
        self
    }

    /// Enters the lock of the enclosing body, if this call is nested in a body that holds the key.
    /// Without this option, such a call is refused with
    /// [`LockError::WouldDeadlock`](crate::LockError::WouldDeadlock). Entering costs no round trip.
    /// The call runs on the body's lease, with its deadline and fence, regardless of the call's own
    /// `ttl`, `watchdog` and `max_hold`. A call that is not nested takes the lock like any other.
    /// Default: off.
    ///
    /// Calls nested side by side in one body, such as the branches of a `join!`, run one after the
    /// other. Each waits at most for its [`wait`](Self::wait). If neither the call nor the pool has
    /// a wait, it waits as long as the lease lasts.
    ///
    /// A call is nested if the body's future polls it. A call in a spawned task is not nested. Only
    /// [`run`](Self::run) and the attribute make a body. A call made while a
    /// [`LockGuard`](crate::LockGuard) is alive is not nested in the guard's lock, and waits for it
    /// like any other call.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// # let pool = leasehold::LockPool::connect("memory://").await?;
    /// # let ttl = Duration::from_secs(10);
    /// let inner = pool.lock("account:7").ttl(ttl).reentrant().run(async { 1 + 1 });
    /// let sum = pool.lock("account:7").ttl(ttl).run(inner).await??;
    /// assert_eq!(sum, 2);
    /// # Ok(()) }
    /// ```
    pub fn reentrant(mut self) -> Self {
        self.settings.reentrant = true;
        self
    }

    /// Sets the name of this lock in metrics, spans and the log: the template of its key, such as
    /// `order:<id>`. Keys are not used as labels, because there are too many of them, and a key can
    /// contain private data. The first 1,000 labels of a program are counted separately, and later
    /// ones as `other`. Default: `other`.
    ///
    /// The attribute uses the template of its `key`.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # fn example(pool: leasehold::LockPool, id: u64) -> leasehold::LockRequest {
    /// pool.lock(format!("order:{id}")).label("order:<id>").ttl(Duration::from_secs(10))
    /// # }
    /// ```
    pub fn label(mut self, label: &'static str) -> Self {
        self.settings.label = Some(Label::of(label));
        self
    }

    pub(super) fn call(self) -> Call {
        let locks = Locks::checked(self.keys);
        Call::with(self.at, locks, self.settings).pool(&self.pool)
    }
}
