//! Tests of locks in a ZooKeeper ensemble.

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

/// A ttl for which a session of 10 s is enough, the longest session of a server with a tick of half
/// a second.
const TTL: Duration = Duration::from_secs(5);

/// A ttl longer than the time until the other members detect a stopped leader and elect another
/// leader. On a busy machine this takes several seconds.
const LEADERLESS: Duration = Duration::from_secs(20);

impl Times for Zookeeper {
    const TTL: Duration = TTL;
    const LEASE: Duration = Duration::from_secs(5);
    const SESSION: Duration = Duration::from_secs(10);
}
