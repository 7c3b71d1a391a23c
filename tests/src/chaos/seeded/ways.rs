//! Scenarios of a client that knows no queue, on a key that processes use without a pause.

use std::time::Duration;

use leasehold::__test::now;

use super::scene::Scene;
use crate::chaos::job::Lane;
use crate::probe::Probe;
use crate::server::Server;
use crate::wait;

/// Interval of the client's tries. It is short enough to meet each pause of 300 ms, and long enough
/// to hardly ever meet the moment between two sections.
const POLL: Duration = Duration::from_millis(250);
/// Number of rounds. The client may still meet such a moment, but not so many times in a row.
const TIMES: usize = 6;
const WITHIN: Duration = Duration::from_secs(6);

fn busy(copies: u32) -> Lane {
    let mut lane = Lane::stays("k", 20_000, 5).waits(60_000);
    lane.copies = copies;
    lane.times = 0;
    lane
}

/// Lets another client try for the key in each round, and notes when it got the key. A late success
/// is the last.
fn another_client(scene: &Scene, server: &Server) {
    let probe = server.probe().namespace("lock:");
    for _ in 0..TIMES {
        let entered = scene.entered();
        wait::until("they are busy", WITHIN, || scene.entered() > entered + 20);
        let due = now();
        let got = wait::try_until(WITHIN + POLL, || {
            std::thread::sleep(POLL);
            probe.take("k", WITHIN)
        });
        scene.free("k", due, now(), WITHIN);
        if got.is_none() {
            break;
        }
        probe.give_back("k");
    }
}

pub(super) fn beside_one_process(scene: &Scene) {
    let server = Server::start();
    let hand = scene.enter(&server.url(), busy(4));
    another_client(scene, &server);
    drop(hand);
}

pub(super) fn beside_two_processes(scene: &Scene) {
    let server = Server::start();
    let hands = [2, 2].map(|copies| scene.start(&server.url(), busy(copies)));
    another_client(scene, &server);
    drop(hands);
}
