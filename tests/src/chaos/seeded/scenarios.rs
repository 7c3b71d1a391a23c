//! Scenarios on one Redis server.

use std::time::Duration;

use leasehold::__test::now;

use super::scene::{LONG, Scene, finish};
use crate::chaos::faults::kill_clients;
use crate::chaos::ground::{connect, local_runtime};
use crate::chaos::job::{Form, Lane, Work};
use crate::chaos::r10_sql::Shifts;
use crate::chaos::site::queued;
use crate::chaos::store::Store;
use crate::oracle::Note;
use crate::probe::Probe;
use crate::proxy::{After, Mode, Proxy};
use crate::server::Server;
use crate::wait;

pub(super) fn late_replies(scene: &Scene) {
    let server = Server::start();
    let proxy = Proxy::start(server.address());
    let second = Lane::stays("k", 1_500, 100).waits(8_000);
    let mut first = Lane::stays("k", 1_500, 10_000);
    first.wait_ms = 5_000;
    let mut job = scene.job(&proxy.url(), first);
    job.io_timeout_ms = 5_000;
    let late = || proxy.set(Mode::DelayReplies(Duration::from_millis(700)));
    let first = scene.crew.spawn_gated(job, scene.bug, late);
    scene.await_entries(1);
    let second = scene.start(&server.url(), second);
    finish(first);
    finish(second);
}

pub(super) fn deleted(scene: &Scene) {
    let server = Server::start();
    let hand = scene.enter(&server.url(), Lane::stays("k", 3_000, 6_000).watched());
    scene.must_leave("k", || {
        server.probe().delete("lock:k");
    });
    finish(hand);
}

/// Deletes the key of a body that is polled only at the end of its wait, or when the engine signals
/// the loss. So the body ends in time only if the signal wakes it.
pub(super) fn deleted_while_it_waits(scene: &Scene) {
    let server = Server::start();
    let mut lane = Lane::stays("k", 3_000, 0).watched();
    lane.work = Work::Wait { ms: 6_000 };
    let hand = scene.enter(&server.url(), lane);
    scene.must_leave("k", || {
        server.probe().delete("lock:k");
    });
    finish(hand);
}

/// Deletes one of two locks that a process renews in one batch. To get one batch, the scenario ends
/// the connections: after a reconnect, a process renews all its locks together.
pub(super) fn one_of_two_deleted(scene: &Scene) {
    let server = Server::start();
    scene.crew.note(&Note::Undisturbed {
        key: "a".to_owned(),
    });
    let mut lane = Lane::stays("a", 3_000, 5_000).watched().on(&["a", "b"]);
    lane.copies = 2;
    lane.in_turn = true;
    let hand = scene.start(&server.url(), lane);
    scene.await_entries(2);
    server.probe().delete("lock:b");
    kill_clients(&server);
    finish(hand);
}

/// Deletes the key of a guard's lock while the guard is held. The release of the guard must report
/// the loss.
pub(super) fn gone(scene: &Scene) {
    let server = Server::start();
    let lane = Lane::stays("k", 60_000, 500).as_form(Form::ByHand);
    scene.crew.note(&Note::MustReport {
        key: "k".to_owned(),
    });
    let hand = scene.enter(&server.url(), lane);
    server.probe().delete("lock:k");
    finish(hand);
}

pub(super) fn cut_off(scene: &Scene) {
    let server = Server::start();
    let proxy = Proxy::start(server.address());
    let first = scene.enter(&proxy.url(), Lane::stays("k", 800, 3_500).watched());
    proxy.set(Mode::Refuse);
    proxy.cut();
    let second = scene.start(&server.url(), Lane::stays("k", 800, 300).waits(8_000));
    finish(second);
    proxy.pass();
    finish(first);
}

pub(super) fn dropped(scene: &Scene) {
    let server = Server::start();
    let proxy = Proxy::start(server.address());
    let mut lane = Lane::stays("k", 10_000, 10_000);
    lane.drop_one_in = 1;
    finish(scene.delayed(&proxy, lane, Duration::from_millis(100)));
    let probe = server.probe().namespace("lock:");
    scene.comes_free(&probe, "k", Duration::from_secs(2));
}

/// Drops each call after at most 20 ms, so that some are dropped while their bodies run.
pub(super) fn dropped_inside(scene: &Scene) {
    const TASKS: u32 = 8;
    let server = Server::start();
    let mut lane = Lane::stays("k0", 20_000, 20_000);
    lane.keys = (0..TASKS).map(|number| format!("k{number}")).collect();
    lane.in_turn = true;
    lane.copies = TASKS;
    lane.times = 4;
    lane.drop_one_in = 1;
    finish(scene.start(&server.url(), lane));
    let probe = server.probe();
    let (due, within) = (now(), Duration::from_secs(2));
    let free = || probe.keys("lock:k*").is_empty();
    wait::try_until(within * 2, free);
    scene.free("k", due, now(), within);
}

/// Loses the request of a release, and then ends the connection that carried the request.
pub(super) fn release_cut_off(scene: &Scene) {
    let server = Server::start();
    let proxy = Proxy::start(server.address());
    let hand = scene.enter(&proxy.url(), Lane::stays("k", 30_000, 800));
    proxy.set(Mode::SwallowRequests);
    scene.await_end();
    std::thread::sleep(Duration::from_millis(100));
    proxy.pass();
    proxy.cut();
    let probe = server.probe().namespace("lock:");
    scene.comes_free(&probe, "k", Duration::from_secs(3));
    finish(hand);
}

/// Loses the request of a release, lets the program end with an orderly shutdown, and then heals
/// the network.
pub(super) fn ends_while_it_releases(scene: &Scene) {
    let server = Server::start();
    let proxy = Proxy::start(server.address());
    let mut hand = scene.enter(&proxy.url(), Lane::stays("k", 30_000, 800));
    proxy.set(Mode::SwallowRequests);
    scene.await_end();
    // Without the bug, the shutdown waits up to 5 s for the release, so the program still runs
    // after these 3 s.
    wait::try_until(Duration::from_secs(3), || hand.has_ended());
    proxy.pass();
    proxy.cut();
    let probe = server.probe().namespace("lock:");
    scene.comes_free(&probe, "k", Duration::from_secs(4));
    finish(hand);
}

pub(super) fn straggler(scene: &Scene) {
    let server = Server::start();
    let proxy = Proxy::start(server.address());
    let lane = Lane::stays("k", 30_000, 50).waits(5_000);
    let hand = scene.delayed(&proxy, lane, Duration::from_millis(1_500));
    // `set_up` is the number of commands that the worker sends while it connects. The next command
    // is the acquire.
    let set_up = scene.set_up();
    wait::until("the acquire is on its way", LONG, || {
        proxy.counts().commands > set_up
    });
    // `pass` ends the delay for new connections. The acquire on the old connection is still
    // delayed, so it reaches the server after that connection has ended.
    proxy.pass();
    proxy.hang_up(Duration::ZERO);
    let probe = server.probe().namespace("lock:");
    scene.comes_free(&probe, "k", Duration::from_secs(4));
    finish(hand);
}

pub(super) fn taken(scene: &Scene) {
    let server = Server::start();
    scene.run(&server.url(), Lane::stays("k", 60_000, 10));
}

pub(super) fn queues(scene: &Scene) {
    let server = Server::start();
    let probe = server.probe().namespace("lock:");
    assert!(probe.take("k", Duration::from_secs(60)));
    scene.crew.note(&Note::Undisturbed {
        key: "k".to_owned(),
    });
    scene.run(&server.url(), Lane::stays("k", 1_000, 10).waits(300));
}

pub(super) fn stopped(scene: &Scene) {
    let server = Server::start();
    let mut hand = scene.enter(&server.url(), Lane::stays("k", 400, 1_500));
    hand.process().pause();
    std::thread::sleep(Duration::from_millis(500));
    hand.process().resume();
    finish(hand);
}

pub(super) fn slow_drop(scene: &Scene) {
    let server = Server::start();
    let mut lane = Lane::stays("k", 3_000, 10_000).waits(10_000);
    // The loss is signalled 150 ms before the end of the lease. The destructor (`slow_drop_ms`)
    // takes only 70 ms, so it ends before the lease ends.
    lane.work = Work::Stay {
        ms: 10_000,
        slow_drop_ms: 70,
    };
    lane.copies = 2;
    scene.run(&server.url(), lane);
}

pub(super) fn late_release(scene: &Scene) {
    let server = Server::start();
    let mut lane = Lane::stays("k", 400, 0);
    // The body is one long poll, which the gate cannot interrupt.
    lane.work = Work::Block { ms: 1_500 };
    let first = scene.enter(&server.url(), lane);
    let second = scene.enter(&server.url(), Lane::stays("k", 10_000, 3_500).waits(5_000));
    let third = scene.start(&server.url(), Lane::stays("k", 10_000, 50).waits(9_000));
    for hand in [first, second, third] {
        finish(hand);
    }
}

pub(super) fn stolen(scene: &Scene) {
    let server = Server::start();
    let probe = server.probe().namespace("lock:");
    let hand = scene.enter(&server.url(), Lane::stays("k", 900, 2_500).watched());
    probe.steal("k", Duration::from_secs(60));
    finish(hand);
    let kept = probe.untouched("k");
    let long = probe
        .ttl("k")
        .is_some_and(|left| left > Duration::from_secs(30));
    scene.crew.note(&Note::Foreign {
        key: "k".to_owned(),
        untouched: kept && long,
    });
}

pub(super) fn lost_reply(scene: &Scene) {
    let server = Server::start();
    let proxy = Proxy::start(server.address());
    proxy.lose_replies("lock:k", 1, After::Cut);
    scene.crew.note(&Note::Alone {
        key: "k".to_owned(),
    });
    scene.run(&proxy.url(), Lane::stays("k", 10_000, 10).waits(2_000));
}

pub(super) fn restarted(scene: &Scene) {
    let mut server = Server::start();
    scene.run(&server.url(), Lane::stays("k", 1_000, 10));
    server.restart();
    scene.run(&server.url(), Lane::stays("k", 1_000, 10));
}

pub(super) fn takes_long(scene: &Scene) {
    let server = Server::start();
    scene.crew.note(&Note::Undisturbed {
        key: "k".to_owned(),
    });
    scene.run(&server.url(), Lane::stays("k", 1_500, 4_500).watched());
}

pub(super) fn handed_over_late(scene: &Scene) {
    let server = Server::start();
    let mut lane = Lane::stays("k", 1_500, 1_200).waits(10_000);
    // The first call requests the lock before the other calls wait, so it reserves no fence for
    // them and cannot pass its lock on. Only the second call can pass its lock on, to the third
    // call.
    lane.copies = 3;
    let mut job = scene.job(&server.url(), lane);
    // With zero, the process never leaves the key free for clients without a queue. Such a pause
    // would interrupt the series of hand-overs.
    job.make_way_ms = Some(0);
    let first = scene.crew.spawn(&job, scene.bug);
    scene.await_entries(2);
    let second = scene.start(&server.url(), Lane::stays("k", 1_500, 100).waits(10_000));
    finish(first);
    finish(second);
}

pub(super) fn handed_over(scene: &Scene) {
    let server = Server::start();
    let mut lane = Lane::stays("k", 20_000, 50).waits(10_000);
    lane.copies = 4;
    scene.run(&server.url(), lane);
}

/// Lets three calls of one process follow each other. The third call continues the lease of the
/// second, and its body takes longer than the ttl.
pub(super) fn handed_over_for_long(scene: &Scene) {
    let server = Server::start();
    scene.crew.note(&Note::Undisturbed {
        key: "k".to_owned(),
    });
    let mut lane = Lane::stays("k", 1_500, 2_200).watched().waits(12_000);
    lane.copies = 3;
    let mut job = scene.job(&server.url(), lane);
    // With zero, the process never leaves the key free for clients without a queue. Such a pause
    // would interrupt the series of hand-overs.
    job.make_way_ms = Some(0);
    finish(scene.crew.spawn(&job, scene.bug));
}

pub(super) fn second_process(scene: &Scene) {
    let server = Server::start();
    let first = scene.enter(&server.url(), Lane::stays("k", 10_000, 1_500));
    scene.run(&server.url(), Lane::stays("k", 10_000, 10).waits(8_000));
    finish(first);
}

/// Lets a call wait for the lock of a client that does not use the queue. That client then deletes
/// the lock.
pub(super) fn comes_free(scene: &Scene) {
    let server = Server::start();
    let probe = server.probe();
    assert!(probe.take("lock:k", LONG * 4));
    let lane = Lane::stays("k", 20_000, 50).waits(60_000);
    let waiter = scene.start(&server.url(), lane);
    wait::until("it queues", LONG, || queued(&probe, "k") == 1);
    scene.is_entered(|| probe.give_back("lock:k"));
    drop(waiter);
}

pub(super) fn message_lost(scene: &Scene) {
    let server = Server::start();
    let (proxy, probe) = (Proxy::start(server.address()), server.probe());
    let runtime = local_runtime();
    let pool = runtime.block_on(connect(&server.url()));
    let held = pool.lock("k").ttl(LONG * 2).acquire();
    let held = runtime.block_on(held).expect("it is free");
    let job = scene.job(&proxy.url(), Lane::stays("k", 20_000, 50).waits(60_000));
    let lose = || proxy.set(Mode::LoseMessages);
    let waiter = scene.crew.spawn_gated(job, scene.bug, lose);
    wait::until("it queues", LONG, || queued(&probe, "k") == 1);
    scene.is_entered(|| drop(held));
    drop(waiter);
}

pub(super) fn stopped_waiter(scene: &Scene) {
    let server = Server::start();
    let probe = server.probe();
    assert!(probe.take("lock:k", LONG * 4));
    let lane = || Lane::stays("k", 20_000, 50).waits(60_000);
    let mut stopped = scene.start(&server.url(), lane());
    wait::until("one queues", LONG, || queued(&probe, "k") == 1);
    stopped.process().pause();
    let next = scene.start(&server.url(), lane());
    wait::until("another one queues", LONG, || queued(&probe, "k") == 2);
    scene.is_entered(|| probe.give_back("lock:k"));
    drop((stopped, next));
}

/// Stops a process until the leases of its locks have ended, and resumes it. The bug is in the
/// protected resource, which accepts the late writes of this process. All other seeded bugs are in
/// the lock.
pub(super) fn resumed(scene: &Scene) {
    let mut shifts = Shifts::start(&scene.crew, Store::Redis, scene.bug.is_none());
    shifts.change();
}
