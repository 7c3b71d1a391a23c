//! An abandoned acquire leaves no node behind, no matter when its connection ends.

use leasehold_tests::etcd::Etcd;

use crate::deployments::session_servers::on_two_workers;

on_two_workers! { Etcd, orphans:
    dropped_at_random_moments,
    dropped_while_connections_end,
}
