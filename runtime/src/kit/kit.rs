//! The kit: a lock pool for one test. The methods for outages, losses and other holders are in
//! `controls`.

use std::fmt;
use std::future::Future;
use std::hash::{BuildHasher as _, RandomState};
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::Instant as TokioInstant;

use super::line::Line;
use super::log::Log;
use super::target::{KitTarget, SharedStore};
use crate::base::clock::Clock;
use crate::error::LockError;
use crate::pool::LockPool;
use crate::pool::builder::LockPoolBuilder;
#[cfg(all(test, feature = "__test"))]
use crate::selftest::null_store::Nothing;
#[cfg(all(test, feature = "__test"))]
use crate::store::backend::Target;
use crate::store::memory::MemoryStore;

/// `io_timeout` of the pools that simulate other processes. These processes are not under test, so
/// their requests must not time out, even on a busy machine.
const OTHERS_TIMEOUT: Duration = Duration::from_secs(30);

/// A lock pool for one test, with control over its locks. See the [module](crate::testing).
///
/// A clone is a handle to the same kit. The kit starts at its first use, on the tokio runtime of
/// that use, and its locks end with that runtime.
///
/// ```
/// use leasehold::testing::Kit;
/// use leasehold::{LockError, distributed_lock};
///
/// #[distributed_lock(key = "order:<id>", ttl = "10s")]
/// async fn create_order(id: u64) -> Result<u64, LockError> {
///     Ok(id)
/// }
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let kit = Kit::new();
/// assert_eq!(kit.scope(create_order(42)).await, Ok(42));
/// # }
/// ```
#[derive(Clone)]
pub struct Kit {
    shared: Arc<Shared>,
}

struct Shared {
    builder: LockPoolBuilder,
    running: OnceLock<Running>,
}

/// The parts of a kit. A kit in memory creates them at its first use, a kit on a server when it
/// connects.
pub(super) struct Running {
    pub(super) store: SharedStore,
    pub(super) log: Arc<Log>,
    pool: LockPool,
    pub(super) line: Arc<Line>,
}

impl Running {
    async fn begin(store: SharedStore, builder: LockPoolBuilder) -> Result<Self, LockError> {
        builder.check()?;
        let log = Arc::new(Log::new(store.clock().now()));
        let line = Line::new(Arc::clone(&log), false);
        let target = KitTarget {
            store: store.clone(),
            line: Arc::clone(&line),
        };
        let builder = builder.watched_by(Arc::clone(&line) as _);
        let pool = builder.connect_to(target.for_pool()).await?;
        Ok(Self {
            store,
            log,
            pool,
            line,
        })
    }
}

impl Default for Kit {
    fn default() -> Self {
        Self::new()
    }
}

impl Kit {
    /// Creates a kit with a separate store in memory, and a pool with the defaults.
    ///
    /// ```
    /// use leasehold::testing::Kit;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let (one, two) = (Kit::new(), Kit::new());
    /// let _held = one.hold("order:42").await;
    /// let _also = two.hold("order:42").await; // another store
    /// # }
    /// ```
    pub fn new() -> Self {
        Self::with(LockPool::builder())
    }

    /// Like [`new`](Self::new), but with the settings of `builder`. They should be those of the
    /// service's pool, for example its `wait`, `io_timeout`, `fairness` and namespace. Ignores a
    /// URL in `builder`.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use leasehold::LockPool;
    /// use leasehold::testing::Kit;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let kit = Kit::with(LockPool::builder().wait(Duration::from_secs(5)));
    /// let _other = kit.hold("order:42").releases_after(Duration::from_secs(2)).await;
    /// let request = kit.pool().lock("order:42").ttl(Duration::from_secs(10));
    /// assert!(request.acquire().await.is_ok()); // after two seconds
    /// # }
    /// ```
    pub fn with(builder: LockPoolBuilder) -> Self {
        Self {
            shared: Arc::new(Shared {
                builder: builder.on_current_runtime(),
                running: OnceLock::new(),
            }),
        }
    }

    /// Creates a kit on the lock store at `url`, such as a Redis started by the test suite. A test
    /// written for [`new`](Self::new) then runs against a real server. With `memory://`, this is
    /// [`new`](Self::new).
    ///
    /// Each kit has a separate namespace, so tests run side by side on one server and use their
    /// usual keys. Each holder created by [`hold`](Self::hold) has separate connections. An outage
    /// or a delay is simulated in the kit's pool, and does not affect the server.
    ///
    /// [`lose_when`](Self::lose_when) works only with [`Point::After`](super::Point::After), which
    /// removes the lock from the server. A loss at any other point would have to wait for the
    /// server's answer, so it would not happen exactly at that point.
    ///
    /// The server keeps a counter of fences for each kit, in one key or row, even after the kit has
    /// ended. So use a server dedicated to tests.
    ///
    /// ```no_run
    /// use leasehold::testing::Kit;
    ///
    /// # async fn example() -> Result<(), leasehold::LockError> {
    /// let url = std::env::var("TEST_REDIS").unwrap_or_else(|_| "memory://".to_owned());
    /// let kit = Kit::on(&url).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`LockPoolBuilder::connect`]. Also [`LockError::Config`] for `memory://name`,
    /// because tests would share its locks. Also `Config` for a server if the runtime's time is
    /// paused, because every time-out would pass before the server answers.
    pub async fn on(url: &str) -> Result<Self, LockError> {
        Self::connect(LockPool::builder().url(url)).await
    }

    /// Like [`on`](Self::on), but with the settings of `builder`, including its URL. Use those of
    /// the service's pool. On a server, the kit replaces the namespace with a separate one.
    ///
    /// ```no_run
    /// use std::time::Duration;
    ///
    /// use leasehold::LockPool;
    /// use leasehold::testing::Kit;
    ///
    /// # async fn example() -> Result<(), leasehold::LockError> {
    /// let builder = LockPool::builder().url("redis://127.0.0.1/").wait(Duration::from_secs(2));
    /// let kit = Kit::connect(builder).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// See [`on`](Self::on).
    pub async fn connect(builder: LockPoolBuilder) -> Result<Self, LockError> {
        let target = builder.target()?;
        match target.memory_name() {
            Some("") => return Ok(Self::with(builder)),
            Some(name) => {
                return Err(LockError::config(format!(
                    "a kit on `memory://{name}` would share its locks with other tests; write `Kit::new()`"
                )));
            }
            None => {}
        }
        if time_is_paused() {
            return Err(LockError::config(
                "the runtime's time is paused, but a server answers in real time; write \
                 `#[tokio::test]` without `start_paused` for tests on a server, or `Kit::new()`",
            ));
        }
        let builder = builder.namespace(unique_namespace());
        let running = Running::begin(SharedStore::Server(target), builder.clone()).await?;
        Ok(Self {
            shared: Arc::new(Shared {
                builder,
                running: OnceLock::from(running),
            }),
        })
    }

    /// Creates a kit on a store that grants each lock to every call.
    #[cfg(all(test, feature = "__test"))]
    pub(super) async fn on_nothing() -> Self {
        let (builder, store) = (LockPool::builder(), Target::new(Nothing));
        let running = Running::begin(SharedStore::Server(store), builder.clone()).await;
        Self {
            shared: Arc::new(Shared {
                builder,
                running: OnceLock::from(running.expect("nothing is connected to")),
            }),
        }
    }

    /// Returns the kit's pool, for code that has its pool in a field or as an argument.
    ///
    /// ```
    /// use leasehold::testing::Kit;
    /// use leasehold::{LockError, LockPool, distributed_lock};
    ///
    /// struct Warehouse {
    ///     locks: LockPool,
    /// }
    ///
    /// impl Warehouse {
    ///     #[distributed_lock(key = "stock:<sku>", ttl = "10s", pool = self.locks)]
    ///     async fn take(&self, sku: &str) -> Result<(), LockError> {
    ///         Ok(())
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let kit = Kit::new();
    /// let warehouse = Warehouse { locks: kit.pool() };
    /// let _other = kit.hold("stock:kettle").await;
    /// assert!(warehouse.take("kettle").await.unwrap_err().is_contention());
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// If the kit has not been used before: outside of a tokio runtime with timers, or if the
    /// settings given to [`with`](Self::with) are invalid.
    #[track_caller]
    pub fn pool(&self) -> LockPool {
        self.running().pool.clone()
    }

    /// Runs `future` with the kit's pool instead of the installed one. [`LockPool::scope`]
    /// describes the effect on tasks.
    ///
    /// ```
    /// # use leasehold::testing::Kit;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let kit = Kit::new();
    /// kit.scope(async { assert!(leasehold::pool().is_ok()) }).await;
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// See [`pool`](Self::pool).
    #[track_caller]
    pub fn scope<F: Future>(&self, future: F) -> impl Future<Output = F::Output> + use<F> {
        self.running().pool.scope(future)
    }

    /// Creates a pool that simulates another process. Also returns the line, the simulated
    /// connection between this pool and the kit's store.
    pub(super) async fn other_pool(&self) -> Result<(LockPool, Arc<Line>), LockError> {
        let running = self.running();
        let line = Line::new(Arc::clone(&running.log), true);
        let target = KitTarget {
            store: running.store.clone(),
            line: Arc::clone(&line),
        };
        let builder = self.shared.builder.clone().io_timeout(OTHERS_TIMEOUT);
        let builder = builder.watched_by(Arc::clone(&line) as _);
        let pool = builder.connect_to(target.for_pool()).await?;
        Ok((pool, line))
    }

    /// Returns the clock of the kit's leases.
    pub(super) fn clock(&self) -> Clock {
        self.running().store.clock()
    }

    #[track_caller]
    pub(super) fn running(&self) -> &Running {
        if let Some(running) = self.shared.running.get() {
            return running;
        }
        assert!(
            Handle::try_current().is_ok(),
            "a test kit starts on the tokio runtime of its first use, but there is none here; \
             write `#[tokio::test(start_paused = true)]` above the test"
        );
        self.shared.running.get_or_init(|| {
            let clock = Clock::tokio();
            let store = Arc::new(MemoryStore::private(clock));
            let begun = Running::begin(
                SharedStore::Memory { store, clock },
                self.shared.builder.clone(),
            );
            match at_once(begun) {
                Ok(running) => running,
                Err(error) => panic!("the kit's pool: {error}"),
            }
        })
    }
}

impl fmt::Debug for Kit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pool = self.shared.running.get().map(|running| &running.pool);
        f.debug_struct("Kit")
            .field("pool", &pool)
            .finish_non_exhaustive()
    }
}

/// Returns the value of a future that is ready at its first poll.
fn at_once<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("a pool in memory connects at once"),
    }
}

/// True if the runtime's clock stands still while this thread sleeps.
fn time_is_paused() -> bool {
    let before = TokioInstant::now();
    std::thread::sleep(Duration::from_millis(1));
    before.elapsed().is_zero()
}

/// Returns a namespace that no other kit has, in this process or any other.
fn unique_namespace() -> String {
    // `RandomState` hashes with random keys, so the number is random.
    let random = RandomState::new().hash_one(std::process::id());
    format!("kit-{random:016x}")
}
