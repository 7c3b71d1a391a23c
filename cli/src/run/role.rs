//! The three processes of one `leasehold run`, which are one program.
//!
//! ```text
//! leasehold run        has the lock and renews it; tells the guardian each new deadline
//! └ guardian           adopts and kills what the command leaves; needs no lock store
//!   └ launcher         becomes the command, in a process group of its own
//!     └ …              what the command starts
//! ```
//!
//! What happens when one of them dies, or stands still:
//!
//! - `leasehold run` is killed: the guardian sees the connection end, and stops the command.
//! - `leasehold run` stands still: the lease is not renewed, and the guardian stops the command
//!   before the deadline.
//! - The guardian is killed: the kernel kills the command, and `leasehold run` adopts and kills the
//!   rest.
//! - The guardian stands still: `leasehold run` kills all processes below it before the deadline.
//! - `leasehold run` is killed while the guardian stands still: the kernel wakes the guardian
//!   (`SIGCONT`).

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::Duration;

use rustix::process::Pid;

use super::clock::{Moment, nanos};

/// No key and no subcommand begins like this.
pub(super) const GUARDIAN: &str = "%guardian";
pub(super) const LAUNCHER: &str = "%launcher";

/// What one of the processes tells the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Settings {
    /// The process that starts it.
    pub(super) parent: i32,
    /// For the guardian the ttl, for the launcher the time after which the command does not start.
    pub(super) moment: Moment,
    /// Whether it reports as JSON.
    pub(super) json: bool,
}

pub(super) fn parse(settings: &str) -> Option<Settings> {
    let mut parts = settings.split(',');
    Some(Settings {
        parent: parts.next()?.parse().ok()?,
        moment: Duration::from_nanos(parts.next()?.parse().ok()?),
        json: parts.next()? == "json",
    })
}

/// The arguments of a process that is started in a role.
pub(super) fn arguments(role: &str, settings: &Settings, command: &[OsString]) -> Vec<OsString> {
    let form = if settings.json { "json" } else { "text" };
    let (parent, moment) = (settings.parent, nanos(settings.moment));
    let mut arguments = vec![role.into(), format!("{parent},{moment},{form}").into()];
    arguments.extend_from_slice(command);
    arguments
}

/// This program, to be started once more. The file may have been replaced meanwhile.
pub(super) fn this_program() -> Command {
    let mut command = Command::new(OsStr::new("/proc/self/exe"));
    command.arg0("leasehold");
    command
}

/// The id of a child process.
pub(super) fn pid(id: u32) -> io::Result<Pid> {
    let id = i32::try_from(id).ok().and_then(Pid::from_raw);
    id.ok_or_else(|| io::Error::other("a process has no id"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails if a process is told something else than was meant.
    #[test]
    fn settings_arrive_as_they_were_sent() {
        let settings = Settings {
            parent: 42,
            moment: Duration::from_nanos(1_234_567_890_123),
            json: true,
        };
        let sent = arguments(LAUNCHER, &settings, &["ls".into(), "-l".into()]);
        assert_eq!(sent[0], LAUNCHER);
        assert_eq!(parse(sent[1].to_str().expect("text")), Some(settings));
        assert_eq!(sent[2..], ["ls", "-l"]);
        assert_eq!(parse("42"), None);
    }
}
