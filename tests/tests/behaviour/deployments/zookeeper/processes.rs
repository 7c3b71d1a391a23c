//! Tests that processes on one ensemble get a lock in the order of their requests, and that dead
//! processes are skipped.

use leasehold_tests::worker::Event;
use leasehold_tests::zookeeper::{Settings, Zookeeper};

use super::LEADERLESS;
use crate::deployments::session_servers::{LONG, on_one_thread, processes};

on_one_thread! { Zookeeper, processes:
    killed_processes_are_skipped_in_the_queue,
    a_stopped_holder_loses_its_lock_and_ends_its_body,
    first_come_first_served,
}

#[test]
fn processes_increment_a_number_without_lost_updates() {
    processes::processes_increment_a_number_without_lost_updates::<Zookeeper>();
}

#[test]
fn no_increment_is_lost_while_leaders_are_killed() {
    let ensemble = Settings::new().longest_session(LONG).ensemble(3);
    processes::no_increment_is_lost_while_leaders_are_killed(ensemble, LEADERLESS, |workers| {
        // The first leader is killed only after all processes have connected, because no server
        // grants a session while the ensemble has no leader.
        for worker in workers {
            worker.wait_for("it is ready", LONG, |event| *event == Event::Ready);
        }
    });
}
