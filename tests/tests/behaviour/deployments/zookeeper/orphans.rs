//! Tests that an abandoned acquire leaves no node behind, no matter when its connection ends.

use leasehold_tests::zookeeper::Zookeeper;

use crate::deployments::session_servers::on_two_workers;

on_two_workers! { Zookeeper, orphans:
    calls_dropped_at_random_moments_leave_nothing,
    calls_dropped_during_disconnects_leave_nothing,
}
