//! The four processes of one `leasehold run`, which all run the same program.
//!
//! ```text
//! leasehold run        has the lock and renews it; sends the guardian each new deadline
//! └ warden             adopts and kills what a killed guardian leaves
//!   └ guardian         adopts and kills what the command leaves; needs no lock store
//!     └ launcher       becomes the command, in a separate process group
//!       └ …            what the command starts
//! ```
//!
//! The processes end in time even if some of them die or stall:
//!
//! - `leasehold run` is killed: the guardian detects the closed connection, and stops the command.
//! - `leasehold run` stalls: the lease is not renewed, and the guardian stops the command before
//!   the deadline.
//! - The guardian is killed: the kernel kills the command, and the warden adopts and kills the
//!   processes that the command started, even if `leasehold run` was killed or stalls. If
//!   `leasehold run` works, it kills these processes as well.
//! - The guardian stalls: `leasehold run` kills all of its descendants before the deadline.
//! - `leasehold run` is killed while the guardian is suspended: the kernel wakes the warden,
//!   which wakes the guardian (`SIGCONT`).
//! - The warden is killed: nothing happens as long as `leasehold run` or the guardian lives.
//!
//! There are two exceptions. If `leasehold run`, the warden and the guardian are all killed, the
//! kernel kills the command itself, but not the processes started by it. If `leasehold run` and the
//! guardian both stall, nothing ends the command in time.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};
use std::time::Duration;

use rustix::process::{
    Pid, Signal, getpid, getppid, set_child_subreaper, set_parent_process_death_signal,
};

use super::clock::{Moment, nanos};
use super::messages::Messages;
use super::start;
use crate::exit;

/// Names of the roles. No subcommand begins with `%`.
pub(super) const WARDEN: &str = "%warden";
pub(super) const GUARDIAN: &str = "%guardian";
pub(super) const LAUNCHER: &str = "%launcher";

/// Settings that a process passes to its child process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Settings {
    /// Id of the process that passes these settings.
    pub(super) parent: i32,
    /// Id of the `leasehold run` process.
    pub(super) run: i32,
    /// For the warden and the guardian: the ttl. For the launcher: the time after which the command
    /// must not start.
    pub(super) moment: Moment,
    /// True if events are reported as JSON.
    pub(super) json: bool,
    /// True if the command must start with SIGPIPE ignored.
    pub(super) ignores_pipe: bool,
}

impl Settings {
    /// Returns the settings that `leasehold run` passes on.
    pub(super) fn new(ttl: Duration, json: bool) -> Self {
        let this = getpid().as_raw_nonzero().get();
        Self {
            parent: this,
            run: this,
            moment: ttl,
            json,
            ignores_pipe: start::ignored(Signal::PIPE),
        }
    }

    /// True if the process that started this one is still its parent.
    pub(super) fn parent_lives(&self) -> bool {
        getppid().is_some_and(|parent| parent.as_raw_nonzero().get() == self.parent)
    }
}

pub(super) fn parse(settings: &str) -> Option<Settings> {
    let mut parts = settings.split(',');
    Some(Settings {
        parent: parts.next()?.parse().ok()?,
        run: parts.next()?.parse().ok()?,
        moment: Duration::from_nanos(parts.next()?.parse().ok()?),
        json: parts.next()?.parse().ok()?,
        ignores_pipe: parts.next()?.parse().ok()?,
    })
}

/// Returns the command line that starts this program again in a role, even if the program's file
/// has been replaced.
pub(super) fn process(role: &str, settings: Settings, command: &[OsString]) -> Command {
    let (this, moment) = (getpid(), nanos(settings.moment));
    let Settings {
        run,
        json,
        ignores_pipe,
        ..
    } = settings;
    let mut process = Command::new(OsStr::new("/proc/self/exe"));
    process
        .arg0("leasehold")
        .arg(role)
        .arg(format!("{this},{run},{moment},{json},{ignores_pipe}"))
        .args(command);
    process
}

pub(super) fn pid(child: &Child) -> io::Result<Pid> {
    let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    id.ok_or_else(|| io::Error::other("a process has no id"))
}

/// Runs the warden or the guardian to its end, and returns the exit code.
pub(super) fn run(json: bool, ended: impl Future<Output = io::Result<()>>) -> u8 {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    match runtime.and_then(|runtime| runtime.block_on(ended)) {
        Ok(()) => exit::SUCCESS,
        Err(error) => {
            Messages::new(json).failed(&error);
            exit::SYSTEM
        }
    }
}

/// Makes this process the parent of the orphans among its descendants.
///
/// Also makes the kernel send SIGCONT to this process when its parent dies, so that a suspended
/// process continues. Without this setting, the kernel would wake this process only if its process
/// group became orphaned. The group is not orphaned if another `leasehold run` adopts this process.
pub(super) fn adopt_orphans(settings: Settings) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::CONT))?;
    set_child_subreaper(Some(getpid()))?;
    if settings.parent_lives() {
        Ok(())
    } else {
        Err(io::Error::other("`leasehold run` is gone"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails if the process of a role would read settings or arguments that differ from those of
    /// the process that starts it.
    #[test]
    fn settings_arrive_unchanged() {
        let settings = Settings {
            parent: getpid().as_raw_nonzero().get(),
            run: 42,
            moment: Duration::from_nanos(1_234_567_890_123),
            json: true,
            ignores_pipe: false,
        };
        let process = process(LAUNCHER, settings, &["ls".into(), "-l".into()]);
        let sent: Vec<&OsStr> = process.get_args().collect();
        assert_eq!(sent[0], LAUNCHER);
        assert_eq!(parse(sent[1].to_str().expect("text")), Some(settings));
        assert_eq!(sent[2..], ["ls", "-l"]);
        assert_eq!(parse("42"), None);
    }
}
