//! Scenarios of a client without leasehold's queue, on a key that processes use without a pause.

use std::time::Duration;

use leasehold::__test::now;

use super::scene::Scene;
use crate::chaos::job::Lane;
use crate::probe::Probe;
use crate::server::Server;
use crate::wait;

/// Interval between two tries of the client. It is short enough for a try in each pause of 300 ms.
/// It is long enough that a try hardly ever falls between two sections.
const POLL: Duration = Duration::from_millis(250);
/// Number of rounds. A try may still fall between two sections, but not in so many rounds in a row.
const TIMES: usize = 6;
const WITHIN: Duration = Duration::from_secs(6);

fn busy(copies: u32) -> Lane {
    let mut lane = Lane::stays("k", 20_000, 5).waits(60_000);
    lane.copies = copies;
    lane.times = 0;
    lane
}

/// Lets another client try for the key in each round, and notes when it got the key. Stops after
/// the first round without the key.
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
