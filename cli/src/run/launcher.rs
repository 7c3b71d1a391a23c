//! The last step before the command starts: the command replaces this process.

use std::convert::Infallible;
use std::env;
use std::ffi::{CString, OsStr, OsString};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::process::{Signal, getpid, set_parent_process_death_signal};

use super::clock::{self, Moment};
use super::messages::Messages;
use super::role::Settings;
use crate::exit;

/// Variables of systemd. Each contains a process id, and is valid only in that process.
const ADDRESSED: [&str; 3] = ["LISTEN_PID", "WATCHDOG_PID", "SYSTEMD_EXEC_PID"];

/// Variable of systemd that identifies the process of `LISTEN_PID` by another number. If it is not
/// set, programs check only `LISTEN_PID`.
const ADDRESSED_AGAIN: &str = "LISTEN_PIDFDID";

/// Replaces this process with the command, unless its lease is about to end or its guardian is
/// dead. Returns only if the command does not start.
///
/// The kernel kills the command when its guardian dies. This setting (`PR_SET_PDEATHSIG`) stays
/// after `exec`, except for programs that run as another user (set-user-ID).
pub(super) fn launch(settings: &Settings, command: &[OsString]) -> u8 {
    if set_parent_process_death_signal(Some(Signal::KILL)).is_err() {
        return exit::SYSTEM;
    }
    // The guardian is checked only after the death signal is requested, because the kernel sends no
    // signal for a guardian that died earlier.
    if !settings.parent_lives() {
        return exit::SYSTEM;
    }
    let messages = Messages::new(settings.json);
    let Some((program, arguments)) = command.split_first() else {
        return exit::USAGE;
    };
    if is_over(settings.moment) {
        messages.too_late();
        return exit::HELD;
    }
    let error = become_it(settings, program, arguments);
    messages.not_started(program, &error);
    match error.kind() {
        ErrorKind::NotFound => exit::NOT_FOUND,
        _ => exit::NOT_EXECUTABLE,
    }
}

/// True if `latest`, the last moment at which the command may start, has passed. This process may
/// have stalled before this check.
fn is_over(latest: Moment) -> bool {
    latest <= clock::now()
}

/// Replaces this process with the command. Returns an error if the command cannot be started. If
/// the command must ignore SIGPIPE, this uses `execute`, because `Command` would set the signal to
/// its default.
fn become_it(settings: &Settings, program: &OsStr, arguments: &[OsString]) -> io::Error {
    if settings.ignores_pipe {
        let Err(error) = execute(settings.run, program, arguments);
        return error;
    }
    let mut command = Command::new(program);
    command.args(arguments).env_clear();
    command.envs(environment(settings.run)).exec()
}

/// Replaces this process with a program that ignores SIGPIPE. This process ignores the signal, and
/// `exec` does not change that.
fn execute(run: i32, program: &OsStr, arguments: &[OsString]) -> io::Result<Infallible> {
    let program = CString::new(program.as_bytes())?;
    let mut all = vec![program.clone()];
    for argument in arguments {
        all.push(CString::new(argument.as_bytes())?);
    }
    let mut variables = Vec::new();
    for (mut variable, value) in environment(run) {
        variable.push("=");
        variable.push(value);
        variables.push(CString::new(variable.into_vec())?);
    }
    Ok(nix::unistd::execvpe(&program, &all, &variables)?)
}

/// Returns the environment of this process. Variables that systemd addressed to `leasehold run` now
/// name the command's process instead. Omits `LISTEN_PIDFDID`, which identifies another process.
fn environment(run: i32) -> impl Iterator<Item = (OsString, OsString)> {
    let (run, this) = (run.to_string(), getpid().to_string());
    let variables = env::vars_os().filter(|(name, _)| name != ADDRESSED_AGAIN);
    variables.map(move |(name, value)| {
        let is_addressed = ADDRESSED.iter().any(|one| name == *one) && value == *run;
        let value = if is_addressed {
            this.clone().into()
        } else {
            value
        };
        (name, value)
    })
}
