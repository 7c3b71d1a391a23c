//! The store of a pool, before it is connected. [`target_url`] reads which one a URL names.
//!
//! [`target_url`]: super::target_url

use std::fmt;
#[cfg(feature = "testing")]
use std::future::Future;
#[cfg(feature = "testing")]
use std::panic::{RefUnwindSafe, UnwindSafe};
#[cfg(feature = "testing")]
use std::pin::Pin;
#[cfg(feature = "testing")]
use std::sync::Arc;

use super::Connecting;
#[cfg(feature = "__remote")]
use super::background;
#[cfg(feature = "redis")]
use super::cluster;
#[cfg(feature = "etcd")]
use super::etcd;
use super::memory::MemoryStore;
use super::options::Options;
#[cfg(feature = "postgres")]
use super::postgres;
#[cfg(feature = "redis")]
use super::redis::look::RedisSource;
#[cfg(feature = "redis")]
use super::redis::master_address::MasterAddress;
#[cfg(feature = "redis")]
use super::redis::store::RedisStore;
#[cfg(feature = "redis")]
use super::redlock;
#[cfg(feature = "__session")]
use super::session::look::SessionSource;
#[cfg(feature = "__remote")]
use super::source::{Source, no_server};
#[cfg(feature = "zookeeper")]
use super::zookeeper;
use crate::base::clock::Clock;
use crate::base::reporter;
use crate::check_report::{CheckReport, Finding};
use crate::error::LockError;
#[cfg(feature = "redis")]
use crate::replicas::Replicas;

/// A store, not yet connected.
#[derive(Clone)]
pub(crate) enum Target {
    /// All pools of one name share their locks. Without a name the locks are private to their pool.
    Memory(Option<String>),
    /// The store of a test kit; no URL names it.
    #[cfg(feature = "testing")]
    Kit(Arc<dyn OtherTarget>),
    /// A store for tests; no URL names it.
    #[cfg(feature = "__test")]
    Nothing,
    #[cfg(feature = "redis")]
    Redis(Box<MasterAddress>, Option<Replicas>),
    #[cfg(feature = "redis")]
    Cluster(Box<cluster::address::Address>),
    #[cfg(feature = "redis")]
    Redlock(Box<redlock::address::Address>),
    #[cfg(feature = "postgres")]
    Postgres(Box<postgres::address::Address>),
    #[cfg(feature = "etcd")]
    Etcd(Box<etcd::address::Address>),
    #[cfg(feature = "zookeeper")]
    ZooKeeper(Box<zookeeper::address::Address>),
}

/// A store that another part of the library makes, with what a [`Target`] is asked. Calls do
/// not change it.
#[cfg(feature = "testing")]
pub(crate) trait OtherTarget:
    fmt::Display + Send + Sync + UnwindSafe + RefUnwindSafe
{
    fn has_other_clients(&self) -> bool;

    fn clock(&self) -> Clock;

    fn connect(&self, options: Options) -> Connecting;

    fn check(&self, options: Options) -> Checking;

    #[cfg(feature = "__remote")]
    fn source(&self, options: Options) -> Result<Box<dyn Source>, LockError>;
}

/// A store that is being checked.
#[cfg(feature = "testing")]
pub(crate) type Checking = Pin<Box<dyn Future<Output = Result<CheckReport, LockError>> + Send>>;

/// The address with the certificates that the builder was given. Without TLS there are none.
#[cfg(any(feature = "redis", feature = "postgres", feature = "etcd"))]
macro_rules! secured {
    ($address:expr, $options:expr) => {{
        let address = $address;
        #[cfg(feature = "tls")]
        let address = address.with_tls(&$options.tls)?;
        address
    }};
}

impl Target {
    /// Whether the store is several nodes that decide by their majority.
    pub(crate) fn is_quorum(&self) -> bool {
        match self {
            #[cfg(feature = "redis")]
            Self::Redlock(_) => true,
            _ => false,
        }
    }

    /// Whether locks belong to sessions of the process.
    pub(crate) fn has_sessions(&self) -> bool {
        match self {
            #[cfg(feature = "etcd")]
            Self::Etcd(_) => true,
            #[cfg(feature = "zookeeper")]
            Self::ZooKeeper(_) => true,
            _ => false,
        }
    }

    /// Whether a lock can stay after its release.
    pub(crate) fn keeps_locks(&self) -> bool {
        match self {
            #[cfg(feature = "zookeeper")]
            Self::ZooKeeper(_) => false,
            _ => true,
        }
    }

    /// Whether clients that know no queue can hold the store's locks.
    pub(crate) fn has_other_clients(&self) -> bool {
        match self {
            Self::Memory(_) => false,
            #[cfg(feature = "testing")]
            Self::Kit(kit) => kit.has_other_clients(),
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => false,
            #[cfg(feature = "etcd")]
            Self::Etcd(_) => false,
            // Each recipe of Curator queues.
            #[cfg(feature = "zookeeper")]
            Self::ZooKeeper(_) => false,
            #[cfg(any(feature = "redis", feature = "__test"))]
            _ => true,
        }
    }

    /// The clock on which a pool on this store counts its leases; `own` unless the store has one.
    pub(crate) fn clock(&self, own: Clock) -> Clock {
        match self {
            #[cfg(feature = "testing")]
            Self::Kit(kit) => kit.clock(),
            _ => own,
        }
    }

    pub(crate) fn connect(self, options: Options) -> Connecting {
        match self {
            Self::Memory(name) => {
                Box::pin(async move { Ok(Box::new(memory(name, &options)?) as _) })
            }
            #[cfg(feature = "testing")]
            Self::Kit(kit) => kit.connect(options),
            #[cfg(feature = "__test")]
            Self::Nothing => Box::pin(async {
                Ok(Box::new(crate::selftest::null_store::NoStore::default()) as _)
            }),
            #[cfg(feature = "redis")]
            Self::Redis(master, replicas) => Box::pin(async move {
                let options = options.or_replicas(replicas);
                let master = secured!(*master, options);
                let store = RedisStore::connect(master, &options).await?;
                Ok(Box::new(store) as _)
            }),
            #[cfg(feature = "redis")]
            Self::Cluster(address) => Box::pin(async move {
                let options = options.or_replicas(address.replicas);
                let address = secured!(*address, options);
                let store = cluster::store::ClusterStore::connect(address, &options).await?;
                Ok(Box::new(store) as _)
            }),
            #[cfg(feature = "redis")]
            Self::Redlock(address) => Box::pin(async move {
                options.for_independent_nodes()?;
                let store = redlock::store::RedlockStore::connect(*address, &options).await?;
                Ok(Box::new(store) as _)
            }),
            #[cfg(feature = "postgres")]
            Self::Postgres(address) => Box::pin(async move {
                options.for_postgres()?;
                let address = secured!(*address, options);
                let store = postgres::store::PostgresStore::connect(address, &options).await?;
                Ok(Box::new(store) as _)
            }),
            #[cfg(feature = "etcd")]
            Self::Etcd(address) => Box::pin(async move {
                options.for_etcd()?;
                let address = secured!(*address, options);
                let store = etcd::service::Etcd::connect(address, &options).await?;
                Ok(Box::new(store) as _)
            }),
            #[cfg(feature = "zookeeper")]
            Self::ZooKeeper(address) => Box::pin(async move {
                options.for_zookeeper()?;
                let store = zookeeper::service::ZooKeeper::connect(*address, &options).await?;
                Ok(Box::new(store) as _)
            }),
        }
    }
}

fn memory(name: Option<String>, options: &Options) -> Result<MemoryStore, LockError> {
    #[cfg(feature = "tls")]
    options.tls.refuse()?;
    if options.replicas.is_some() {
        return Err(LockError::config(
            "`memory://` has no replicas; leave `replicas` out, or use `redis://…`",
        ));
    }
    let limits = memory_limits(name.as_deref());
    let store = match (name, options.clock) {
        (None, clock) => MemoryStore::private(clock),
        (Some(name), Clock::System) => MemoryStore::named(name),
        (Some(_), Clock::Tokio(_)) => {
            return Err(LockError::config(
                "pools of one `memory://name` have one clock, and with `on_current_runtime` each pool has \
                 that of its runtime; write `memory://` without a name",
            ));
        }
    };
    reporter::log(move || tracing::warn!("{limits}"));
    Ok(store)
}

impl Target {
    /// Checks the store over connections of its own, apart from those of a pool.
    pub(crate) async fn check(self, options: Options) -> Result<CheckReport, LockError> {
        match self {
            Self::Memory(ref name) => {
                let warning = Finding::warning("one-process", memory_limits(name.as_deref()));
                Ok(CheckReport::new(self.to_string(), vec![warning]))
            }
            #[cfg(feature = "testing")]
            Self::Kit(kit) => kit.check(options).await,
            #[cfg(feature = "__test")]
            Self::Nothing => Ok(CheckReport::new(self.to_string(), Vec::new())),
            #[cfg(feature = "redis")]
            Self::Redis(master, replicas) => {
                let options = options.or_replicas(replicas);
                let master = secured!(*master, options);
                background::run(async move { RedisStore::check(master, &options).await }).await
            }
            #[cfg(feature = "redis")]
            Self::Cluster(address) => {
                let options = options.or_replicas(address.replicas);
                let address = secured!(*address, options);
                background::run(async move {
                    cluster::store::ClusterStore::check(address, &options).await
                })
                .await
            }
            #[cfg(feature = "redis")]
            Self::Redlock(address) => {
                options.for_independent_nodes()?;
                background::run(async move {
                    redlock::store::RedlockStore::check(*address, &options).await
                })
                .await
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(address) => {
                options.for_postgres()?;
                let address = secured!(*address, options);
                background::run(async move {
                    postgres::store::PostgresStore::check(address, &options).await
                })
                .await
            }
            #[cfg(feature = "etcd")]
            Self::Etcd(address) => {
                options.for_etcd()?;
                let address = secured!(*address, options);
                background::run(async move { etcd::service::Etcd::check(address, &options).await })
                    .await
            }
            #[cfg(feature = "zookeeper")]
            Self::ZooKeeper(address) => {
                options.for_zookeeper()?;
                background::run(async move {
                    zookeeper::service::ZooKeeper::check(*address, &options).await
                })
                .await
            }
        }
    }
}

#[cfg(feature = "__remote")]
impl Target {
    /// What looks at the store's locks. Nothing is connected before it is asked.
    #[cfg_attr(
        not(feature = "testing"),
        expect(clippy::needless_pass_by_value, reason = "a test kit takes them")
    )]
    pub(crate) fn source(self, options: Options) -> Result<Box<dyn Source>, LockError> {
        match self {
            #[cfg(feature = "redis")]
            Self::Redis(master, _) => {
                let master = secured!(*master, options);
                Ok(Box::new(RedisSource::new(master, &options)))
            }
            #[cfg(feature = "redis")]
            Self::Cluster(address) => {
                let address = secured!(*address, options);
                Ok(Box::new(cluster::look::ClusterSource::new(
                    address, &options,
                )))
            }
            #[cfg(feature = "redis")]
            Self::Redlock(address) => Ok(Box::new(redlock::look::RedlockSource::new(
                *address, &options,
            ))),
            #[cfg(feature = "postgres")]
            Self::Postgres(address) => {
                let address = secured!(*address, options);
                Ok(Box::new(postgres::look::PostgresSource::new(
                    address, &options,
                )))
            }
            #[cfg(feature = "etcd")]
            Self::Etcd(address) => {
                let address = secured!(*address, options);
                let look = etcd::look::EtcdLook::new(address, &options);
                Ok(Box::new(SessionSource::new(look, &options)))
            }
            #[cfg(feature = "zookeeper")]
            Self::ZooKeeper(address) => {
                let look = zookeeper::look::ZooKeeperLook::new(*address, &options);
                Ok(Box::new(SessionSource::new(look, &options)))
            }
            #[cfg(feature = "testing")]
            Self::Kit(kit) => kit.source(options),
            #[cfg(feature = "__test")]
            Self::Nothing => Err(no_server()),
            Self::Memory(_) => Err(no_server()),
        }
    }
}

/// Against what the locks of `memory://` do not protect.
fn memory_limits(name: Option<&str>) -> String {
    match name {
        Some(name) => format!(
            "locks on memory://{name} protect this process only; use redis:// where there are more"
        ),
        None => "locks on memory:// protect this process only, and belong to one pool; use memory://name for \
                 several pools, and redis:// for several processes"
            .to_owned(),
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(name) => write!(f, "memory://{}", name.as_deref().unwrap_or_default()),
            #[cfg(feature = "testing")]
            Self::Kit(kit) => kit.fmt(f),
            #[cfg(feature = "__test")]
            Self::Nothing => f.write_str("nothing"),
            #[cfg(feature = "redis")]
            Self::Redis(master, _) => master.fmt(f),
            #[cfg(feature = "redis")]
            Self::Cluster(address) => address.fmt(f),
            #[cfg(feature = "redis")]
            Self::Redlock(address) => address.fmt(f),
            #[cfg(feature = "postgres")]
            Self::Postgres(address) => address.fmt(f),
            #[cfg(feature = "etcd")]
            Self::Etcd(address) => address.fmt(f),
            #[cfg(feature = "zookeeper")]
            Self::ZooKeeper(address) => address.fmt(f),
        }
    }
}
