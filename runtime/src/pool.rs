//! Pools: a connection to a lock store and the engine that keeps its locks.

use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::clock::Clock;
pub use crate::engine::ShutdownReport;
use crate::engine::{self, Command, Engine, Limits, Place};
use crate::full_key::FullKey;
use crate::reporter;
use crate::token::{Nonce, Token};
use crate::{CheckReport, LockError, LockRequest, Replicas, installed, key, store};

const DEFAULT_NAMESPACE: &str = "lock";
const DEFAULT_IO_TIMEOUT: Duration = Duration::from_secs(1);
const SHORTEST_IO_TIMEOUT: Duration = Duration::from_millis(1);
const LONGEST_IO_TIMEOUT: Duration = Duration::from_secs(60 * 60);
const DEFAULT_MAX_WAITERS: usize = 1000;
const DEFAULT_MAX_PASSES: u32 = 16;
const DEFAULT_MAKE_WAY_AFTER: Duration = Duration::from_secs(1);
/// Of less, the store's marks would show nothing.
const SHORTEST_MAKE_WAY_AFTER: Duration = Duration::from_millis(10);
/// As long as the longest ttl.
const LONGEST_MAKE_WAY_AFTER: Duration = Duration::from_secs(24 * 60 * 60);
/// So long a shutdown waits for the log at most, beyond its own limit.
const LOG_LIMIT: Duration = Duration::from_millis(100);
/// A server answers so many within a few dozen milliseconds.
const IN_FLIGHT: usize = 4096;

/// A connection to a lock store, and the engine that takes, renews and releases its locks.
///
/// Cheap to clone; all clones are one pool. The engine has a thread of its own and ends when the last clone and
/// the last guard are gone and what is to be released is released. A pool can be kept in a `static` and used
/// from several runtimes, and from executors other than tokio.
///
/// A call writes its request to the server on its own thread. For each connection the pool spawns a
/// task on the tokio runtime of a caller; it hears of the answers to all callers. Where no such
/// runtime can listen, the engine's thread does, which costs one more wake-up. Answers that a
/// blocked runtime leaves unread are read by the engine's thread after about 40 ms. A call never
/// blocks its thread for an answer. It may block for the engine's mutex, usually some 10 µs, and
/// longer if the system preempts the thread that has it. On Linux a thread of lower priority than the
/// engine's (`nice`, `SCHED_IDLE`) never takes it, so that it delays no renewal: it leaves its requests
/// to the engine's thread. That has the priority of the thread that connects the pool.
///
/// A pool does not survive `fork`: the child has its sockets, and not the engine's thread. Connect
/// the child's own pool after the `fork`.
#[derive(Clone)]
pub struct LockPool {
    inner: Arc<Inner>,
}

/// Tells pools apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    /// Whether a shutdown has begun: it takes no new locks, for good.
    shut_down: AtomicBool,
    nonce: Nonce,
    namespace: String,
    wait: Duration,
    /// The store, without its password.
    place: String,
    /// To look at the store.
    target: store::Target,
    options: store::Options,
}

impl LockPool {
    /// Starts the configuration of a pool.
    pub fn builder() -> LockPoolBuilder {
        LockPoolBuilder::default()
    }

    /// Connects to `url` with the defaults; see [`LockPoolBuilder::url`].
    ///
    /// # Errors
    ///
    /// As [`LockPoolBuilder::connect`].
    pub async fn connect(url: &str) -> Result<Self, LockError> {
        Self::builder().url(url).connect().await
    }

    /// Makes this the pool of all annotated functions that name no other. It takes the place of an
    /// installed pool that gives no locks any more: one whose [shutdown](Self::shutdown) has begun, or
    /// whose engine has stopped. Locks that the former pool still holds stay with it.
    ///
    /// # Errors
    ///
    /// [`LockError::Config`] if another pool is installed and gives locks.
    pub fn install(&self) -> Result<(), LockError> {
        installed::install(self.clone())
    }

    /// Makes this the pool of annotated functions with `pool = "name"`, as
    /// [`install`](Self::install) does without a name.
    ///
    /// # Errors
    ///
    /// [`LockError::Config`] if another pool is installed under this name and gives locks.
    pub fn install_as(&self, name: &str) -> Result<(), LockError> {
        installed::install_as(name, self.clone())
    }

    /// Runs `future` with this pool in the place of the installed one, for tests and tenants. It follows the
    /// future, not the thread; a task that the future spawns is outside.
    pub async fn scope<F: Future>(&self, future: F) -> F::Output {
        installed::scope(self.clone(), future).await
    }

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

    /// Looks at the lock store, over a connection of its own, for what keeps locks from working or could break their promise: that
    /// it is a master, its version, the permissions (by a lock's whole life on a key of leasehold's own), the replicas if the pool waits for
    /// them, the eviction policy, persistence, and encryption. The same is logged when a pool connects. It needs no permission
    /// that locks do not need; what could not be looked at is a warning of the code `unchecked`.
    ///
    /// A readiness probe answers [`CheckReport::is_ready`]. Takes at most about three times the pool's `io_timeout`. Works
    /// under every executor. If the future is dropped, the check ends in the background.
    ///
    /// # Errors
    ///
    /// [`LockError::Unavailable`] if the store cannot be reached, or refuses this client.
    pub async fn check(&self) -> Result<CheckReport, LockError> {
        let inner = &self.inner;
        inner.target.clone().check(inner.options.clone()).await
    }

    /// Takes no new locks, refuses calls that wait, waits up to `limit` until all locks are
    /// released, and reports. Locks that are still held then are kept and renewed. What is left to log is logged before
    /// this returns, if the subscriber takes it within 100 ms.
    pub async fn shutdown(&self, limit: Duration) -> ShutdownReport {
        self.finish_shutdown(self.begin_shutdown(limit)).await
    }

    pub(crate) fn begin_shutdown(&self, limit: Duration) -> oneshot::Receiver<ShutdownReport> {
        self.inner.shut_down.store(true, Ordering::Release);
        let (reply, report) = oneshot::channel();
        // A failure drops `reply`, which the receiver sees.
        let _ = self.engine().send(Command::ShutDown { limit, reply });
        report
    }

    pub(crate) async fn finish_shutdown(
        &self,
        begun: oneshot::Receiver<ShutdownReport>,
    ) -> ShutdownReport {
        // An engine that is gone holds nothing.
        let report = begun.await.unwrap_or_default();
        self.log_is_told().await;
        report
    }

    /// Ends when the log and the counters have been told, or after [`LOG_LIMIT`]: a program ends behind its shutdown.
    async fn log_is_told(&self) {
        let (mut told, (caller, mut late)) = (reporter::told(), oneshot::channel());
        let at = self.engine().clock().now() + LOG_LIMIT;
        // An engine that is gone drops `caller`, and with it the limit comes at once.
        let _ = self.engine().send(Command::Wake { at, caller });
        poll_fn(|cx| {
            let ended = Pin::new(&mut told).poll(cx).is_ready();
            let late = Pin::new(&mut late).poll(cx).is_ready();
            if ended || late {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }

    /// Whether it gives no locks any more: it was shut down, or its engine has stopped.
    pub(crate) fn has_ended(&self) -> bool {
        self.inner.shut_down.load(Ordering::Acquire) || self.engine().has_stopped()
    }

    pub(crate) fn id(&self) -> PoolId {
        self.inner.id
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.inner.engine
    }

    pub(crate) fn default_wait(&self) -> Duration {
        self.inner.wait
    }

    /// The key on the server.
    pub(crate) fn full_key(&self, name: &str) -> FullKey {
        FullKey::new(&self.inner.namespace, name)
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

/// Configures a [`LockPool`].
#[derive(Clone)]
#[must_use = "nothing happens before `connect`"]
pub struct LockPoolBuilder {
    url: Option<String>,
    namespace: String,
    wait: Duration,
    limits: Limits,
    replicas: Option<Replicas>,
    #[cfg(feature = "tls")]
    tls: store::redis::Tls,
    place: Place,
}

impl Default for LockPoolBuilder {
    fn default() -> Self {
        Self {
            url: None,
            namespace: DEFAULT_NAMESPACE.to_owned(),
            wait: Duration::ZERO,
            limits: Limits {
                io_timeout: DEFAULT_IO_TIMEOUT,
                max_waiters: DEFAULT_MAX_WAITERS,
                max_passes: DEFAULT_MAX_PASSES,
                longest_turn: None,
                make_way_after: DEFAULT_MAKE_WAY_AFTER,
                in_flight: IN_FLIGHT,
            },
            replicas: None,
            #[cfg(feature = "tls")]
            tls: store::redis::Tls::default(),
            place: Place::Thread,
        }
    }
}

impl LockPoolBuilder {
    /// Where the locks live. Required.
    ///
    /// | URL | store |
    /// |---|---|
    /// | `memory://`, `memory://name` | in this process; pools with the same URL share their locks |
    /// | `redis://[user:pass@]host[:port][/db]` | one Redis or Valkey |
    /// | `rediss://…` | the same over TLS (feature `tls`) |
    /// | `redis+unix:///path` | the same over a Unix socket |
    /// | `redis-sentinel://[user:pass@]h1[:port],h2[:port]/master[?db=0]` | the master that the Sentinels name; the credentials are the \
    /// master's, those of the Sentinels are `?sentinel_user=…&sentinel_password=…` |
    /// | `rediss-sentinel://…` | the same over TLS, to the Sentinels and to the servers that they name (feature `tls`) |
    /// | `redis-cluster://[user:pass@]h1[:port],h2[:port]` | a Redis Cluster, of which these are some nodes; the credentials are those of all |
    /// | `rediss-cluster://…` | the same over TLS (feature `tls`) |
    /// | `redlock://[user:pass@]host[:port],…[/db][?max_ttl=10s&node_timeout=50ms]` | a quorum over independent masters; no fences |
    ///
    /// All but `memory://` take `?replicas=…`; see [`replicas`](Self::replicas).
    pub fn url(mut self, url: impl Into<String>) -> Self {
        self.url = Some(url.into());
        self
    }

    /// The prefix of all keys, `namespace:key` on the server. Default `lock`; `""` is the bare key.
    /// It may not contain `%leasehold`, the word of leasehold's own keys.
    ///
    /// Choose namespaces that do not continue each other: `a` with the key `b:c` and `a:b` with the key `c` are one key on the
    /// server, with two counters for its fences.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// How long calls queue that do not say it themselves. Default zero: they try once.
    ///
    /// Trying once is the default that cannot hurt: a second click that queues runs the order again when the first is
    /// done.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// How long to wait for the store's answer, and for a connection; from 1 ms to 1 h. Default 1 s. A single try ends with
    /// [`LockError::Unavailable`] after it; a call that queues asks again until its `wait` is over.
    pub fn io_timeout(mut self, io_timeout: Duration) -> Self {
        self.limits.io_timeout = io_timeout;
        self
    }

    /// How many replicas must have confirmed an acquisition or a renewal before it counts: `2`, or [`Replicas::All`].
    /// Default: none, so that a fail-over may lose locks that the old master gave just before. In a URL it is `?replicas=2`
    /// or `?replicas=all`; what is said here has precedence.
    ///
    /// The server is asked to wait for them (`WAIT`), for an eighth of the [`io_timeout`](Self::io_timeout) at most. Unless enough
    /// confirm, an acquisition is removed and ends with [`LockError::Unavailable`] of the code `replicas` when the call's time is over, and
    /// a renewal has not taken place. This narrows the gap of a fail-over and does not close it: a replica
    /// without the lock can still be promoted, unless all have it.
    pub fn replicas(mut self, replicas: impl Into<Replicas>) -> Self {
        self.replicas = Some(replicas.into());
        self
    }

    /// The certificate authorities that may vouch for a `rediss://` server, as the content of a PEM file, instead of the system's.
    /// Default: the system's. The server's certificate and name are always verified.
    #[cfg(feature = "tls")]
    #[cfg_attr(docsrs, doc(cfg(feature = "tls")))]
    pub fn tls_ca(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.tls.ca = Some(pem.into());
        self
    }

    /// The certificate and its key that a `rediss://` server asks its clients for, as the contents of PEM files. Default: none.
    #[cfg(feature = "tls")]
    #[cfg_attr(docsrs, doc(cfg(feature = "tls")))]
    pub fn tls_client(
        mut self,
        certificate_pem: impl Into<Vec<u8>>,
        key_pem: impl Into<Vec<u8>>,
    ) -> Self {
        self.tls.client = Some((certificate_pem.into(), key_pem.into()));
        self
    }

    /// How many calls of this process may queue for one key before the next is refused with
    /// [`LockError::QueueFull`]. Default 1,000.
    pub fn max_waiters(mut self, max_waiters: usize) -> Self {
        self.limits.max_waiters = max_waiters;
        self
    }

    /// How often a lock may be passed on from call to call inside this process while other processes queue for it; then it is
    /// their turn. Zero: never. Default 16. While nobody else waits there is no bound.
    ///
    /// A lock that is passed on costs no round trip. A larger number gives more throughput on a hot key, and longer waits in
    /// other processes.
    pub fn max_passes(mut self, max_passes: u32) -> Self {
        self.limits.max_passes = max_passes;
        self
    }

    /// For how long a lock may be passed on inside this process while other processes queue for it. Default: a quarter of
    /// the lock's ttl.
    pub fn longest_turn(mut self, longest_turn: Duration) -> Self {
        self.limits.longest_turn = Some(longest_turn);
        self
    }

    /// After how long of unbroken use a key is left free for clients that are not leasehold's, from
    /// 10 ms to 24 h; [`Duration::ZERO`] for never. Default 1 s.
    ///
    /// Calls that queue hand a lock on to each other, within a process and between processes, so
    /// that it is never free. A client that knows no queue and tries from time to time (redis-py,
    /// redsync, node-redlock, rslock, a shell script) would never get it. So a lock that calls have
    /// handed on for this long is left free for 300 ms, at the end of the section that runs then. A
    /// client that tries at least every 250 ms gets it.
    ///
    /// By default a key that is never free otherwise is left free for 300 ms of every 1.3 s, 23 %.
    /// A call that waits then waits up to 300 ms longer (`docs/reliability/results.md`). A call that does
    /// not queue is refused with [`LockError::Contended`] in a pause. Where every client is
    /// leasehold's, set this to zero in all pools: the pool that releases the lock decides.
    ///
    /// `memory://` has no other clients and makes no pauses. `redlock://` has short ones of its
    /// own, whatever this says. A lock that several hold together (`shared`, `permits`) is not free
    /// while one of them holds it.
    pub fn make_way_after(mut self, make_way_after: Duration) -> Self {
        self.limits.make_way_after = make_way_after;
        self
    }

    /// Runs the engine as a task of the runtime that calls [`connect`](Self::connect), instead of on a thread of its own,
    /// and counts leases on that runtime's clock, so that a test that pauses time drives them; `memory://` is then private to
    /// the pool. For tests only: leases end with that runtime, and a worker that is blocked delays their renewal. Default: off.
    pub fn on_current_runtime(mut self) -> Self {
        self.place = Place::CurrentRuntime;
        self
    }

    /// Connects to the store and starts the engine. The connection is kept up from then on by itself.
    ///
    /// # Errors
    ///
    /// [`LockError::Config`] for a URL or option that is not understood, [`LockError::Unavailable`] if the store cannot be
    /// reached within the `io_timeout` or refuses this client. No text contains the password.
    ///
    /// # Panics
    ///
    /// With [`on_current_runtime`](Self::on_current_runtime), outside of a tokio runtime.
    pub async fn connect(self) -> Result<LockPool, LockError> {
        let target = store::Target::parse(self.url.as_deref().unwrap_or_default());
        self.check()?;
        self.connect_to(target?).await
    }

    pub(crate) async fn connect_to(self, target: store::Target) -> Result<LockPool, LockError> {
        let clock = match self.place {
            Place::Thread => Clock::System,
            Place::CurrentRuntime => Clock::tokio(),
        };
        let place = target.to_string();
        let options = store::Options {
            clock,
            namespace: self.namespace.clone(),
            replicas: self.replicas,
            make_way_after: self.limits.make_way_after,
            #[cfg(feature = "tls")]
            tls: self.tls,
            ..store::Options::new(self.limits.io_timeout)
        };
        let mut limits = self.limits;
        if !target.has_other_clients() {
            limits.make_way_after = Duration::ZERO;
        }
        let connecting = target.clone().connect(options.clone());
        let engine = engine::start(self.place, limits, clock, connecting).await?;
        Ok(LockPool {
            inner: Arc::new(Inner {
                id: PoolId::next(),
                engine,
                shut_down: AtomicBool::new(false),
                nonce: Nonce::new(),
                namespace: self.namespace,
                wait: self.wait,
                place,
                target,
                options,
            }),
        })
    }

    fn check(&self) -> Result<(), LockError> {
        key::check_namespace(&self.namespace)?;
        if !(SHORTEST_IO_TIMEOUT..=LONGEST_IO_TIMEOUT).contains(&self.limits.io_timeout) {
            return Err(LockError::config(
                "an `io_timeout` is between 1 ms and 1 h; the default is 1 s",
            ));
        }
        let after = self.limits.make_way_after;
        if !after.is_zero() && !(SHORTEST_MAKE_WAY_AFTER..=LONGEST_MAKE_WAY_AFTER).contains(&after)
        {
            return Err(LockError::config(
                "`make_way_after` is between 10 ms and 24 h, or zero for never; the default is 1 s",
            ));
        }
        Ok(())
    }
}

impl fmt::Debug for LockPoolBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The URL may contain a password.
        f.debug_struct("LockPoolBuilder")
            .field("namespace", &self.namespace)
            .field("wait", &self.wait)
            .field("limits", &self.limits)
            .field("replicas", &self.replicas)
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}
