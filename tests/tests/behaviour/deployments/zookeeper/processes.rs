//! Processes that share an ensemble take turns in order, and pass over dead processes.

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
    // No server grants a session while the ensemble has no leader.
    let ensemble = Settings::new().longest_session(LONG).ensemble(3);
    processes::a_number_in_a_file_while_leaders_go(ensemble, LEADERLESS, |workers| {
        for worker in workers {
            worker.wait_for("it is ready", LONG, |event| *event == Event::Ready);
        }
    });
}
