//! Scenarios of kept results.

use super::scene::{LONG, Scene, finish};
use crate::chaos::job::{Form, Lane, Work};
use crate::oracle::Note;
use crate::probe::Probe;
use crate::server::Server;
use crate::wait;

/// Returns a call whose body takes no time, and whose result outlives the scenario.
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

/// Lets a body block its thread beyond the end of its lease. Another call runs meanwhile, and a
/// third call begins after both have ended. The third call must get the result of the second call.
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

/// Sends different requests for one key.
pub(super) fn requests(scene: &Scene) {
    all_kept(scene);
    let server = Server::start();
    let mut clicks = click(4);
    clicks.times = 24;
    scene.run(&server.url(), clicks);
}
