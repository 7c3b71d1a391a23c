//! Scenarios of `cooldown` and `max_hold`.

use std::time::Duration;

use leasehold::__test::now;

use super::scene::{Scene, finish};
use crate::chaos::job::{Form, Lane};
use crate::chaos::span::nanos;
use crate::oracle::Note;
use crate::server::Server;

pub(super) fn fails(scene: &Scene) {
    let server = Server::start();
    let mut lane = Lane::stays("k", 20_000, 50).as_form(Form::Kept { ms: 10_000 });
    lane.fails = true;
    scene.run(&server.url(), lane);
    let probe = server.probe().namespace("lock:");
    scene.comes_free(&probe, "k", Duration::from_secs(2));
}

pub(super) fn next_call_waits(scene: &Scene) {
    let server = Server::start();
    scene.crew.note(&Note::Undisturbed {
        key: "k".to_owned(),
    });
    let kept = Form::Kept { ms: 1_500 };
    let mut lane = Lane::stays("k", 20_000, 50).as_form(kept).waits(10_000);
    // The first call requests the lock before the other calls wait, so it reserves no fence for
    // them and cannot hand its lock over. With the bug, the second call hands its lock over to the
    // third, although the key should stay locked.
    lane.copies = 3;
    scene.run(&server.url(), lane);
}

pub(super) fn downgraded(scene: &Scene) {
    const MAX_HOLD: u64 = 3_000;
    let server = Server::start();
    let form = Form::Downgrading {
        max_hold_ms: MAX_HOLD,
    };
    let lane = Lane::stays("k", 1_500, 2_500).as_form(form).watched();
    let hand = scene.enter(&server.url(), lane);
    let at = now();
    scene.crew.note(&Note::MustLeave {
        key: "k".to_owned(),
        at,
        by: at + nanos(Duration::from_millis(MAX_HOLD + 800)),
    });
    finish(hand);
}
