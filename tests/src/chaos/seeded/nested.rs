//! Scenarios of nested calls.

use super::scene::Scene;
use crate::chaos::job::{Form, Lane};
use crate::oracle::{Mode, Note};
use crate::server::Server;

fn nesting(stay_ms: u64) -> Lane {
    Lane::stays("k", 10_000, stay_ms).as_form(Form::Nesting)
}

pub(super) fn two_at_once(scene: &Scene) {
    let server = Server::start();
    scene.crew.note(&Note::Undisturbed {
        key: "k".to_owned(),
    });
    scene.run(&server.url(), nesting(100));
}

/// Runs two tasks with nested calls on one thread, which polls them alternately. With the bug, the
/// thread still counts as inside a body's locks after the poll of the body. So a later call can
/// count as nested in a body that does not contain it.
pub(super) fn two_tasks(scene: &Scene) {
    let server = Server::start();
    let mut lane = nesting(20).waits(8_000);
    lane.copies = 2;
    lane.times = 4;
    let mut job = scene.job(&server.url(), lane);
    job.threads = 1;
    super::scene::finish(scene.crew.spawn(&job, scene.bug));
}

pub(super) fn inside_a_share(scene: &Scene) {
    let server = Server::start();
    scene.run(&server.url(), nesting(50).held_as(Mode::Reader));
}
