//! Scenarios of a quorum.

use std::ops::Range;
use std::time::Duration;

use super::scene::{Scene, finish};
use crate::chaos::crew::Hand;
use crate::chaos::job::Lane;
use crate::oracle::Note;
use crate::proxy::{Mode, Proxy};
use crate::quorum::{self, Quorum};
use crate::wait;

pub(super) fn split(scene: &Scene) {
    scene.crew.note(&Note::Unfenced);
    let nodes = Quorum::older_than(3, Duration::from_secs(2));
    // The first worker reaches only node 0. Its call has a `wait`, because a call without one is
    // refused as soon as too few nodes are reachable.
    let first = Lane::stays("k", 2_000, 1_500).waits(1_500);
    let (first, _one) = cut_off_from(scene, &nodes, 1..3, first);
    // With the bug, the body of the first worker begins, although only one node has granted the
    // lock. Without the bug, this wait times out.
    wait::try_until(Duration::from_millis(1_500), || scene.entered() > 0);
    let second = Lane::stays("k", 2_000, 100).waits(8_000);
    let (second, _two) = cut_off_from(scene, &nodes, 0..1, second);
    finish(second);
    finish(first);
}

/// Starts a worker that connects to all nodes. Before its first call, the worker is cut off from
/// the nodes `away`.
fn cut_off_from(
    scene: &Scene,
    nodes: &Quorum,
    away: Range<usize>,
    lane: Lane,
) -> (Hand, Vec<Proxy>) {
    let servers = nodes.servers.iter();
    let proxies: Vec<_> = servers.map(|one| Proxy::start(one.address())).collect();
    let url = quorum::url(proxies.iter().map(Proxy::address), "max_ttl=100ms");
    let hand = scene
        .crew
        .spawn_gated(scene.job(&url, lane), scene.bug, || {
            for proxy in &proxies[away] {
                proxy.set(Mode::Refuse);
                proxy.cut();
            }
        });
    (hand, proxies)
}

/// Cuts a renewing holder off from two of three nodes while a second worker waits. With the bug, a
/// renewal by the third node alone prolongs the lease.
pub(super) fn left_with_one(scene: &Scene) {
    scene.crew.note(&Note::Unfenced);
    let nodes = Quorum::older_than(3, Duration::from_secs(2));
    let proxies = nodes.proxies();
    let url = quorum::url(proxies.iter().map(Proxy::address), "max_ttl=100ms");
    let first = scene.enter(&url, Lane::stays("k", 1_500, 4_500).watched());
    for proxy in &proxies[1..] {
        proxy.set(Mode::Refuse);
        proxy.cut();
    }
    let second = Lane::stays("k", 1_500, 100).waits(8_000);
    finish(scene.start(&nodes.url(), second));
    finish(first);
}

pub(super) fn forgetful(scene: &Scene) {
    scene.crew.note(&Note::Unfenced);
    let mut nodes = Quorum::older_than(3, Duration::from_secs(3));
    // The third node never gets the first worker's lock, and the second node forgets it in the
    // restart. With the bug, these two nodes grant the lock to the second worker.
    let stays = Lane::stays("k", 3_000, 2_500);
    let (first, _proxies) = cut_off_from(scene, &nodes, 2..3, stays);
    scene.await_entries(1);
    nodes.servers[1].restart();
    let second = Lane::stays("k", 3_000, 100).waits(15_000);
    finish(scene.start(&nodes.url(), second));
    finish(first);
}
