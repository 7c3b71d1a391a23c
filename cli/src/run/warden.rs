//! The warden of a guardian. If the guardian is killed, the warden kills all processes that the
//! guardian leaves behind. It does so even if `leasehold run` is dead or stalls.
//!
//! The warden has its own session and process group, so that a kill of the session or the group of
//! `leasehold run` does not reach it.

use std::ffi::OsString;
use std::fs::File;
use std::io;

use rustix::process::{Signal, WaitOptions, kill_process, setsid, waitpid};
use rustix::stdio::dup2_stdin;
use tokio::signal::unix::{self, SignalKind};

use super::family;
use super::role::{self, Settings};
use super::signals::Signals;

/// Starts the guardian, and ends after the guardian has ended. The guardian inherits standard
/// input, the connection to `leasehold run`. The warden closes its copy, so that the connection
/// closes as soon as the guardian is gone.
pub(super) async fn watch_over(settings: Settings, command: Vec<OsString>) -> io::Result<()> {
    let mut signals = Signals::all()?;
    let mut children = unix::signal(SignalKind::child())?;
    role::adopt_orphans(settings)?;
    let nothing = File::open("/dev/null")?;
    let mut guardian = role::process(role::GUARDIAN, settings, &command);
    let guardian = role::pid(&signals.spawn(&mut guardian)?)?;
    dup2_stdin(nothing)?;
    setsid()?;
    let ended = loop {
        if let Some((_, status)) = waitpid(Some(guardian), WaitOptions::NOHANG)? {
            break status;
        }
        tokio::select! {
            _ = children.recv() => {}
            // The death of `leasehold run` causes a SIGCONT here. A suspended guardian must then
            // continue, too.
            _ = signals.next() => if !settings.parent_lives() {
                let _ = kill_process(guardian, Signal::CONT);
            }
        }
    };
    if ended.exit_status() != Some(0) {
        family::end_descendants().await?;
    }
    Ok(())
}
