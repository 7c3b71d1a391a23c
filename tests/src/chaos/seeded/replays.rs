//! Scenarios of results that are kept.

use std::time::Duration;

use super::scene::{LONG, Scene, finish};
use crate::chaos::job::{Form, Lane, Work};
use crate::oracle::Note;
use crate::probe::Probe;
use crate::proxy::Proxy;
use crate::server::Server;
use crate::wait;

/// A call whose body takes no time. Its result outlives the scenario.
fn click(requests: u64) -> Lane {
    Lane::stays("k", 2_000, 0).as_form(Form::Replayed {
        ms: 60_000,
        requests,
    })
}

/// From here on the store keeps every result.
fn all_kept(scene: &Scene) {
    scene.crew.note(&Note::AllKept {
        key: "k".to_owned(),
    });
}

/// A body blocks its thread past the end of its lease. Another call runs meanwhile, and a third one
/// comes when the first is done.
pub(super) fn late(scene: &Scene) {
    all_kept(scene);
    let server = Server::start();
    let probe = server.probe().namespace("lock:");
    let mut blocked = click(1);
    blocked.work = Work::Block { ms: 6_000 };
    let first = scene.enter(&server.url(), blocked);
    wait::until("the first lease ends", LONG, || !probe.exists("k"));
    scene.run(&server.url(), click(1));
    finish(first);
    scene.run(&server.url(), click(1));
}

/// The release and the request behind it take long, and another process waits for the lock.
pub(super) fn slow(scene: &Scene) {
    all_kept(scene);
    let server = Server::start();
    let proxy = Proxy::start(server.address());
    let mut far = click(1);
    far.ttl_ms = 20_000;
    far.work = Work::Wait { ms: 1_500 };
    let first = scene.delayed(&proxy, far.clone(), Duration::from_millis(150));
    scene.await_entries(1);
    far.work = Work::Wait { ms: 0 };
    let second = scene.start(&server.url(), far.waits(10_000));
    finish(first);
    finish(second);
}

/// Two different requests have one key.
pub(super) fn requests(scene: &Scene) {
    all_kept(scene);
    let server = Server::start();
    let mut clicks = click(4);
    clicks.times = 24;
    scene.run(&server.url(), clicks);
}

/// The first call fails.
pub(super) fn fails(scene: &Scene) {
    all_kept(scene);
    let server = Server::start();
    let mut failing = click(1);
    failing.fails = true;
    scene.run(&server.url(), failing);
    let mut clicks = click(1);
    clicks.times = 2;
    scene.run(&server.url(), clicks);
}
