//! Processes that share a cluster take turns in order, and pass over dead processes.

use leasehold_tests::etcd::Etcd;
use leasehold_tests::session_server::SessionServer as _;

use super::TTL;
use crate::deployments::session_servers::{on_one_thread, processes};

on_one_thread! { Etcd, processes:
    killed_processes_are_passed_over,
    a_stopped_holder_is_passed_over_and_stops,
    first_come_first_served,
}

#[test]
fn a_number_in_a_file() {
    processes::a_number_in_a_file::<Etcd>();
}

#[test]
fn a_number_in_a_file_while_leaders_go() {
    // The processes connect while the first leader is being replaced.
    processes::a_number_in_a_file_while_leaders_go(Etcd::cluster(3), TTL, |_| ());
}
