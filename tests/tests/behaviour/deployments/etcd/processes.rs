//! Tests that processes on one cluster get a lock in the order of the queue, and that dead
//! processes are skipped.

use leasehold_tests::etcd::Etcd;
use leasehold_tests::session_server::SessionServer as _;

use super::TTL;
use crate::deployments::session_servers::{on_one_thread, processes};

on_one_thread! { Etcd, processes:
    killed_processes_are_skipped_in_the_queue,
    a_stopped_holder_loses_its_lock_and_ends_its_body,
    first_come_first_served,
}

#[test]
fn processes_increment_a_number_without_lost_updates() {
    processes::processes_increment_a_number_without_lost_updates::<Etcd>();
}

#[test]
fn no_increment_is_lost_while_leaders_are_killed() {
    // The first leader is killed at once, so the processes connect during the change of leaders.
    processes::no_increment_is_lost_while_leaders_are_killed(Etcd::cluster(3), TTL, |_| ());
}
