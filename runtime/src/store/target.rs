//! Which store a URL names.

use std::fmt;

use super::Connecting;
#[cfg(feature = "redis")]
use super::cluster;
use super::memory::MemoryStore;
use super::memory::space::Space;
use super::options::Options;
#[cfg(feature = "redis")]
use super::redis::master_address::MasterAddress;
#[cfg(feature = "redis")]
use super::redis::store::RedisStore;
#[cfg(feature = "redis")]
use super::redlock;
use crate::base::clock::Clock;
use crate::base::reporter;
use crate::check_report::{CheckReport, Finding};
use crate::error::LockError;
#[cfg(feature = "redis")]
use crate::replicas::Replicas;

/// The stores that a URL can name.
const KNOWN: &str = "`redis://host[:port][/db]`, `rediss://…`, `redis+unix:///path`, `redis-sentinel://host[:port],…/master`, `redis-cluster://host[:port],…`, `redlock://host:port,host:port,host:port` or `memory://`";

/// A store, not yet connected.
#[derive(Clone)]
pub(crate) enum Target {
    Memory(String),
    /// Has no URL.
    #[cfg(feature = "__test")]
    Nothing,
    #[cfg(feature = "redis")]
    Redis(Box<MasterAddress>, Option<Replicas>),
    #[cfg(feature = "redis")]
    Cluster(Box<cluster::address::Address>),
    #[cfg(feature = "redis")]
    Redlock(Box<redlock::address::Address>),
}

/// `origin` with the certificates of the builder.
#[cfg(feature = "redis")]
#[cfg_attr(
    not(feature = "tls"),
    expect(
        clippy::unnecessary_wraps,
        unused_variables,
        reason = "without TLS there are no certificates"
    )
)]
fn secured(origin: MasterAddress, options: &Options) -> Result<MasterAddress, LockError> {
    #[cfg(feature = "tls")]
    let origin = origin.with_tls(&options.tls)?;
    Ok(origin)
}

/// `address` with the certificates of the builder.
#[cfg(feature = "redis")]
#[cfg_attr(
    not(feature = "tls"),
    expect(
        clippy::unnecessary_wraps,
        unused_variables,
        reason = "without TLS there are no certificates"
    )
)]
fn secured_cluster(
    address: cluster::address::Address,
    options: &Options,
) -> Result<cluster::address::Address, LockError> {
    #[cfg(feature = "tls")]
    let address = address.with_tls(&options.tls)?;
    Ok(address)
}

impl Target {
    /// The store that `url` names. No error text contains the URL, because it may hold a password.
    pub(crate) fn parse(url: &str) -> Result<Self, LockError> {
        let Some((scheme, rest)) = url.split_once("://") else {
            return Err(LockError::config(if url.is_empty() {
                format!("the pool has no lock store; give it a URL: {KNOWN}")
            } else {
                format!("the lock store's URL has no `scheme://`; write {KNOWN}")
            }));
        };
        match scheme {
            "memory" => Ok(Self::Memory(rest.trim_end_matches('/').to_owned())),
            "redis" | "rediss" | "redis+unix" | "redis-sentinel" | "rediss-sentinel" => {
                Self::redis(scheme, url)
            }
            "redis-cluster" | "rediss-cluster" => Self::cluster(scheme, url),
            "redlock" => Self::redlock(url),
            _ => Err(LockError::config(format!(
                "the lock store's URL has the unknown scheme `{scheme}`; write {KNOWN}"
            ))),
        }
    }

    #[cfg(feature = "redis")]
    fn redis(scheme: &str, url: &str) -> Result<Self, LockError> {
        refuse_without_tls(scheme)?;
        let (origin, replicas) = MasterAddress::parse(url)?;
        Ok(Self::Redis(Box::new(origin), replicas))
    }

    #[cfg(feature = "redis")]
    fn cluster(scheme: &str, url: &str) -> Result<Self, LockError> {
        refuse_without_tls(scheme)?;
        cluster::address::Address::parse(url).map(|address| Self::Cluster(Box::new(address)))
    }

    #[cfg(not(feature = "redis"))]
    fn cluster(scheme: &str, url: &str) -> Result<Self, LockError> {
        Self::redis(scheme, url)
    }

    #[cfg(feature = "redis")]
    fn redlock(url: &str) -> Result<Self, LockError> {
        redlock::address::Address::parse(url).map(|address| Self::Redlock(Box::new(address)))
    }

    #[cfg(not(feature = "redis"))]
    fn redlock(url: &str) -> Result<Self, LockError> {
        Self::redis("redlock", url)
    }

    #[cfg(not(feature = "redis"))]
    fn redis(scheme: &str, _url: &str) -> Result<Self, LockError> {
        Err(LockError::config(format!(
            "`{scheme}://` needs the feature `redis` of the crate `leasehold`, which is off"
        )))
    }

    /// Whether clients that are not ours can have its locks.
    pub(crate) fn has_other_clients(&self) -> bool {
        !matches!(self, Self::Memory(_))
    }

    pub(crate) fn connect(self, options: Options) -> Connecting {
        match self {
            Self::Memory(name) => Box::pin(async move {
                #[cfg(feature = "tls")]
                options.tls.refuse()?;
                if options.replicas.is_some() {
                    return Err(LockError::config(
                        "`memory://` has no replicas; leave `replicas` out, or use `redis://…`",
                    ));
                }
                let space = match options.clock {
                    Clock::System => Space::shared(&name),
                    Clock::Tokio(_) => Space::private(options.clock),
                };
                reporter::log(|| tracing::warn!("locks on memory:// protect this process only"));
                Ok(Box::new(MemoryStore::new(space)) as _)
            }),
            #[cfg(feature = "__test")]
            Self::Nothing => Box::pin(async {
                Ok(Box::new(crate::testing::null_store::NoStore::default()) as _)
            }),
            #[cfg(feature = "redis")]
            Self::Redis(origin, replicas) => Box::pin(async move {
                let options = options.or_replicas(replicas);
                let origin = secured(*origin, &options)?;
                let store = RedisStore::connect(origin, &options).await?;
                Ok(Box::new(store) as _)
            }),
            #[cfg(feature = "redis")]
            Self::Cluster(address) => Box::pin(async move {
                let options = options.or_replicas(address.replicas);
                let address = secured_cluster(*address, &options)?;
                let store = cluster::store::ClusterStore::connect(address, &options).await?;
                Ok(Box::new(store) as _)
            }),
            #[cfg(feature = "redis")]
            Self::Redlock(address) => Box::pin(async move {
                options.for_independent_nodes()?;
                let store = redlock::store::RedlockStore::connect(*address, &options).await?;
                Ok(Box::new(store) as _)
            }),
        }
    }
}

impl Target {
    /// Looks at the store, apart from the connection that a pool has to it.
    pub(crate) async fn check(self, options: Options) -> Result<CheckReport, LockError> {
        match self {
            Self::Memory(_) => {
                let warning = Finding::warning(
                    "one-process",
                    "locks on memory:// protect this process only; use redis:// where there are more",
                );
                Ok(CheckReport::new(self.to_string(), vec![warning]))
            }
            #[cfg(feature = "__test")]
            Self::Nothing => Ok(CheckReport::new(self.to_string(), Vec::new())),
            #[cfg(feature = "redis")]
            Self::Redis(origin, replicas) => {
                let options = options.or_replicas(replicas);
                let origin = secured(*origin, &options)?;
                super::background::run(async move { RedisStore::check(origin, &options).await })
                    .await
            }
            #[cfg(feature = "redis")]
            Self::Cluster(address) => {
                let options = options.or_replicas(address.replicas);
                let address = secured_cluster(*address, &options)?;
                super::background::run(async move {
                    cluster::store::ClusterStore::check(address, &options).await
                })
                .await
            }
            #[cfg(feature = "redis")]
            Self::Redlock(address) => {
                options.for_independent_nodes()?;
                super::background::run(async move {
                    redlock::store::RedlockStore::check(*address, &options).await
                })
                .await
            }
        }
    }
}

#[cfg(feature = "redis")]
fn refuse_without_tls(scheme: &str) -> Result<(), LockError> {
    if scheme.starts_with("rediss") && cfg!(not(feature = "tls")) {
        return Err(LockError::config(format!(
            "`{scheme}://` needs TLS: enable the feature `tls` of the crate `leasehold`"
        )));
    }
    Ok(())
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(name) => write!(f, "memory://{name}"),
            #[cfg(feature = "__test")]
            Self::Nothing => f.write_str("nothing"),
            #[cfg(feature = "redis")]
            Self::Redis(origin, _) => origin.fmt(f),
            #[cfg(feature = "redis")]
            Self::Cluster(address) => address.fmt(f),
            #[cfg(feature = "redis")]
            Self::Redlock(address) => address.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(url: &str) -> String {
        match Target::parse(url) {
            Ok(target) => panic!("{target} was accepted"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn refusals_say_what_to_write_and_keep_passwords() {
        for url in [
            "",
            "localhost:6379",
            "http://u:hunter2@h/",
            "redis://u:hunter2@h:port/",
        ] {
            let text = refusal(url);
            assert!(text.contains("redis://"), "{text}");
            assert!(!text.contains("hunter2"), "{text}");
        }
    }

    #[test]
    fn memory_has_a_name() {
        assert_eq!(Target::parse("memory://").unwrap().to_string(), "memory://");
        assert_eq!(
            Target::parse("memory://one/").unwrap().to_string(),
            "memory://one"
        );
    }
}
