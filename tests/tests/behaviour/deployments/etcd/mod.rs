//! Tests of locks in an etcd cluster.

use std::time::Duration;

use leasehold_tests::etcd::Etcd;

use super::session_servers::Times;

mod connecting;
mod faults;
mod full;
mod gathering;
mod logins;
mod names;
mod neighbours;
mod orphans;
mod processes;
mod sessions;
#[cfg(feature = "tls")]
mod tls;

const TTL: Duration = Duration::from_secs(20);

impl Times for Etcd {
    const TTL: Duration = TTL;
    const LEASE: Duration = Duration::from_secs(5);
    const SESSION: Duration = Duration::from_secs(6);
}
