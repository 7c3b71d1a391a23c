//! Servers of engines other than Redis.

use std::time::Duration;

use leasehold_tests::etcd::Etcd;
use leasehold_tests::postgres::Postgres;
use leasehold_tests::session_server::SessionServer as _;
use leasehold_tests::zookeeper::{Settings, Zookeeper};

use crate::contestants::Fault;
use crate::row::Engine;

/// ZooKeeper's default tick. It allows session time-outs from 4 s to 40 s.
const TICK: Duration = Duration::from_secs(2);

/// A server of an engine other than Redis, with its data on a disk. Dropping this ends the server.
pub(crate) enum Other {
    Postgres(Postgres),
    Etcd(Etcd),
    ZooKeeper(Zookeeper),
}

impl Other {
    /// Returns the process id.
    pub(crate) fn id(&self) -> u32 {
        match self {
            Self::Postgres(server) => server.id(),
            Self::Etcd(server) => server.running().id(),
            Self::ZooKeeper(server) => server.running().id(),
        }
    }

    /// Starts a server and returns it with its URL, or `None` for Redis.
    pub(crate) fn start(engine: Engine) -> Result<Option<(Self, String)>, Fault> {
        Ok(Some(match engine {
            Engine::Redis => return Ok(None),
            Engine::Postgres => {
                let server = Postgres::durable_on_disk();
                let url = server.migrated().url();
                (Self::Postgres(server), url)
            }
            Engine::Etcd => {
                let server = Etcd::start_on_disk();
                let url = server.url("bench/");
                (Self::Etcd(server), url)
            }
            Engine::ZooKeeper => {
                let server = Settings::new().tick(TICK).on_disk().start();
                let url = server.url("bench");
                (Self::ZooKeeper(server), url)
            }
        }))
    }
}
