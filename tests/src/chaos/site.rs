//! The single server of a requirement, a Redis or a PostgreSQL, with proxies that simulate network
//! faults.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::crew::Crew;
use super::ending;
use super::store::Store;
use crate::postgres::{Database, Postgres};
use crate::probe::Probe;
use crate::proxy::Proxy;
use crate::redis_probe::RedisProbe;
use crate::server::Server;

/// The length of a record in a key's queue on Redis, in bytes.
const RECORD: u64 = 46;

/// A dedicated server for one requirement (a promise that the harness checks under faults).
pub(super) enum Site {
    Redis(Server),
    Postgres {
        database: Database,
        _server: Postgres,
    },
}

impl Site {
    /// Starts an empty server for the locks. `store` is Redis or PostgreSQL.
    pub(super) fn start(store: Store) -> Self {
        match store {
            Store::Postgres => {
                let server = Postgres::start();
                Self::Postgres {
                    database: server.migrated(),
                    _server: server,
                }
            }
            _ => Self::Redis(Server::start()),
        }
    }

    /// Returns the URL of the server for pools.
    pub(super) fn url(&self) -> String {
        match self {
            Self::Redis(server) => server.url(),
            Self::Postgres { database, .. } => database.url(),
        }
    }

    /// Starts a proxy in front of the server. The proxy can inject network faults.
    pub(super) fn proxy(&self) -> Proxy {
        match self {
            Self::Redis(server) => Proxy::start(server.address()),
            Self::Postgres { database, .. } => Proxy::start_postgres(database.address()),
        }
    }

    pub(super) fn address(&self) -> SocketAddr {
        match self {
            Self::Redis(server) => server.address(),
            Self::Postgres { database, .. } => database.address(),
        }
    }

    /// Returns the URL of the server through a proxy with this address.
    pub(super) fn url_over(&self, proxy: SocketAddr) -> String {
        match self {
            Self::Redis(_) => format!("redis://{proxy}/"),
            Self::Postgres { database, .. } => database.url_over(proxy),
        }
    }

    /// Returns a function that counts the processes in the queue of a key, including dead
    /// processes.
    pub(super) fn queues(&self) -> Box<dyn Fn(&str) -> u64> {
        match self {
            Self::Redis(server) => {
                let probe = server.probe();
                Box::new(move |key| queued(&probe, key))
            }
            Self::Postgres { database, .. } => {
                let probe = database.probe("lock:");
                Box::new(move |key| {
                    let count =
                        format!("SELECT count(*) FROM leasehold.waiters WHERE key = 'lock:{key}'");
                    probe.value(&count).parse().unwrap_or_default()
                })
            }
        }
    }

    /// Checks that all keys become free within `ttl` plus 200 ms.
    pub(super) fn all_free(&self, crew: &Crew, ttl: Duration) {
        match self {
            Self::Redis(server) => ending::all_free(crew, &server.probe(), ttl),
            Self::Postgres { database, .. } => all_free(crew, database, ttl),
        }
    }

    /// Returns a probe of the locks that does not use the code under test.
    pub(super) fn probe(&self) -> Arc<dyn Probe> {
        match self {
            Self::Redis(server) => Arc::new(server.probe().namespace("lock:")),
            Self::Postgres { database, .. } => Arc::new(database.probe("lock:")),
        }
    }
}

/// Checks that all keys become free within `ttl` plus 200 ms.
pub(super) fn all_free(crew: &Crew, database: &Database, ttl: Duration) {
    const HELD: &str = "SELECT min(key) FROM leasehold.locks WHERE state <> 'free' AND expires_at > clock_timestamp()";
    let probe = database.probe("lock:");
    ending::free_after(crew, ttl, || {
        Some(probe.value(HELD)).filter(|key| !key.is_empty())
    });
}

/// Returns the number of processes in the queue of a key, including dead processes.
pub(super) fn queued(probe: &RedisProbe, key: &str) -> u64 {
    let queue = probe.get(&format!("lock:%leasehold:queue:lock:{key}"));
    let queue = queue.unwrap_or_default();
    // The first record of a queue may be a mark, with zeros instead of the name of a process. A
    // mark is not a process in the queue.
    let marked = u64::from(queue.starts_with(&"0".repeat(32)));
    queue.len() as u64 / RECORD - marked
}
