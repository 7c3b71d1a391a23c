//! Locks in a ZooKeeper ensemble.

use std::time::Duration;

use leasehold_tests::zookeeper::Zookeeper;

use super::session_servers::Times;

mod connecting;
mod curator;
mod faults;
mod neighbours;
mod orphans;
mod processes;
mod reconnecting;
mod sessions;

/// The longest sessions of a server with a tick of half a second cover this ttl.
const TTL: Duration = Duration::from_secs(5);

/// Longer than the other members take to miss a stopped leader and to choose another. On a busy
/// machine that takes several seconds.
const LEADERLESS: Duration = Duration::from_secs(20);

impl Times for Zookeeper {
    const TTL: Duration = TTL;
    const LEASE: Duration = Duration::from_secs(5);
    const SESSION: Duration = Duration::from_secs(10);
}
