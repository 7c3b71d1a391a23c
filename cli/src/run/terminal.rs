//! The terminal on which the command may run.
//!
//! The command has a separate process group. Ctrl-c and ctrl-z reach only the terminal's foreground
//! group, and the kernel stops other groups that read from the terminal.

use std::fs::File;
use std::io::{stdin, stdout};

use nix::sys::signal::{SigSet, SigmaskHow};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, getpid, kill_current_process_group, kill_process, kill_process_group,
    test_kill_process_group,
};
use rustix::termios::{isatty, tcgetpgrp, tcsetpgrp};

use super::family;

/// The command's use of the terminal.
#[derive(Debug, Default)]
pub(super) struct Terminal {
    /// True if the command's group was put in the foreground.
    given: bool,
}

impl Terminal {
    /// Puts the command's group in the foreground, if this process and its command use the terminal
    /// alone. The programs of a pipeline share the terminal. There the command gets it only when it
    /// needs it, see [`suspended`](Self::suspended).
    pub(super) fn give_to(&mut self, group: Pid) {
        let tty = Tty::open().filter(Tty::is_ours);
        if let Some(tty) = tty.filter(|_| isatty(stdin()) && isatty(stdout())) {
            self.give(&tty, group);
        }
    }

    /// Reacts to the suspension of the command by `signal`. The result is the same as if the
    /// command were in the group of this process.
    pub(super) fn suspended(&mut self, group: Pid, signal: Signal) {
        let tty = Tty::open();
        match (signal, tty) {
            (Signal::TTIN | Signal::TTOU, Some(tty)) => {
                // The notice may be older than the change of the foreground.
                if tty.is_ours() || tty.front == Some(group) {
                    self.give(&tty, group);
                } else if is_orphaned() {
                    // Nobody can put this group in the foreground. The kernel would refuse the
                    // access, and sends HUP and CONT to a suspended group that becomes orphaned.
                    let _ = kill_process_group(group, Signal::HUP);
                    let _ = kill_process_group(group, Signal::CONT);
                } else {
                    // This group is in the background, too, so it is suspended like the command.
                    let _ = kill_current_process_group(signal);
                }
            }
            // No shell would continue this group. The kernel ignores ctrl-z for such a group, but
            // not for the group of the command.
            _ if (self.given || signal == Signal::TSTP) && is_orphaned() => {
                let _ = kill_process_group(group, Signal::CONT);
            }
            // After ctrl-z, the shell waits until this whole group is suspended.
            (_, Some(tty)) if self.given && tty.front == Some(group) => {
                let _ = kill_current_process_group(Signal::STOP);
            }
            _ => {}
        }
    }

    /// Puts the group of this process in the foreground again, after the command has ended. A shell
    /// with job control would do this itself, but the shell of a script does not.
    pub(super) fn take_back(&self, group: Pid) {
        let Some(tty) = Tty::open().filter(|_| self.given) else {
            return;
        };
        // Another group of the command, ended by now, may be in the foreground.
        let has_ended =
            |front: Pid| front == group || test_kill_process_group(front) == Err(Errno::SRCH);
        if let Some(ours) = tty.ours.filter(|_| tty.front.is_some_and(has_ended)) {
            tty.put_in_front(ours);
        }
    }

    fn give(&mut self, tty: &Tty, group: Pid) {
        self.given |= tty.put_in_front(group);
        // The command may have been stopped because it used the terminal too early.
        let _ = kill_process_group(group, Signal::CONT);
    }
}

/// The controlling terminal of this process.
struct Tty {
    file: File,
    /// The foreground group.
    front: Option<Pid>,
    /// The group of this process. `None` if its leader is outside this container.
    ours: Option<Pid>,
}

impl Tty {
    fn open() -> Option<Self> {
        let file = File::open("/dev/tty").ok()?;
        let this = family::this_process().ok()?;
        Some(Self {
            front: tcgetpgrp(&file).ok(),
            ours: Pid::from_raw(this.group),
            file,
        })
    }

    /// True if the group of this process is in the foreground.
    fn is_ours(&self) -> bool {
        self.ours.is_some() && self.front == self.ours
    }

    /// Puts a group in the foreground. Returns true if this succeeded. Blocks SIGTTOU meanwhile,
    /// which would stop this process if it is in the background.
    fn put_in_front(&self, group: Pid) -> bool {
        let blocked = SigSet::from(nix::sys::signal::Signal::SIGTTOU);
        let Ok(before) = blocked.thread_swap_mask(SigmaskHow::SIG_BLOCK) else {
            return false;
        };
        let put = tcsetpgrp(&self.file, group);
        let _ = before.thread_set_mask();
        put.is_ok()
    }
}

/// Stops this process, as ctrl-z does. The lease is not renewed until the process continues. Does
/// nothing, like the kernel, if no shell would continue the process.
pub(super) fn stand_still() {
    if !is_orphaned() {
        let _ = kill_process(getpid(), Signal::STOP);
    }
}

/// True if no shell would continue the group of this process after a stop.
fn is_orphaned() -> bool {
    let orphaned = family::this_process().and_then(|this| family::is_orphaned(&this));
    orphaned.unwrap_or(false)
}
