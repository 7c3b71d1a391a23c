//! Scenarios in which one call takes two keys.

use std::time::Duration;

use leasehold::__test::now;

use super::scene::{LONG, Scene, finish};
use crate::chaos::job::{Form, Lane, Work};
use crate::chaos::site::queued;
use crate::chaos::span::nanos;
use crate::oracle::Note;
use crate::probe::Probe;
use crate::proxy::Proxy;
use crate::server::Server;
use crate::wait;

fn pair(ttl_ms: u64, stay_ms: u64) -> Lane {
    let lane = Lane::stays("a", ttl_ms, stay_ms).as_form(Form::Pair);
    lane.on(&["a", "b"])
}

/// Deletes the second key of a body that is polled only at the end of its wait, or when the engine
/// signals a loss. So the body ends in time only if the signal wakes it.
pub(super) fn second_key_lost(scene: &Scene) {
    let server = Server::start();
    let mut lane = pair(3_000, 0).watched();
    lane.work = Work::Wait { ms: 6_000 };
    let hand = scene.enter(&server.url(), lane);
    scene.must_leave("b", || {
        server.probe().delete("lock:b");
    });
    finish(hand);
}

/// Stops a process before the end of the lease on its first key, and resumes it shortly after that
/// end. This lease ends before the lease on the second key, for which the call had to wait.
pub(super) fn first_key_ends(scene: &Scene) {
    // The signal of the loss of the second lease would end the body even with the bug. So the
    // process must resume before this signal. With this ttl, it resumes 2.2 s earlier. With a ttl
    // of 6 s it would resume only 0.8 s earlier, which is not enough on a busy machine.
    const TTL: Duration = Duration::from_secs(16);
    let server = Server::start();
    let probe = server.probe().namespace("lock:");
    assert!(probe.take("b", LONG));
    let mut hand = scene.start(&server.url(), pair(16_000, 30_000).waits(30_000));
    wait::until("the call waits for the second key", LONG, || {
        probe.exists("a") && queued(&server.probe(), "b") == 1
    });
    let taken = now();
    std::thread::sleep(TTL / 4);
    probe.give_back("b");
    scene.await_entries(1);
    hand.process().pause();
    let over = Duration::from_nanos(taken + nanos(TTL * 21 / 20) - now());
    std::thread::sleep(over);
    hand.process().resume();
    finish(hand);
}

pub(super) fn one_budget(scene: &Scene) {
    let server = Server::start();
    let probe = server.probe().namespace("lock:");
    for key in ["a", "b"] {
        assert!(probe.take(key, LONG * 2));
        scene.crew.note(&Note::Undisturbed {
            key: key.to_owned(),
        });
    }
    let hand = scene.start(&server.url(), pair(10_000, 10).watched().waits(2_000));
    wait::until("the call queues", LONG, || {
        queued(&server.probe(), "a") == 1
    });
    std::thread::sleep(Duration::from_millis(1_500));
    probe.give_back("a");
    finish(hand);
}

pub(super) fn dropped(scene: &Scene) {
    let server = Server::start();
    let proxy = Proxy::start(server.address());
    let mut lane = pair(10_000, 10_000);
    lane.drop_one_in = 1;
    finish(scene.delayed(&proxy, lane, Duration::from_millis(100)));
    let probe = server.probe().namespace("lock:");
    scene.comes_free(&probe, "b", Duration::from_secs(2));
}

pub(super) fn released(scene: &Scene) {
    let server = Server::start();
    let probe = server.probe().namespace("lock:");
    let hand = scene.enter(&server.url(), pair(20_000, 50));
    scene.comes_free(&probe, "b", Duration::from_secs(2));
    drop(hand);
}
