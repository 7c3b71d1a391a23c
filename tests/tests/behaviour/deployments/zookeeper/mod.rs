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

/// Of the sessions that a server allows whose tick is half a second, the longest serve this.
const TTL: Duration = Duration::from_secs(5);

/// Longer than the other members take to miss a leader that stands still, and to choose another: on
/// a busy machine that is several seconds.
const LEADERLESS: Duration = Duration::from_secs(20);

impl Times for Zookeeper {
    const TTL: Duration = TTL;
    const LEASE: Duration = Duration::from_secs(5);
    const SESSION: Duration = Duration::from_secs(10);
}
