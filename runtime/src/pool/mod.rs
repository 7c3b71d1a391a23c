//! Pools. A pool is a connection to a lock store, with the engine that takes, renews and releases
//! its locks.

pub(crate) mod builder;
pub(crate) mod fairness;
pub(crate) mod installed;
mod log_keys;
pub(crate) mod look;
#[cfg(feature = "replay")]
mod replay;
pub(crate) mod scope;

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::{oneshot, watch};

use self::look::observer::Observer;
use crate::base::full_key::FullKey;
use crate::base::reporter;
use crate::base::token::{Nonce, Token};
use crate::check_report::CheckReport;
use crate::engine::core::drain::ShutdownReport;
use crate::engine::core::ticket::TicketId;
use crate::engine::driver::command::Command;
use crate::engine::driver::handle::Engine;
use crate::engine::driver::observer::Watch;
use crate::engine::wakers::guarded;
use crate::error::LockError;
use crate::store::backend::Target;
use crate::store::options::Options;

/// Maximum time for which a shutdown waits for the delivery of log events, in addition to the
/// caller's `limit`. The time is short, because the program's subscriber may be blocked.
const LOG_LIMIT: Duration = Duration::from_millis(100);

/// A connection to a lock store, and the engine that takes, renews and releases its locks.
///
/// Cheap to clone. All clones are the same pool, so their locks exclude each other on every store,
/// even on `memory://`. The engine runs on a separate thread. It ends when the last clone and the
/// last guard are dropped and all releases are done. A pool can be stored in a `static`, and used
/// from several runtimes and from executors other than tokio.
///
/// A call writes its request to the server on the caller's thread, and does not block that thread
/// while it waits for the answer. For each connection, the pool spawns a listener on the tokio
/// runtime of a caller. The listener is a task that reads the answers for all callers. If no caller
/// has a runtime that can run a listener, the engine's thread reads the answers, which costs one
/// more wake-up. If a blocked runtime leaves answers unread, the engine's thread reads them after
/// about 40 ms.
///
/// A call may block on the engine's mutex: usually for about 10 µs, and longer if the system
/// preempts the thread that has the mutex. On Linux, a thread with a higher nice value than the
/// engine's thread never takes the mutex, because it could delay renewals. Such a thread leaves its
/// requests to the engine's thread. The nice value of a thread is read when the thread first uses a
/// pool. The engine's thread has the nice value of the thread that connects the pool. Scheduling
/// classes, such as `SCHED_IDLE`, are ignored.
///
/// A pool does not survive a `fork`: the child process has its sockets, but not the engine's
/// thread. Connect a new pool in the child after the `fork`.
///
/// ```
/// use std::time::Duration;
///
/// use leasehold::LockPool;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::LockError> {
/// let pool = LockPool::connect("memory://").await?;
/// let clone = pool.clone(); // the same pool
///
/// let ttl = Duration::from_secs(10);
/// let guard = pool.lock("order:42").ttl(ttl).acquire().await?;
/// let second = clone.lock("order:42").ttl(ttl).acquire().await;
/// assert!(second.unwrap_err().is_contention());
/// guard.release().await?;
/// # Ok(()) }
/// ```
///
/// # Keys on the server
///
/// In this table, `order:42` stands for any key, and `lock` for the pool's
/// [namespace](crate::LockPoolBuilder::namespace). With an empty namespace, `lock:` is missing in
/// all these keys.
///
/// | key | what it holds |
/// |---|---|
/// | `lock:order:42` | the lock: a string that begins with a random token, and expires with the lease |
/// | `lock:%leasehold:fence` | the counter of the fences, one for all locks of the namespace |
/// | `lock:%leasehold:queue:lock:order:42` | the processes that queue for the lock, while it is in use |
/// | `lock:%leasehold:shares:lock:order:42` | the calls that share the lock, while there are any |
/// | `lock:%leasehold:owner:…:lock:order:42` | the owner of a share, or of a queued process |
/// | `lock:%leasehold:result:lock:order:42` | the results that calls with `replay` kept; it expires |
/// | `lock:%leasehold:ready:…` | the lock that [`ready`](LockPool::ready) takes and releases |
/// | `lock:%leasehold:check:…` | a key on which a pool tries its scripts when it connects; it expires soon |
///
/// In a cluster, the keys with `%leasehold` have a hash tag, so that each is in the slot of its
/// lock. Each slot has one counter of fences. A quorum (`redlock://`) has only the lock's key, on
/// each node. The channel `lock:%leasehold:turn:`, followed by a random name, notifies a waiting
/// process that it can take a lock. In a value inserted into a key's template, `%`, `:`, `{`, `}`,
/// white space and control characters are percent-encoded: see [`encode`](crate::encode).
///
/// # Metrics
///
/// With the feature `metrics`, the pool reports these metrics through the crate `metrics`:
///
/// | metric | kind | labels |
/// |---|---|---|
/// | `leasehold_acquire_seconds` | histogram | `lock`; `outcome`: `granted`, `entered`, `replayed`, `contended`, `timed_out`, `queue_full`, `unavailable`, `shutting_down`, `mismatch`, `dropped`, `other` |
/// | `leasehold_held_seconds` | histogram | `lock`; `end`: `released`, `lost`, `dropped`, `panicked` |
/// | `leasehold_held` | gauge | `lock` |
/// | `leasehold_waiting` | gauge | `lock` |
/// | `leasehold_lost_total` | counter | `lock` |
/// | `leasehold_renewals_total` | counter | `outcome`: `renewed`, `lost`, `failed` |
/// | `leasehold_store_request_seconds` | histogram | `store`; `op`: `acquire`, `renew`, `release`, `leave` |
/// | `leasehold_store_up` | gauge | `store` |
/// | `leasehold_acquisitions_total` | counter | `outcome`: `granted`, `contended`, `timed_out`, `queue_full`, `unavailable`, `shutting_down`, `other` |
/// | `leasehold_leases_lost_total` | counter | |
/// | `leasehold_releases_total` | counter | `confirmed`: `true`, `false` |
///
/// `lock` is the template of a call's keys, such as `order:<id>`. For a lock taken without the
/// attribute, it is the lock's [label](crate::LockRequest::label), or else `other`. Keys are not
/// used as labels, because there are too many of them, and a key can contain private data. The last
/// three metrics count each lock of a call, and have no label `lock`.
/// [Monitoring](crate::guide::monitoring) explains each metric, and has a dashboard and alerts.
///
/// # Spans
///
/// With `tracing`, each call has the span `leasehold::acquire` until it has its locks, and
/// `leasehold::held` around its body. Their fields are `lock.template`, `lock.fence`,
/// `lock.waited_ms` and `lock.outcome`, and with
/// [`log_keys`](crate::LockPoolBuilder::log_keys) also `lock.key`.
#[derive(Clone)]
pub struct LockPool {
    inner: Arc<Inner>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PoolId(u64);

impl PoolId {
    fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

struct Inner {
    id: PoolId,
    engine: Engine,
    watch: Option<Arc<dyn Watch>>,
    /// True after a shutdown has begun. The pool then takes no new locks.
    shut_down: watch::Sender<bool>,
    nonce: Nonce,
    namespace: String,
    wait: Duration,
    retry_hint: Option<Duration>,
    log_keys: bool,
    #[cfg(feature = "replay")]
    replay_limit: usize,
    /// True if the engine has a dedicated thread.
    own_thread: bool,
    /// The store's URL without its password.
    place: String,
    /// The kind of store and its address. `check` opens a separate connection to it.
    target: Target,
    options: Options,
    /// Used by `inspect`, `locks` and `force_release`.
    observer: Observer,
}

impl LockPool {
    /// Checks the lock store, over a separate connection, for problems that prevent locks from
    /// working or could break their guarantees:
    ///
    /// - the role of the server, which must be a master, and the server's version
    /// - the permissions: the check takes, renews and releases a lock on one of leasehold's own
    ///   keys
    /// - the replicas, if the pool waits for them
    /// - the eviction policy, persistence, and encryption
    ///
    /// A pool logs the same findings when it connects. The check needs only the permissions that
    /// locks need. If something could not be checked, the report has a warning with the code
    /// `unchecked`.
    ///
    /// A readiness probe should call [`ready`](Self::ready), which costs less. The check takes at
    /// most about three times the pool's `io_timeout`, and works with every executor. If the future
    /// is dropped, the check ends in the background.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// # let pool = leasehold::LockPool::connect("memory://").await?;
    /// let report = pool.check().await?;
    /// println!("{report}");
    /// assert!(report.is_ready());
    /// assert!(report.find("one-process").is_some()); // what `memory://` cannot do
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`LockError::Unavailable`] if the store cannot be reached, or refuses this client.
    pub async fn check(&self) -> Result<CheckReport, LockError> {
        let inner = &self.inner;
        inner.target.check(inner.options.clone()).await
    }

    /// Shuts the pool down. The pool takes no new locks and refuses waiting calls. This method
    /// waits until all locks are released, but at most for `limit`, and returns a report. Locks
    /// still held when `limit` is over are kept and renewed. The last log events are delivered
    /// before this method returns, if the subscriber takes them within 100 ms.
    ///
    /// Once this future is polled, the shutdown continues even if the future is dropped.
    ///
    /// ```
    /// # use leasehold::LockError;
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// # let pool = leasehold::LockPool::connect("memory://").await?;
    /// # let ttl = Duration::from_secs(10);
    /// let guard = pool.lock("order:42").ttl(ttl).acquire().await?;
    /// guard.release().await?;
    ///
    /// let report = pool.shutdown(Duration::from_secs(5)).await;
    /// assert_eq!(report.still_held, 0);
    /// let late = pool.lock("order:42").ttl(ttl).acquire().await;
    /// assert_eq!(late.unwrap_err(), LockError::ShuttingDown);
    /// # Ok(()) }
    /// ```
    pub async fn shutdown(&self, limit: Duration) -> ShutdownReport {
        self.finish_shutdown(self.begin_shutdown(limit)).await
    }

    pub(crate) fn begin_shutdown(&self, limit: Duration) -> oneshot::Receiver<ShutdownReport> {
        guarded(|| {
            self.inner.shut_down.send_replace(true);
        });
        let (reply, report) = oneshot::channel();
        // If the engine has stopped, `reply` is dropped. `finish_shutdown` then gets an error from
        // `report`.
        let _ = self.engine().send(Command::ShutDown { limit, reply });
        report
    }

    pub(crate) async fn finish_shutdown(
        &self,
        begun: oneshot::Receiver<ShutdownReport>,
    ) -> ShutdownReport {
        // A stopped engine holds no locks, so its report is empty.
        let report = begun.await.unwrap_or_default();
        self.flush_log().await;
        report
    }

    /// Waits until all log events and metrics reported so far are delivered, at most for
    /// [`LOG_LIMIT`]. Otherwise, they could be lost if the program ends right after the shutdown.
    async fn flush_log(&self) {
        let (mut delivered, (caller, mut late)) = (reporter::delivered(), oneshot::channel());
        let at = self.engine().clock().now() + LOG_LIMIT;
        // The engine wakes `caller` at the time `at`. A stopped engine drops `caller`. Both end the
        // wait.
        let _ = self.engine().send(Command::Wake { at, caller });
        poll_fn(|cx| {
            let ended = Pin::new(&mut delivered).poll(cx).is_ready();
            let late = Pin::new(&mut late).poll(cx).is_ready();
            if ended || late {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }

    /// True if the pool no longer takes locks: it was shut down, or its engine has stopped.
    pub(crate) fn has_ended(&self) -> bool {
        self.is_shutting_down() || self.engine().has_stopped()
    }

    pub(crate) fn is_shutting_down(&self) -> bool {
        *self.inner.shut_down.borrow()
    }

    /// Waits until a shutdown begins.
    pub(crate) async fn shutdown_begins(&self) {
        let mut shut_down = self.inner.shut_down.subscribe();
        // An error is impossible, because this pool owns the sender.
        let _ = shut_down.wait_for(|begun| *begun).await;
    }

    /// True if the engine has a dedicated thread, so that it runs even while all other threads are
    /// parked.
    pub(crate) fn has_own_thread(&self) -> bool {
        self.inner.own_thread
    }

    /// True if the test kit (`leasehold::testing`) simulates the loss of the lock of `ticket` after
    /// `polls` polls of the body. The kit's store takes the lock away when the engine next polls
    /// it.
    pub(crate) fn loses(&self, ticket: TicketId, polls: u32) -> bool {
        let watch = self.inner.watch.as_ref();
        watch.is_some_and(|watch| watch.polled(ticket, polls))
    }

    pub(crate) fn id(&self) -> PoolId {
        self.inner.id
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.inner.engine
    }

    pub(crate) fn observer(&self) -> &Observer {
        &self.inner.observer
    }

    pub(crate) fn default_wait(&self) -> Duration {
        self.inner.wait
    }

    pub(crate) fn retry_hint(&self) -> Option<Duration> {
        self.inner.retry_hint
    }

    /// True if spans show keys.
    pub(crate) fn logs_keys(&self) -> bool {
        self.inner.log_keys
    }

    /// Returns the lock's key on the server: `name` with the pool's namespace.
    pub(crate) fn full_key(&self, name: &str) -> FullKey {
        FullKey::new(&self.inner.namespace, name)
    }

    /// Returns the store's URL without its password.
    pub(crate) fn store_name(&self) -> &str {
        &self.inner.place
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.inner.namespace
    }

    /// Returns the maximum length of a kept result, in bytes.
    #[cfg(feature = "replay")]
    pub(crate) fn replay_limit(&self) -> usize {
        self.inner.replay_limit
    }

    /// Returns an error if the store cannot keep a lock after its release (`cooldown`, `min_hold`),
    /// because its locks end with their process.
    pub(crate) fn can_keep(&self) -> Result<(), LockError> {
        self.inner.target.can_keep()
    }

    /// Returns an error if locks cannot be handed over to other processes, because the store cannot
    /// replace a lock's token in one step.
    pub(crate) fn can_hand_over(&self) -> Result<(), LockError> {
        self.inner.target.can_hand_over()
    }

    pub(crate) fn token(&self) -> Token {
        Token::random(self.inner.nonce)
    }
}

impl fmt::Debug for LockPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockPool")
            .field("store", &self.inner.place)
            .field("namespace", &self.inner.namespace)
            .field("wait", &self.inner.wait)
            .finish_non_exhaustive()
    }
}
