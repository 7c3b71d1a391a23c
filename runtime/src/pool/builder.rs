//! The configuration of a pool.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::LockPool;
use super::fairness::Fairness;
use crate::engine::driver::observer::Watch;
use crate::engine::driver::thread::Place;
use crate::error::LockError;
use crate::replicas::Replicas;
use crate::store::credentials::Provider;
use crate::store::tls::Tls;

mod connect;
mod credentials;
mod lazy;

const DEFAULT_NAMESPACE: &str = "lock";
const DEFAULT_IO_TIMEOUT: Duration = Duration::from_secs(1);
/// Default maximum length of a kept result, in bytes. Enough for the JSON of a usual response.
#[cfg(feature = "replay")]
const DEFAULT_REPLAY_LIMIT: usize = 64 * 1024;

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
    /// The errors of [`LockPoolBuilder::connect`].
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
#[must_use = "a builder does nothing unless `connect` is called"]
pub struct LockPoolBuilder {
    url: Option<String>,
    namespace: String,
    wait: Duration,
    io_timeout: Duration,
    fairness: Fairness,
    replicas: Option<Replicas>,
    #[cfg(feature = "replay")]
    pub(super) replay_limit: usize,
    tls: Tls,
    credentials: Option<Provider>,
    place: Place,
    pub(super) log_keys: bool,
    watch: Option<Arc<dyn Watch>>,
}

impl Default for LockPoolBuilder {
    fn default() -> Self {
        Self {
            url: None,
            namespace: DEFAULT_NAMESPACE.to_owned(),
            wait: Duration::ZERO,
            io_timeout: DEFAULT_IO_TIMEOUT,
            fairness: Fairness::default(),
            replicas: None,
            #[cfg(feature = "replay")]
            replay_limit: DEFAULT_REPLAY_LIMIT,
            tls: Tls::default(),
            credentials: None,
            place: Place::Thread,
            log_keys: false,
            watch: None,
        }
    }
}

impl LockPoolBuilder {
    /// Sets the URL of the lock store. Required.
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
    /// | `postgres://[user:pass@]host[:port]/database` | PostgreSQL (feature `postgres`) |
    /// | `etcd://[user:pass@]host[:port][,…][/prefix]` | an etcd cluster (feature `etcd`) |
    /// | `etcds://…` | the same over TLS (features `etcd` and `tls`) |
    /// | `zookeeper://host[:port][,…][/chroot]` | a ZooKeeper ensemble (feature `zookeeper`) |
    ///
    /// Each [`connect`](Self::connect) with `memory://` creates a pool with separate locks, which
    /// its clones share. So parallel tests can use the same keys. A `name` consists of ASCII
    /// letters, digits, `-`, `_` and `.`. The locks of a name are forgotten when its last pool is
    /// dropped and their leases have ended. Both forms of `memory://` protect only one process.
    ///
    /// With Sentinels, the credentials before the `@` are those of the master. Those of the
    /// Sentinels are `?sentinel_user=…&sentinel_password=…`. TLS is used for the Sentinels and for
    /// the servers that they name. For a cluster, name some of its nodes; the credentials apply to
    /// all nodes. Redlock is a quorum of independent masters, and has no fences.
    ///
    /// The URLs of one Redis, of Sentinels and of a cluster take `?replicas=…`; see
    /// [`replicas`](Self::replicas).
    ///
    /// ```
    /// let builder = leasehold::LockPool::builder().url("redis-sentinel://s1,s2,s3/locks");
    /// ```
    pub fn url(mut self, url: impl Into<String>) -> Self {
        self.url = Some(url.into());
        self
    }

    /// Sets the prefix of all keys, which are `namespace:key` on the server. Default: `lock`. With
    /// `""` the keys have no prefix. The namespace must not contain `%leasehold`, which is reserved
    /// for leasehold's own keys.
    ///
    /// Do not choose a namespace that begins with another namespace and a colon. The namespace `a`
    /// with the key `b:c`, and the namespace `a:b` with the key `c`, are the same key on the
    /// server. But each namespace has a separate counter of fences, so the key's fences would not
    /// be in order.
    ///
    /// ```
    /// // On the server `pool.lock("order:42")` is then the key `shop:order:42`.
    /// let builder = leasehold::LockPool::builder().namespace("shop");
    /// ```
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// Sets the maximum time to queue, for calls that set no `wait`. Default: zero, which means a
    /// single try.
    ///
    /// A single try is the safe default. For example, if a user clicks twice, a second call that
    /// queued would process the order again after the first call.
    ///
    /// ```
    /// # use std::time::Duration;
    /// let builder = leasehold::LockPool::builder().wait(Duration::from_secs(2));
    /// ```
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Sets the maximum time to wait for the store's answer, and for a connection. The range is 1
    /// ms to 1 h. Default: 1 s. After this time, a single try ends with [`LockError::Unavailable`],
    /// and a queued call repeats its request until its `wait` is over.
    ///
    /// ```
    /// # use std::time::Duration;
    /// let builder = leasehold::LockPool::builder().io_timeout(Duration::from_millis(250));
    /// ```
    pub fn io_timeout(mut self, io_timeout: Duration) -> Self {
        self.io_timeout = io_timeout;
        self
    }

    /// Sets the number of replicas that must confirm an acquisition or a renewal before it is
    /// valid, such as `2` or [`Replicas::All`]. Default: none, so a fail-over may lose locks that
    /// the old master granted just before. In a URL this option is `?replicas=2` or
    /// `?replicas=all`. The number set here takes precedence.
    ///
    /// The server waits for the replicas (`WAIT`), at most for an eighth of the
    /// [`io_timeout`](Self::io_timeout). If too few replicas confirm an acquisition, the lock is
    /// removed again. When the `wait` of the call is over (without one, the `io_timeout`), the call
    /// ends with [`LockError::Unavailable`] and the code `replicas`. If too few replicas confirm a
    /// renewal, the lease is not extended. With this option, a fail-over loses locks less often. It
    /// can still lose a lock if not all replicas have it, because a replica without the lock may be
    /// promoted.
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

    /// Sets the trusted certificate authorities for servers with TLS (such as `rediss://`), as the
    /// content of a PEM file. They replace the default, which is the system's authorities. The
    /// server's certificate and name are verified, unless the `sslmode` of a `postgres://` URL
    /// requires less.
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

    /// Sets the client certificate and its key, as the contents of PEM files, for a TLS server that
    /// requires them. Default: none.
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

    /// Sets the whole TLS configuration of rustls 0.23, such as one that other clients of the
    /// program use. Use this instead of [`tls_ca`](Self::tls_ca) and
    /// [`tls_client`](Self::tls_client). [`connect`](Self::connect) refuses this option together
    /// with one of these two, and for stores without TLS.
    ///
    /// Only this configuration decides how servers are verified. For `postgres://`, an `sslmode` of
    /// `require` or stronger then only switches TLS on. For `etcds://`, the pool replaces the
    /// application protocols (ALPN) of the configuration by `h2`.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// # fn example(roots: rustls::RootCertStore) {
    /// let config = rustls::ClientConfig::builder()
    ///     .with_root_certificates(roots)
    ///     .with_no_client_auth();
    /// let builder = leasehold::LockPool::builder()
    ///     .url("rediss://locks.example.org/")
    ///     .tls(Arc::new(config));
    /// # }
    /// ```
    #[cfg(feature = "tls")]
    #[cfg_attr(docsrs, doc(cfg(feature = "tls")))]
    pub fn tls(mut self, config: Arc<rustls::ClientConfig>) -> Self {
        self.tls.given = Some(config);
        self
    }

    /// Sets the rules by which calls share the locks of the pool with each other and with other
    /// processes, instead of the defaults of [`Fairness`]. [`connect`](Self::connect) refuses rules
    /// out of range.
    ///
    /// ```
    /// # use leasehold::{Fairness, LockPool};
    /// // The 51st call that would queue for a key is refused.
    /// let builder = LockPool::builder().fairness(Fairness::default().max_waiters(50));
    /// ```
    pub fn fairness(mut self, fairness: Fairness) -> Self {
        self.fairness = fairness;
        self
    }

    /// For tests only. Runs the engine as a task of the runtime that calls
    /// [`connect`](Self::connect), instead of on a separate thread. Leases use the clock of that
    /// runtime, so a test that pauses the clock controls the leases. `memory://name` is refused,
    /// because pools with different clocks cannot share locks.
    ///
    /// The leases end when that runtime ends, and a blocked worker of the runtime delays their
    /// renewal. Default: off.
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

    /// Connects to the store and starts the engine, which then maintains the connection.
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
    /// [`LockError::Config`] for an invalid URL or option. [`LockError::Unavailable`] if the store
    /// cannot be reached within the `io_timeout`, or refuses this client. No message contains the
    /// password.
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
        // Leaves out the URL, which may contain a password.
        f.debug_struct("LockPoolBuilder")
            .field("namespace", &self.namespace)
            .field("wait", &self.wait)
            .field("io_timeout", &self.io_timeout)
            .field("fairness", &self.fairness)
            .field("replicas", &self.replicas)
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}
