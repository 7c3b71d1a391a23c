//! The one server of a requirement, a Redis or a PostgreSQL, and networks with faults to it.

use std::sync::Arc;

use super::ground::Store;
use crate::postgres::{Database, Postgres};
use crate::probe::Probe;
use crate::proxy::Proxy;
use crate::server::Server;

/// A server of a requirement's own.
pub(super) enum Site {
    Redis(Server),
    Postgres {
        database: Database,
        _server: Postgres,
    },
}

impl Site {
    /// An empty server for the locks. `store` is one of the two.
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

    /// The URL of its pools.
    pub(super) fn url(&self) -> String {
        match self {
            Self::Redis(server) => server.url(),
            Self::Postgres { database, .. } => database.url(),
        }
    }

    /// A network to it that can be made to fail.
    pub(super) fn proxy(&self) -> Proxy {
        match self {
            Self::Redis(server) => Proxy::start(server.address()),
            Self::Postgres { database, .. } => Proxy::start_postgres(database.address()),
        }
    }

    /// The URL of pools behind the network.
    pub(super) fn url_over(&self, proxy: &Proxy) -> String {
        match self {
            Self::Redis(_) => proxy.url(),
            Self::Postgres { database, .. } => database.url_over(proxy.address()),
        }
    }

    /// A look at the locks, apart from the code under test.
    pub(super) fn probe(&self) -> Arc<dyn Probe> {
        match self {
            Self::Redis(server) => Arc::new(server.probe().namespace("lock:")),
            Self::Postgres { database, .. } => Arc::new(database.probe("lock:")),
        }
    }
}
