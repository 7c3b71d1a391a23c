//! Scenarios with a client that does not use leasehold's queue. It tries to take a key that
//! leasehold's processes use all the time.

use std::time::Duration;

use leasehold::__test::now;

use super::scene::Scene;
use crate::chaos::job::Lane;
use crate::probe::Probe;
use crate::server::Server;
use crate::wait;

/// Interval between two attempts of the client to take the key. It is shorter than the pauses of
/// 300 ms in which leasehold leaves the key free, so each pause has an attempt. It is so long that
/// an attempt rarely falls into the gap between two bodies.
const POLL: Duration = Duration::from_millis(250);
/// Number of rounds, in each of which the client must get the key. By chance an attempt may find
/// the key free between two bodies, but hardly in every round. So a bug is found even if some
/// rounds succeed by chance.
const TIMES: usize = 6;
const WITHIN: Duration = Duration::from_secs(6);

fn busy(copies: u32) -> Lane {
    let mut lane = Lane::stays("k", 20_000, 5).waits(60_000);
    lane.copies = copies;
    lane.times = 0;
    lane
}

/// Lets a client without a queue try to take the key in each round, and notes the time until the
/// client has the key. Stops after the first round in which the client did not get the key.
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
