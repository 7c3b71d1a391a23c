//! Checks that a server's clock can be set, and that the server's keys expire by this clock.

use std::time::Duration;

use leasehold_tests::redis_probe::RedisProbe;
use leasehold_tests::server::ServerOptions;
use leasehold_tests::server_clock::ServerClock;
use redis::cmd;

const HOUR: u64 = 3_600;

/// Returns the server's time in seconds.
fn time(probe: &RedisProbe) -> u64 {
    let (seconds, _micros): (u64, u64) = probe.run(&cmd("TIME"));
    seconds
}

/// Fails if setting a server's clock has no effect. The tests that set a clock would then test
/// nothing.
#[test]
fn the_server_clock_can_be_moved_forward_and_back() {
    let clock = ServerClock::new();
    let server = ServerOptions::new().clock(&clock).start();
    let probe = server.probe();
    let ttl = Duration::from_secs(60);
    let before = time(&probe);
    assert!(probe.set_nx("k", "v", ttl));
    clock.set(-3_600);
    assert!(time(&probe) < before);
    assert!(probe.ttl("k").is_some_and(|left| left > 10 * ttl));
    clock.set(3_600);
    assert!(time(&probe) >= before + HOUR);
    assert_eq!(probe.get("k"), None);
    clock.set(0);
    assert!(time(&probe) < before + HOUR);
}
