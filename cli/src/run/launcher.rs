//! The last step before the command: this process becomes it.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use super::clock::{self, Moment};
use super::role::{self, Settings};
use super::says::Says;
use crate::exit;

/// Starts the command in the place of this process, unless its lease is about to end, or its
/// guardian is dead. Returns only if it does not start.
///
/// The kernel kills the command when its guardian dies. That holds across `exec`, except for
/// programs that run as another user (set-user-ID).
pub(super) fn launch(settings: &Settings, command: &[OsString]) -> u8 {
    if set_parent_process_death_signal(Some(Signal::KILL)).is_err() {
        return exit::SYSTEM;
    }
    // Checked after the line above: a guardian that died before it sends no signal.
    let parent = getppid().map(|parent| parent.as_raw_nonzero().get());
    if parent != Some(settings.parent) {
        return exit::SYSTEM;
    }
    let says = Says::new(settings.json);
    let Some((program, arguments)) = command.split_first() else {
        return exit::USAGE;
    };
    if is_over(settings.moment) {
        says.too_late();
        return exit::HELD;
    }
    let error = Command::new(program).args(arguments).exec();
    says.not_started(program, &error);
    match error.kind() {
        ErrorKind::NotFound => exit::NOT_FOUND,
        _ => exit::NOT_EXECUTABLE,
    }
}

/// The lease may have ended while this process stood still.
fn is_over(latest: Moment) -> bool {
    latest <= clock::now()
}

/// The arguments with which the guardian starts this.
pub(super) fn arguments(settings: &Settings, command: &[OsString]) -> Vec<OsString> {
    role::arguments(role::LAUNCHER, settings, command)
}
