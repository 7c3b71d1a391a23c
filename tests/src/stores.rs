//! Macros and types that run one test body on every lock store.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use leasehold::LockPool;

use crate::cluster::{self, Cluster, ClusterProbe};
use crate::etcd::Etcd;
use crate::postgres::Postgres;
use crate::probe::{MemoryProbe, Probe};
use crate::quorum::{Quorum, QuorumProbe};
use crate::sentinel::{self, Deployment};
use crate::server::Server;
use crate::session_server::SessionServer;
use crate::zookeeper::Zookeeper;

/// I/O timeout for the pools of tests without an outage, such as all tests with a `Store`. It is
/// long, because a busy machine may delay an answer by more than a second.
pub const NO_OUTAGE: Duration = Duration::from_secs(10);

/// One Redis server for all tests of a test program. The server ends with the program.
static SERVER: LazyLock<Server> = LazyLock::new(Server::start);

/// A Sentinel that watches one server without replicas. So the Sentinel never names another server
/// as the master, even if this server answers late.
static SENTINEL: LazyLock<Deployment> =
    LazyLock::new(|| sentinel::Setup::new().start_naming(Server::start()));

static CLUSTER: LazyLock<Cluster> = LazyLock::new(|| cluster::Setup::new().start());

static QUORUM: LazyLock<Quorum> = LazyLock::new(|| Quorum::old(3));

/// The parts of stores (see [`Store`]) in use, each as the name of the store and the name of the
/// test. No two tests may share a part.
static PARTS: Mutex<Option<HashSet<String>>> = Mutex::new(None);

/// Records the part of the store that a test uses. Fails if another test with the same name uses
/// the same store, because the two tests would share locks.
fn has_its_own_part(store: &str, test: &str) {
    let mut parts = PARTS.lock().unwrap_or_else(PoisonError::into_inner);
    let parts = parts.get_or_insert_default();
    let is_new = parts.insert(format!("{store} {test}"));
    assert!(is_new, "another test is called `{test}` as well");
}

/// A lock store, and the part of it that only one test uses: a namespace, a database, or a name of
/// `memory://`.
pub struct Store {
    /// The URL of the store for a pool.
    pub url: String,
    /// The namespace of this test's part, for a pool.
    pub namespace: String,
    /// A probe that acts as another holder in the same part of the store.
    pub probe: Arc<dyn Probe>,
}

impl Store {
    /// A `memory://` store.
    ///
    /// # Panics
    ///
    /// Panics if another test of the program has this name.
    pub fn memory(test: &str) -> Self {
        has_its_own_part("memory", test);
        let url = format!("memory://{test}");
        Self {
            probe: Arc::new(MemoryProbe::new(&url)),
            namespace: "lock".to_owned(),
            url,
        }
    }

    /// A real Redis.
    ///
    /// # Panics
    ///
    /// Panics if another test of the program has this name.
    pub fn redis(test: &str) -> Self {
        has_its_own_part("redis", test);
        Self {
            url: SERVER.url(),
            probe: Arc::new(SERVER.probe().namespace(&format!("{test}:"))),
            namespace: test.to_owned(),
        }
    }

    /// A real Redis, whose address comes from a Sentinel.
    ///
    /// # Panics
    ///
    /// Panics if another test of the program has this name.
    pub fn sentinel(test: &str) -> Self {
        has_its_own_part("sentinel", test);
        let probe = SENTINEL.master().probe();
        Self {
            url: SENTINEL.url(),
            probe: Arc::new(probe.namespace(&format!("{test}:"))),
            namespace: test.to_owned(),
        }
    }

    /// A real cluster of three masters.
    ///
    /// # Panics
    ///
    /// Panics if another test of the program has this name.
    pub fn cluster(test: &str) -> Self {
        has_its_own_part("cluster", test);
        Self {
            url: CLUSTER.url(),
            probe: Arc::new(ClusterProbe::new(&CLUSTER, &format!("{test}:"))),
            namespace: test.to_owned(),
        }
    }

    /// Three real servers for `redlock://`.
    ///
    /// # Panics
    ///
    /// Panics if another test of the program has this name.
    pub fn redlock(test: &str) -> Self {
        has_its_own_part("redlock", test);
        Self {
            url: QUORUM.url_with("node_timeout=1s"),
            probe: Arc::new(QuorumProbe::new(&QUORUM, &format!("{test}:"))),
            namespace: test.to_owned(),
        }
    }

    /// A separate database on a real PostgreSQL.
    ///
    /// # Panics
    ///
    /// Panics if another test of the program has this name, or the server does not make the
    /// database.
    pub fn postgres(test: &str) -> Self {
        has_its_own_part("postgres", test);
        let database = Postgres::shared().migrated();
        Self {
            url: database.url(),
            probe: Arc::new(database.probe(&format!("{test}:"))),
            namespace: test.to_owned(),
        }
    }

    /// A part of a real etcd.
    ///
    /// # Panics
    ///
    /// Panics if another test of the program has this name, or the server does not start.
    pub fn etcd(test: &str) -> Self {
        Self::of_sessions::<Etcd>(test)
    }

    /// A part of a real ZooKeeper.
    ///
    /// # Panics
    ///
    /// Panics like [`etcd`](Self::etcd).
    pub fn zookeeper(test: &str) -> Self {
        Self::of_sessions::<Zookeeper>(test)
    }

    fn of_sessions<S: SessionServer>(test: &str) -> Self {
        has_its_own_part(S::SCHEME, test);
        let server = S::shared();
        Self {
            url: server.url("stores"),
            probe: Arc::new(server.probe("stores", &format!("{test}:"))),
            namespace: test.to_owned(),
        }
    }

    /// True if the store's locks belong to sessions.
    pub fn has_sessions(&self) -> bool {
        self.url.starts_with("etcd://") || self.url.starts_with("zookeeper://")
    }

    /// True if the store has a queue of waiting processes.
    pub fn has_queue(&self) -> bool {
        !self.url.starts_with("redlock://")
    }

    /// True if the server reports how long a session would last without a further heartbeat.
    /// Meaningful only for a store with sessions.
    pub fn reports_ends(&self) -> bool {
        !self.url.starts_with("zookeeper://")
    }

    /// True if the server reports the creation time of a node. Meaningful only for a store with
    /// sessions.
    pub fn reports_times(&self) -> bool {
        !self.url.starts_with("etcd://")
    }

    /// Connects a separate pool, which acts like the pool of another process.
    ///
    /// # Panics
    ///
    /// Panics if the store does not answer.
    pub async fn pool(&self) -> LockPool {
        let pool = LockPool::builder()
            .url(&self.url)
            .namespace(&self.namespace)
            .io_timeout(NO_OUTAGE);
        pool.connect().await.expect("the store answers")
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

/// Makes a test for each `async fn(&Store)` in the list, on each store named before the colon, for
/// example `on_stores!(cluster redlock: (one, two))`. The tests of a store are in a module with the
/// store's name. Each test runs on a runtime with two workers. `tests/tests/docs/test_names.rs`
/// parses the uses of this macro.
#[macro_export]
macro_rules! on_stores {
    ($($store:ident)+: $names:tt) => {
        $(
            mod $store {
                $crate::on_stores!(@each $store $names);
            }
        )+
    };
    (@each $store:ident ($($name:ident),+ $(,)?)) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(&$crate::stores::Store::$store(stringify!($name))).await;
            }
        )+
    };
}

/// Like `on_stores`, for every store except those that need several servers.
#[macro_export]
macro_rules! on_every_store {
    ($($name:ident),+ $(,)?) => {
        $crate::on_stores!(memory redis postgres etcd zookeeper: ($($name),+));
    };
}

/// Like `on_stores`, for etcd, where locks belong to sessions.
#[macro_export]
macro_rules! on_etcd {
    ($($name:ident),+ $(,)?) => {
        $crate::on_stores!(etcd: ($($name),+));
    };
}

/// Like `on_stores`, for ZooKeeper, where locks belong to sessions as well.
#[macro_export]
macro_rules! on_zookeeper {
    ($($name:ident),+ $(,)?) => {
        $crate::on_stores!(zookeeper: ($($name),+));
    };
}

/// Like `on_every_store`, but without etcd and ZooKeeper, whose locks belong to sessions. In the
/// remaining stores each lock has a separate lease with a known end, and can be shared.
#[macro_export]
macro_rules! on_every_store_of_leases {
    ($($name:ident),+ $(,)?) => {
        $crate::on_stores!(memory redis postgres: ($($name),+));
    };
}
