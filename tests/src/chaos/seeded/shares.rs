//! Scenarios of readers and writers, and of permits.

use std::time::Duration;

use redis::cmd;

use super::scene::{LONG, Scene, finish};
use crate::chaos::calls::PLACES;
use crate::chaos::job::Lane;
use crate::chaos::site::queued;
use crate::chaos::span::nanos;
use crate::oracle::{Mode, Note};
use crate::proxy::{Mode as Network, Proxy};
use crate::server::Server;
use crate::wait;

fn reader(ttl_ms: u64, stay_ms: u64) -> Lane {
    Lane::stays("k", ttl_ms, stay_ms).held_as(Mode::Reader)
}

fn place(ttl_ms: u64, stay_ms: u64) -> Lane {
    Lane::stays("k", ttl_ms, stay_ms).held_as(Mode::Place(PLACES))
}

pub(super) fn reader_after_writer(scene: &Scene) {
    let server = Server::start();
    let writer = scene.enter(&server.url(), Lane::stays("k", 10_000, 1_500));
    scene.run(&server.url(), reader(10_000, 10).waits(8_000));
    finish(writer);
}

pub(super) fn writer_after_reader(scene: &Scene) {
    let server = Server::start();
    let reader = scene.enter(&server.url(), reader(10_000, 1_500));
    scene.run(&server.url(), Lane::stays("k", 10_000, 10).waits(8_000));
    finish(reader);
}

pub(super) fn short_beside_long(scene: &Scene) {
    let server = Server::start();
    let long = scene.enter(&server.url(), reader(10_000, 2_500));
    let mut short = scene.enter(&server.url(), reader(500, 60_000));
    short.process().kill();
    scene.run(&server.url(), Lane::stays("k", 10_000, 10).waits(8_000));
    finish(long);
}

pub(super) fn renewed_beside_long(scene: &Scene) {
    let server = Server::start();
    let long = scene.enter(&server.url(), reader(10_000, 3_500));
    let mut short = scene.enter(&server.url(), reader(600, 60_000).watched());
    let probe = server.probe();
    let scripts = probe.calls("evalsha");
    wait::until("it is renewed", LONG, || scripts < probe.calls("evalsha"));
    short.process().kill();
    scene.run(&server.url(), Lane::stays("k", 10_000, 10).waits(8_000));
    finish(long);
}

pub(super) fn dead_beside_living(scene: &Scene) {
    let server = Server::start();
    let probe = server.probe();
    let mut living = place(20_000, 12_000);
    living.copies = PLACES - 1;
    let living = scene.start(&server.url(), living);
    scene.await_entries(u64::from(PLACES) - 1);
    let mut dead = scene.enter(&server.url(), place(1_000, 60_000));
    let next = scene.start(&server.url(), place(20_000, 10).waits(60_000));
    wait::until("it queues", LONG, || queued(&probe, "k") == 1);
    scene.is_entered(|| dead.process().kill());
    drop((living, next));
}

pub(super) fn without_a_gap(scene: &Scene) {
    let server = Server::start();
    // At almost every moment, at least one reader of these four processes is inside. With the bug,
    // a writer must wait for a moment without readers, so it starves.
    let readers = [110, 290, 530, 710].map(|stay_ms| {
        let lane = Lane {
            copies: 6,
            times: 0,
            ..reader(10_000, stay_ms).waits(10_000)
        };
        scene.enter(&server.url(), lane)
    });
    scene.crew.note(&Note::Fair {
        key: "k".to_owned(),
        within: nanos(Duration::from_secs(4)),
    });
    scene.run(&server.url(), Lane::stays("k", 10_000, 10).waits(6_000));
    drop(readers);
}

pub(super) fn four_for_three(scene: &Scene) {
    let server = Server::start();
    let mut lane = place(10_000, 1_000).waits(8_000);
    lane.copies = PLACES + 1;
    scene.run(&server.url(), lane);
}

pub(super) fn one_leaves(scene: &Scene) {
    let server = Server::start();
    let long = scene.enter(&server.url(), reader(10_000, 2_500));
    scene.run(&server.url(), reader(10_000, 50));
    scene.run(&server.url(), Lane::stays("k", 10_000, 10).waits(8_000));
    finish(long);
}

pub(super) fn late_renewal(scene: &Scene) {
    const TTL_MS: u64 = 7_000;
    let server = Server::start();
    let (proxy, probe) = (Proxy::start(server.address()), server.probe());
    let mut living = place(60_000, 60_000);
    living.copies = PLACES - 1;
    let living = scene.start(&server.url(), living);
    scene.await_entries(u64::from(PLACES) - 1);
    let mut dead = scene.enter(&proxy.url(), place(TTL_MS, 60_000).watched());
    let (sent, scripts) = (proxy.counts().commands, probe.calls("evalsha"));
    proxy.set(Network::Delay {
        least: Duration::from_millis(TTL_MS),
        jitter: Duration::ZERO,
    });
    wait::until("it renews", LONG, || proxy.counts().commands > sent);
    dead.process().kill();
    wait::until("the renewal arrives", LONG, || {
        scripts < probe.calls("evalsha")
    });
    let next = scene.start(&server.url(), place(20_000, 10).waits(60_000));
    scene.is_entered(|| ());
    drop((living, next));
}

pub(super) fn full_memory(scene: &Scene) {
    let server = Server::start();
    let hand = scene.enter(&server.url(), reader(1_500, 4_000).watched());
    scene.crew.note(&Note::Undisturbed {
        key: "k".to_owned(),
    });
    let mut full = cmd("CONFIG");
    full.arg("SET").arg("maxmemory").arg(1);
    server.probe().run::<()>(&full);
    finish(hand);
}
