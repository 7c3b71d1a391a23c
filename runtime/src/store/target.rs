//! Which store a URL names.

use std::fmt;
use std::time::Duration;

use super::memory::{MemoryStore, Space};
use crate::LockError;
use crate::clock::Clock;
use crate::engine::Connecting;

/// The stores that a URL can name.
const KNOWN: &str = "`redis://host[:port][/db]`, `rediss://…`, `redis+unix:///path`, `redlock://host:port,host:port,host:port` or `memory://`";

/// A store, not yet connected.
pub(crate) enum Target {
    Memory(String),
    #[cfg(feature = "redis")]
    Redis(Box<super::redis::Server>),
    #[cfg(feature = "redis")]
    Redlock(Box<super::redlock::Address>),
}

/// How to connect.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) clock: Clock,
    pub(crate) io_timeout: Duration,
    pub(crate) namespace: String,
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
            "redis" | "rediss" | "redis+unix" => Self::redis(scheme, url),
            "redlock" => Self::redlock(url),
            "redis-sentinel" | "redis-cluster" => Err(LockError::config(format!(
                "lock stores with `{scheme}://` are not supported yet; use {KNOWN}"
            ))),
            _ => Err(LockError::config(format!(
                "the lock store's URL has the unknown scheme `{scheme}`; write {KNOWN}"
            ))),
        }
    }

    #[cfg(feature = "redis")]
    fn redis(scheme: &str, url: &str) -> Result<Self, LockError> {
        if scheme == "rediss" && cfg!(not(feature = "tls")) {
            return Err(LockError::config(
                "`rediss://` needs TLS: enable the feature `tls` of the crate `leasehold`",
            ));
        }
        super::redis::Server::parse(url).map(|server| Self::Redis(Box::new(server)))
    }

    #[cfg(feature = "redis")]
    fn redlock(url: &str) -> Result<Self, LockError> {
        super::redlock::Address::parse(url).map(|address| Self::Redlock(Box::new(address)))
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

    pub(crate) fn connect(self, options: Options) -> Connecting {
        match self {
            Self::Memory(name) => Box::pin(async move {
                let space = match options.clock {
                    Clock::System => Space::shared(&name),
                    Clock::Tokio(_) => Space::private(options.clock),
                };
                tracing::warn!("locks on memory:// protect this process only");
                Ok(Box::new(MemoryStore::new(space)) as _)
            }),
            #[cfg(feature = "redis")]
            Self::Redis(server) => Box::pin(async move {
                let store = super::redis::RedisStore::connect(*server, &options).await?;
                Ok(Box::new(store) as _)
            }),
            #[cfg(feature = "redis")]
            Self::Redlock(address) => Box::pin(async move {
                let store = super::redlock::RedlockStore::connect(*address, &options).await?;
                Ok(Box::new(store) as _)
            }),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(name) => write!(f, "memory://{name}"),
            #[cfg(feature = "redis")]
            Self::Redis(server) => server.fmt(f),
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
            "redis-cluster://a,b",
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
