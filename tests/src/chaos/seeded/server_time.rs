//! Scenarios with waiting processes while the server's clock is set back.

use super::scene::{LONG, Scene};
use crate::chaos::job::Lane;
use crate::chaos::site::queued;
use crate::oracle::Mode;
use crate::probe::Probe;
use crate::server::ServerOptions;
use crate::server_clock::ServerClock;
use crate::wait;

const HOUR: i64 = 3_600;

pub(super) fn stopped_writer(scene: &Scene) {
    let clock = ServerClock::new();
    let server = ServerOptions::new().clock(&clock).start();
    let probe = server.probe();
    let reader = |stay_ms| {
        let lane = Lane::stays("k", 60_000, stay_ms);
        lane.held_as(Mode::Reader).waits(60_000)
    };
    let first = scene.enter(&server.url(), reader(30_000));
    let mut writer = scene.start(&server.url(), Lane::stays("k", 20_000, 50).waits(60_000));
    wait::until("it queues", LONG, || queued(&probe, "k") == 1);
    writer.process().pause();
    clock.set(-HOUR);
    let mut next = None;
    scene.is_entered(|| next = Some(scene.start(&server.url(), reader(10))));
    drop((first, writer, next));
}

pub(super) fn stopped_successor(scene: &Scene) {
    let clock = ServerClock::new();
    let server = ServerOptions::new().clock(&clock).start();
    let probe = server.probe();
    let lane = |stay_ms| Lane::stays("k", 20_000, stay_ms).waits(60_000);
    assert!(probe.take("lock:k", LONG * 4));
    let mut successor = scene.start(&server.url(), lane(50));
    wait::until("it queues", LONG, || queued(&probe, "k") == 1);
    successor.process().pause();
    probe.give_back("lock:k");
    let next = scene.start(&server.url(), lane(50));
    let handed = || {
        probe
            .get("lock:k")
            .is_some_and(|value| value.ends_with(":claim"))
    };
    wait::until("it is handed the lock", LONG, handed);
    clock.set(-HOUR);
    scene.is_entered(|| ());
    drop((successor, next));
}
