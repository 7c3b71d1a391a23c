//! The configuration of a pool.

use std::fmt;
#[cfg(feature = "testing")]
use std::sync::Arc;
use std::time::Duration;

use super::LockPool;
use crate::engine::core::signal::Limits;
#[cfg(feature = "testing")]
use crate::engine::driver::observer::Watch;
use crate::engine::driver::thread::Place;
use crate::error::LockError;
use crate::replicas::Replicas;
#[cfg(feature = "tls")]
use crate::store::tls::Tls;

mod connect;

const DEFAULT_NAMESPACE: &str = "lock";
const DEFAULT_IO_TIMEOUT: Duration = Duration::from_secs(1);
const DEFAULT_MAX_WAITERS: usize = 1000;
const DEFAULT_MAX_PASSES: u32 = 16;
const DEFAULT_MAKE_WAY_AFTER: Duration = Duration::from_secs(1);
/// The longest result, in bytes. What a page shows is far smaller.
#[cfg(feature = "replay")]
const DEFAULT_REPLAY_LIMIT: usize = 64 * 1024;
/// A server answers so many requests within a few dozen milliseconds.
const IN_FLIGHT: usize = 4096;

impl LockPool {
    /// Starts the configuration of a pool.
    ///
    /// ```
    /// let builder = leasehold::LockPool::builder().url("redis://127.0.0.1/").namespace("shop");
    /// ```
    pub fn builder() -> LockPoolBuilder {
        LockPoolBuilder::default()
    }

    /// Connects to `url` with the defaults; see [`LockPoolBuilder::url`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// let pool = leasehold::LockPool::connect("memory://").await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`LockPoolBuilder::connect`].
    pub async fn connect(url: &str) -> Result<Self, LockError> {
        Self::builder().url(url).connect().await
    }
}

/// Configures a [`LockPool`].
///
/// ```no_run
/// # async fn example() -> Result<(), leasehold::LockError> {
/// use std::time::Duration;
///
/// use leasehold::LockPool;
///
/// let pool = LockPool::builder()
///     .url("redis://127.0.0.1/")
///     .namespace("shop")
///     .wait(Duration::from_secs(2))
///     .connect()
///     .await?;
/// pool.install()?; // annotated functions use it from now on
/// # Ok(()) }
/// ```
#[derive(Clone)]
#[must_use = "nothing happens before `connect`"]
pub struct LockPoolBuilder {
    url: Option<String>,
    namespace: String,
    wait: Duration,
    limits: Limits,
    replicas: Option<Replicas>,
    #[cfg(feature = "replay")]
    pub(super) replay_limit: usize,
    #[cfg(feature = "tls")]
    tls: Tls,
    place: Place,
    pub(super) log_keys: bool,
    #[cfg(feature = "testing")]
    watch: Option<Arc<dyn Watch>>,
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
                retry_hint: None,
                in_flight: IN_FLIGHT,
            },
            replicas: None,
            #[cfg(feature = "replay")]
            replay_limit: DEFAULT_REPLAY_LIMIT,
            #[cfg(feature = "tls")]
            tls: Tls::default(),
            place: Place::Thread,
            log_keys: false,
            #[cfg(feature = "testing")]
            watch: None,
        }
    }
}

impl LockPoolBuilder {
    /// Where the locks live. Required.
    ///
    /// | URL | store |
    /// |---|---|
    /// | `memory://` | in this process, private to the pool |
    /// | `memory://name` | in this process; all pools of the name share their locks |
    /// | `redis://[user:pass@]host[:port][/db]` | one Redis or Valkey |
    /// | `rediss://…` | the same over TLS (feature `tls`) |
    /// | `redis+unix:///path` | the same over a Unix socket |
    /// | `redis-sentinel://[user:pass@]h1[:port],h2[:port]/master[?db=0]` | the Sentinels' master |
    /// | `rediss-sentinel://…` | the same over TLS (feature `tls`) |
    /// | `redis-cluster://[user:pass@]h1[:port],h2[:port]` | a Redis Cluster |
    /// | `rediss-cluster://…` | the same over TLS (feature `tls`) |
    /// | `redlock://[user:pass@]host[:port],…[/db][?max_ttl=10s&node_timeout=50ms]` | a quorum |
    ///
    /// Each [`connect`](Self::connect) with `memory://` gives a pool with locks of its own; clones
    /// of that pool share them. So tests can use the same keys side by side. A `name` is of ASCII
    /// letters, digits, `-`, `_` and `.`. Its locks are forgotten when its last pool is gone and
    /// their leases are over. Both protect one process only.
    ///
    /// With Sentinels the credentials are the master's; those of the Sentinels are
    /// `?sentinel_user=…&sentinel_password=…`. TLS covers the Sentinels and the servers that they
    /// name. For a cluster the hosts are some of its nodes, and the credentials are those of all
    /// nodes. Redlock is a quorum over independent masters, and gives no fences.
    ///
    /// All but `memory://` take `?replicas=…`; see [`replicas`](Self::replicas).
    ///
    /// ```
    /// let builder = leasehold::LockPool::builder().url("redis-sentinel://s1,s2,s3/locks");
    /// ```
    pub fn url(mut self, url: impl Into<String>) -> Self {
        self.url = Some(url.into());
        self
    }

    /// The prefix of all keys, `namespace:key` on the server. Default `lock`; `""` is the bare key.
    /// It may not contain `%leasehold`, the word of leasehold's own keys.
    ///
    /// Choose namespaces that do not continue each other. The namespace `a` with the key `b:c`, and
    /// `a:b` with the key `c`, are one key on the server, with two counters for its fences.
    ///
    /// ```
    /// // On the server `pool.lock("order:42")` is then the key `shop:order:42`.
    /// let builder = leasehold::LockPool::builder().namespace("shop");
    /// ```
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// How long a call queues that sets no `wait` itself. Default zero: it tries once.
    ///
    /// Trying once is the default that cannot hurt. A second click that queues runs the order again
    /// when the first is done.
    ///
    /// ```
    /// # use std::time::Duration;
    /// let builder = leasehold::LockPool::builder().wait(Duration::from_secs(2));
    /// ```
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// How long to wait for the store's answer, and for a connection. From 1 ms to 1 h; default 1
    /// s. A single try ends with [`LockError::Unavailable`] after it. A call that queues asks again
    /// until its `wait` is over.
    ///
    /// ```
    /// # use std::time::Duration;
    /// let builder = leasehold::LockPool::builder().io_timeout(Duration::from_millis(250));
    /// ```
    pub fn io_timeout(mut self, io_timeout: Duration) -> Self {
        self.limits.io_timeout = io_timeout;
        self
    }

    /// How many replicas must have confirmed an acquisition or a renewal before it counts: `2`, or
    /// [`Replicas::All`]. Default: none, so that a fail-over may lose locks that the old master
    /// gave just before. In a URL it is `?replicas=2` or `?replicas=all`; the number given here has
    /// precedence.
    ///
    /// The server is asked to wait for the replicas (`WAIT`), for an eighth of the
    /// [`io_timeout`](Self::io_timeout) at most. If too few confirm, an acquisition is removed. It
    /// ends with [`LockError::Unavailable`] of the code `replicas` when the call's time is over. A
    /// renewal that too few confirm has not taken place. This narrows the gap of a fail-over and
    /// does not close it: a replica without the lock can still be promoted, unless all have it.
    ///
    /// ```
    /// # use leasehold::{LockPool, Replicas};
    /// let one = LockPool::builder().url("redis-sentinel://s1,s2/locks").replicas(1);
    /// let all = LockPool::builder().url("redis-sentinel://s1,s2/locks").replicas(Replicas::All);
    /// ```
    pub fn replicas(mut self, replicas: impl Into<Replicas>) -> Self {
        self.replicas = Some(replicas.into());
        self
    }

    /// The certificate authorities that may vouch for a server with TLS, such as one of
    /// `rediss://`, as the content of a PEM file. They replace the system's. Default: the system's.
    /// The server's certificate and name are verified, unless the `sslmode` of a `postgres://` URL
    /// asks for less.
    ///
    /// ```
    /// # fn example() -> std::io::Result<()> {
    /// let builder = leasehold::LockPool::builder()
    ///     .url("rediss://locks.example.org/")
    ///     .tls_ca(std::fs::read("ca.pem")?);
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "tls")]
    #[cfg_attr(docsrs, doc(cfg(feature = "tls")))]
    pub fn tls_ca(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.tls.ca = Some(pem.into());
        self
    }

    /// The certificate and its key that a server with TLS asks its clients for, as the contents of
    /// PEM files. Default: none.
    ///
    /// ```
    /// # fn example() -> std::io::Result<()> {
    /// let builder = leasehold::LockPool::builder()
    ///     .url("rediss://locks.example.org/")
    ///     .tls_client(std::fs::read("client.pem")?, std::fs::read("client.key")?);
    /// # Ok(()) }
    /// ```
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
    ///
    /// ```
    /// // The 51st call that would queue for a key is refused.
    /// let builder = leasehold::LockPool::builder().max_waiters(50);
    /// ```
    pub fn max_waiters(mut self, max_waiters: usize) -> Self {
        self.limits.max_waiters = max_waiters;
        self
    }

    /// How often calls of this process may hand a lock over to each other while other processes
    /// queue for it. Then the other processes get it. Zero: never. Default 16. There is no bound
    /// while no other process waits.
    ///
    /// Handing over costs no round trip. A larger number gives more throughput on a hot key, and
    /// longer waits in other processes.
    ///
    /// ```
    /// let builder = leasehold::LockPool::builder().max_passes(64);
    /// ```
    pub fn max_passes(mut self, max_passes: u32) -> Self {
        self.limits.max_passes = max_passes;
        self
    }

    /// The longest tenure: for how long calls of this process may hand a lock over to each other
    /// while other processes queue for it. Default: a quarter of the lock's ttl.
    ///
    /// ```
    /// # use std::time::Duration;
    /// let builder = leasehold::LockPool::builder().longest_turn(Duration::from_millis(100));
    /// ```
    pub fn longest_turn(mut self, longest_turn: Duration) -> Self {
        self.limits.longest_turn = Some(longest_turn);
        self
    }

    /// After how long of unbroken use a key is left free for clients that are not leasehold's. From
    /// 10 ms to 24 h; [`Duration::ZERO`] for never. Default 1 s.
    ///
    /// Calls that queue hand a lock over to each other, within a process and between processes, so
    /// that it is never free. Some clients know no queue and try from time to time: redis-py,
    /// redsync, node-redlock, rslock, a shell script. Such a client would never get the lock. So a
    /// lock that has been handed over for this long, and four times at least, is left free for 300
    /// ms. The pause begins at the end of the section that then runs. A client that tries at least
    /// every 250 ms gets the lock. With sections of 1 s at most, a pause comes every 5 s at least.
    ///
    /// By default a key that is never free otherwise is left free for up to 300 ms of every 1.3 s.
    /// A call that waits then waits up to 300 ms longer (`docs/reliability/results.md`). A call
    /// that does not queue is refused with [`LockError::Contended`] in a pause. If every client is
    /// leasehold's, set this to zero in all pools: the pool that releases the lock decides.
    ///
    /// `memory://` has no other clients and makes no pauses. `redlock://` has short pauses of its
    /// own, whatever this says. A lock that several calls hold at once (`shared`, `permits`) is not
    /// free while one of them holds it.
    ///
    /// ```
    /// # use std::time::Duration;
    /// // Every client is leasehold's.
    /// let builder = leasehold::LockPool::builder().make_way_after(Duration::ZERO);
    /// ```
    pub fn make_way_after(mut self, make_way_after: Duration) -> Self {
        self.limits.make_way_after = make_way_after;
        self
    }

    /// What every call of this pool is told in [`LockError::retry_after`] that is refused because
    /// of other calls: exactly this. From 1 ms to 24 h. Default: an estimate, see
    /// [`LockError::retry_after`].
    ///
    /// Set it where clients must not come back before a fixed time, whatever they wait for. It
    /// applies to all locks of the pool, and changes nothing about the locks themselves.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use leasehold::{LockError, LockPool};
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), LockError> {
    /// let pool = LockPool::builder()
    ///     .url("memory://")
    ///     .retry_hint(Duration::from_secs(3))
    ///     .connect()
    ///     .await?;
    /// let ttl = Duration::from_secs(10);
    /// let held = pool.lock("order:42").ttl(ttl).acquire().await?;
    /// let refused = pool.lock("order:42").ttl(ttl).acquire().await.unwrap_err();
    /// assert_eq!(refused.retry_after_secs(), Some(3)); // the `Retry-After` header
    /// # held.release().await
    /// # }
    /// ```
    pub fn retry_hint(mut self, retry_hint: Duration) -> Self {
        self.limits.retry_hint = Some(retry_hint);
        self
    }

    /// For tests only. Runs the engine as a task of the runtime that calls
    /// [`connect`](Self::connect), instead of on a thread of its own. Leases are counted on that
    /// runtime's clock, so a test that pauses time drives them. `memory://name` is refused: pools
    /// that count on different clocks cannot share locks.
    ///
    /// The leases end with that runtime, and a worker that is blocked delays their renewal.
    /// Default: off.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use leasehold::LockPool;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// // In a test: `#[tokio::test(start_paused = true)]`.
    /// let pool = LockPool::builder().url("memory://").on_current_runtime().connect().await?;
    /// let guard = pool.lock("order:42").ttl(Duration::from_secs(10)).acquire().await?;
    /// tokio::time::sleep(Duration::from_secs(10)).await; // takes no time
    /// assert!(guard.check().is_err());
    /// # Ok(()) }
    /// ```
    pub fn on_current_runtime(mut self) -> Self {
        self.place = Place::CurrentRuntime;
        self
    }

    /// Connects to the store and starts the engine, which keeps the connection up from then on.
    ///
    /// ```
    /// # use leasehold::{LockError, LockPool};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::LockError> {
    /// let pool = LockPool::builder().url("memory://").connect().await?;
    /// let error = LockPool::builder().connect().await.unwrap_err(); // no URL
    /// assert!(matches!(error, LockError::Config { .. }));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`LockError::Config`] for a URL or option that is not understood or not possible.
    /// [`LockError::Unavailable`] if the store cannot be reached within the `io_timeout`, or
    /// refuses this client. No text contains the password.
    ///
    /// # Panics
    ///
    /// With [`on_current_runtime`](Self::on_current_runtime), outside of a tokio runtime.
    pub async fn connect(self) -> Result<LockPool, LockError> {
        let target = self.target()?;
        self.connect_to(target).await
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
