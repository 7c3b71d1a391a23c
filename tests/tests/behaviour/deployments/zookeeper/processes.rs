//! Tests of processes that share an ensemble: they get a lock in the order of their requests, and
//! dead processes are skipped.

use leasehold_tests::worker::Event;
use leasehold_tests::zookeeper::{Settings, Zookeeper};

use super::LEADERLESS;
use crate::deployments::session_servers::{LONG, on_one_thread, processes};

on_one_thread! { Zookeeper, processes:
    killed_processes_are_passed_over,
    a_stopped_holder_is_passed_over_and_stops,
    first_come_first_served,
}

#[test]
fn a_number_in_a_file() {
    processes::a_number_in_a_file::<Zookeeper>();
}

#[test]
fn a_number_in_a_file_while_leaders_go() {
    // Sessions must be long, because no server grants a session while the ensemble has no leader.
    let ensemble = Settings::new().longest_session(LONG).ensemble(3);
    processes::a_number_in_a_file_while_leaders_go(ensemble, LEADERLESS, |workers| {
        for worker in workers {
            worker.wait_for("it is ready", LONG, |event| *event == Event::Ready);
        }
    });
}
