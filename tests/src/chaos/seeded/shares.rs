//! What happens to readers and writers, and to places.

use std::time::Duration;

use super::scene::{LONG, Scene, finish};
use crate::chaos::body::nanos;
use crate::chaos::calls::PLACES;
use crate::chaos::job::Lane;
use crate::chaos::r24_queues::queued;
use crate::oracle::{Mode, Note};
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
    // Some are inside at any time: those of one lane may come and go together, and no two lanes go at the same time for long.
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
