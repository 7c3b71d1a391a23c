//! The seeded bugs: for each the smallest scenario in which the oracle sees it.
//!
//! A bug lives in a worker process (`LEASEHOLD_SEEDED_BUG`). Every scenario also runs without it, and must
//! then be without a violation.

use std::cell::Cell;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use leasehold::__test::now;

use super::crew::{Crew, Hand};
use super::job::{Job, Lane, Work};
use crate::oracle::{Kind, Note, Report};
use crate::probe::Probe;
use crate::proxy::{After, Mode, Proxy};
use crate::quorum::{self, Quorum};
use crate::redis_probe::RedisProbe;
use crate::server::Server;
use crate::wait;

const LONG: Duration = Duration::from_secs(15);

/// A bug, and what finds it.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// Its name, as `leasehold::__test::bugs` has it.
    pub bug: &'static str,
    /// What the oracle must say.
    pub kind: Kind,
    /// The scenario, in words.
    pub what: &'static str,
    scenario: fn(&Scene),
}

/// All of them.
pub const CASES: [Case; 19] = [
    case(
        "CountedFromReply",
        Kind::Overlap,
        "replies are late, and a second holder waits",
        late_replies,
    ),
    case(
        "LossIgnored",
        Kind::ToldLate,
        "the key is deleted under a renewed lease",
        deleted,
    ),
    case(
        "UnknownIsSuccess",
        Kind::Overlap,
        "a renewing holder is cut off from the store, and a second one waits",
        cut_off,
    ),
    case(
        "OrphanForgotten",
        Kind::FreedLate,
        "a call is dropped while its request is on the way",
        dropped,
    ),
    case(
        "RemovalBelieved",
        Kind::FreedLate,
        "a request arrives after its connection has ended",
        straggler,
    ),
    case("NoMargin", Kind::LeaseTooLong, "a lock is taken", taken),
    case(
        "BudgetIgnored",
        Kind::OverBudget,
        "a call queues for a key that stays locked",
        queues,
    ),
    case(
        "NoGate",
        Kind::PollAfterDeadline,
        "a process is stopped beyond its lease",
        stopped,
    ),
    case(
        "ReleasedBeforeDrop",
        Kind::Overlap,
        "a lease ends while a slow destructor runs and another call waits",
        slow_drop,
    ),
    case(
        "DeleteWithoutCompare",
        Kind::Overlap,
        "a late holder releases while a second one is inside and a third one waits",
        late_release,
    ),
    case(
        "RenewWithoutCompare",
        Kind::ForeignTouched,
        "another client takes the key of a renewing holder",
        stolen,
    ),
    case(
        "RenewBySet",
        Kind::ForeignTouched,
        "another client takes the key of a renewing holder",
        stolen,
    ),
    case(
        "NotIdempotent",
        Kind::SelfRefusal,
        "the reply to an acquire is lost",
        lost_reply,
    ),
    case(
        "FenceFromCounter",
        Kind::FenceOrder,
        "the server restarts with nothing on disk",
        restarted,
    ),
    case(
        "WatchdogAsleep",
        Kind::FalseLoss,
        "a body takes three times its ttl",
        takes_long,
    ),
    case(
        "PassedOnWithoutEnd",
        Kind::Overlap,
        "a lock is passed on in a process late in its lease, and another process waits",
        passed_on_late,
    ),
    case(
        "FencePassedOn",
        Kind::FenceOrder,
        "calls of a process follow each other",
        passed_on,
    ),
    case(
        "QuorumOfAnswers",
        Kind::Overlap,
        "each of two processes reaches a node of three that the other does not reach",
        split,
    ),
    case(
        "NoQuarantine",
        Kind::Overlap,
        "one node of three is restarted empty while another has missed the lock",
        forgetful,
    ),
];

const fn case(bug: &'static str, kind: Kind, what: &'static str, scenario: fn(&Scene)) -> Case {
    Case {
        bug,
        kind,
        what,
        scenario,
    }
}

impl Case {
    /// Plays the scenario, with the bug or without, and says what the oracle found.
    pub fn play(&self, program: &Path, folder: &Path, with_bug: bool) -> Report {
        let kind = if with_bug { "with" } else { "without" };
        let folder = folder.join(format!("{}-{kind}", self.bug));
        let crew = Crew::new(program, &folder, self.what, 1);
        let scene = Scene {
            crew,
            bug: with_bug.then_some(self.bug),
            set_up: Cell::new(0),
        };
        (self.scenario)(&scene);
        scene.crew.report()
    }
}

/// Where a scenario is played.
struct Scene {
    crew: Crew,
    bug: Option<&'static str>,
    /// How many commands a gated worker's set-up took.
    set_up: Cell<u64>,
}

impl Scene {
    fn job(&self, url: &str, lane: Lane) -> Job {
        self.crew.job(url, vec![lane])
    }

    /// A worker with the bug.
    fn start(&self, url: &str, lane: Lane) -> Hand {
        self.crew.spawn(&self.job(url, lane), self.bug)
    }

    /// A worker with the bug whose calls take so long each way.
    fn delayed(&self, proxy: &Proxy, lane: Lane, least: Duration) -> Hand {
        let job = self.job(&proxy.url(), lane);
        self.crew.spawn_gated(job, self.bug, || {
            self.set_up.set(proxy.counts().commands);
            proxy.set(Mode::Delay {
                least,
                jitter: Duration::ZERO,
            });
        })
    }

    /// A worker with the bug that is inside its lock.
    fn enter(&self, url: &str, lane: Lane) -> Hand {
        let entered = self.entered();
        let hand = self.start(url, lane);
        self.await_entries(entered + 1);
        hand
    }

    fn entered(&self) -> u64 {
        self.crew.report().sections
    }

    fn await_entries(&self, count: u64) {
        wait::until("a body begins", LONG, || self.entered() >= count);
    }

    fn run(&self, url: &str, lane: Lane) {
        finish(self.start(url, lane));
    }

    /// Notes when `key`, without a holder since now, came free.
    fn comes_free(&self, probe: &RedisProbe, key: &str, within: Duration) {
        let due = now();
        // What was late on its way is there by then, and what was to be removed is gone, or will stay.
        wait::try_until(within * 2, || {
            now() > due + nanos(within) && !probe.exists(key)
        });
        let at = if probe.exists(key) { now() } else { due };
        self.free(key, due, at, within);
    }

    fn free(&self, key: &str, due: u64, at: u64, within: Duration) {
        self.crew.note(&Note::Free {
            key: key.to_owned(),
            due,
            at,
            within: nanos(within),
        });
    }
}

/// Waits for the end of a worker's lanes.
fn finish(mut hand: Hand) {
    wait::until("the worker ends", LONG, || hand.has_ended());
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

fn late_replies(scene: &Scene) {
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

fn deleted(scene: &Scene) {
    let server = Server::start();
    let hand = scene.enter(&server.url(), Lane::stays("k", 3_000, 6_000).watched());
    let at = now();
    server.probe().delete("lock:k");
    // The next renewal comes within a second, a third of the ttl.
    let by = at + nanos(Duration::from_millis(1_900));
    scene.crew.note(&Note::MustLeave {
        key: "k".to_owned(),
        at,
        by,
    });
    finish(hand);
}

fn cut_off(scene: &Scene) {
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

fn dropped(scene: &Scene) {
    let server = Server::start();
    let proxy = Proxy::start(server.address());
    let mut lane = Lane::stays("k", 10_000, 10_000);
    lane.drop_one_in = 1;
    finish(scene.delayed(&proxy, lane, Duration::from_millis(100)));
    let probe = server.probe().namespace("lock:");
    scene.comes_free(&probe, "k", Duration::from_secs(2));
}

fn straggler(scene: &Scene) {
    let server = Server::start();
    let proxy = Proxy::start(server.address());
    let lane = Lane::stays("k", 30_000, 50).waits(5_000);
    let hand = scene.delayed(&proxy, lane, Duration::from_millis(1_500));
    // More than the set-up.
    let set_up = scene.set_up.get();
    wait::until("the acquire is on its way", LONG, || {
        proxy.counts().commands > set_up
    });
    // New connections are fast; what is on its way on the old one stays so.
    proxy.pass();
    proxy.hang_up(Duration::ZERO);
    let probe = server.probe().namespace("lock:");
    scene.comes_free(&probe, "k", Duration::from_secs(4));
    finish(hand);
}

fn taken(scene: &Scene) {
    let server = Server::start();
    scene.run(&server.url(), Lane::stays("k", 60_000, 10));
}

fn queues(scene: &Scene) {
    let server = Server::start();
    let probe = server.probe().namespace("lock:");
    assert!(probe.take("k", Duration::from_secs(60)));
    scene.crew.note(&Note::Undisturbed {
        key: "k".to_owned(),
    });
    scene.run(&server.url(), Lane::stays("k", 1_000, 10).waits(300));
}

fn stopped(scene: &Scene) {
    let server = Server::start();
    let mut hand = scene.enter(&server.url(), Lane::stays("k", 400, 1_500));
    hand.process().pause();
    std::thread::sleep(Duration::from_millis(500));
    hand.process().resume();
    finish(hand);
}

fn slow_drop(scene: &Scene) {
    let server = Server::start();
    let mut lane = Lane::stays("k", 3_000, 10_000).waits(10_000);
    // The destructor takes less than what lies between the soft and the hard end of the lease: 150 ms.
    lane.work = Work::Stay {
        ms: 10_000,
        slow_drop_ms: 70,
    };
    lane.copies = 2;
    scene.run(&server.url(), lane);
}

fn late_release(scene: &Scene) {
    let server = Server::start();
    let mut lane = Lane::stays("k", 400, 0);
    // One long poll, which no gate can end.
    lane.work = Work::Block { ms: 1_500 };
    let first = scene.enter(&server.url(), lane);
    let second = scene.enter(&server.url(), Lane::stays("k", 10_000, 3_500).waits(5_000));
    let third = scene.start(&server.url(), Lane::stays("k", 10_000, 50).waits(9_000));
    for hand in [first, second, third] {
        finish(hand);
    }
}

fn stolen(scene: &Scene) {
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

fn lost_reply(scene: &Scene) {
    let server = Server::start();
    let proxy = Proxy::start(server.address());
    proxy.lose_replies("lock:k", 1, After::Cut);
    scene.crew.note(&Note::Alone {
        key: "k".to_owned(),
    });
    scene.run(&proxy.url(), Lane::stays("k", 10_000, 10).waits(2_000));
}

fn restarted(scene: &Scene) {
    let mut server = Server::start();
    scene.run(&server.url(), Lane::stays("k", 1_000, 10));
    server.restart();
    scene.run(&server.url(), Lane::stays("k", 1_000, 10));
}

fn passed_on_late(scene: &Scene) {
    let server = Server::start();
    let mut lane = Lane::stays("k", 1_500, 1_200).waits(10_000);
    // The first ends before it is known that another will wait; the second passes its lock on to the third.
    lane.copies = 3;
    let first = scene.enter(&server.url(), lane);
    scene.await_entries(2);
    let second = scene.start(&server.url(), Lane::stays("k", 1_500, 100).waits(10_000));
    finish(first);
    finish(second);
}

fn passed_on(scene: &Scene) {
    let server = Server::start();
    let mut lane = Lane::stays("k", 20_000, 50).waits(10_000);
    lane.copies = 4;
    scene.run(&server.url(), lane);
}

fn split(scene: &Scene) {
    let nodes = Quorum::older_than(3, Duration::from_secs(2));
    // The first reaches node 0 only.
    let first = Lane::stays("k", 2_000, 1_500);
    let (first, _one) = cut_off_from(scene, &nodes, 1..3, first);
    // With the bug it is inside by then.
    wait::try_until(Duration::from_millis(1_500), || scene.entered() > 0);
    let second = Lane::stays("k", 2_000, 100).waits(8_000);
    let (second, _two) = cut_off_from(scene, &nodes, 0..1, second);
    finish(second);
    finish(first);
}

/// A worker that has connected to all nodes and reaches some of them no more when it begins.
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

fn forgetful(scene: &Scene) {
    let mut nodes = Quorum::older_than(3, Duration::from_secs(3));
    let url = nodes.url();
    let stays = Lane::stays("k", 3_000, 2_500);
    let missing = |nodes: &Quorum| nodes.servers[2].pause();
    let job = scene.job(&url, stays);
    let first = scene.crew.spawn_gated(job, scene.bug, || missing(&nodes));
    scene.await_entries(1);
    nodes.servers[1].restart();
    nodes.servers[2].resume();
    let second = Lane::stays("k", 3_000, 100).waits(15_000);
    finish(scene.start(&url, second));
    finish(first);
}

fn takes_long(scene: &Scene) {
    let server = Server::start();
    scene.crew.note(&Note::Undisturbed {
        key: "k".to_owned(),
    });
    scene.run(&server.url(), Lane::stays("k", 1_500, 4_500).watched());
}
