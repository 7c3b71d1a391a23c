//! Scenarios of kept results.

use super::scene::{LONG, Scene, finish};
use crate::chaos::job::{Form, Lane, Work};
use crate::oracle::Note;
use crate::probe::Probe;
use crate::server::Server;
use crate::wait;

/// Returns a group of calls, by default one call. Their bodies take no time, and their results are
/// kept for longer than the scenario lasts. Each call sends one of `requests` different requests.
fn click(requests: u64) -> Lane {
    Lane::stays("k", 2_000, 0).as_form(Form::Replayed {
        ms: 60_000,
        requests,
    })
}

/// Notes that the store loses no result of the key `k`.
fn all_kept(scene: &Scene) {
    scene.crew.note(&Note::AllKept {
        key: "k".to_owned(),
    });
}

/// Lets a body block its thread beyond the end of its lease. Meanwhile a second call runs and keeps
/// its result. A third call, after the first two have ended, must get the result of the second.
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

/// Sends different `replay` requests for one key. No call may get the result of a different
/// request.
pub(super) fn requests(scene: &Scene) {
    all_kept(scene);
    let server = Server::start();
    let mut clicks = click(4);
    clicks.times = 24;
    scene.run(&server.url(), clicks);
}
