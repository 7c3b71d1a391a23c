//! Scenarios with a process of the previous version of leasehold.

use std::time::Duration;

use leasehold::__test::now;

use super::scene::{LONG, Scene};
use crate::chaos::job::Lane;
use crate::earlier_version::{EarlierProcess, Want};
use crate::server::Server;

const TURNS: u32 = 5;

/// Checks that a process of the previous version gets the lock soon after it reaches the head of
/// the queue. With the bug, the process does not recognise that the store reserves the lock for it.
/// So it misses each of its turns, and each turn lasts for a second.
pub(super) fn queues(scene: &Scene) {
    const WITHIN: Duration = Duration::from_secs(3);
    let server = Server::start();
    let mut lane = Lane::stays("k", 20_000, 3).waits(60_000);
    (lane.copies, lane.times) = (2, 0);
    let busy = scene.enter(&server.url(), lane);
    let mut earlier = EarlierProcess::connect(&server.url(), "lock");
    let (want, due) = (Want::alone("lock:k", LONG), now());
    for _ in 0..TURNS {
        if let Some(lease) = earlier.take(&want, LONG) {
            earlier.release(&want, &lease.token, None);
        }
    }
    scene.free("k", due, now(), WITHIN);
    drop(busy);
}
