//! The terminal on which the command may run.

use std::io::{stdin, stdout};

use rustix::process::{Pid, Signal, getpid, kill_process, kill_process_group};
use rustix::termios::{isatty, tcgetpgrp, tcsetpgrp};

use super::family;

/// True if this process and its command use the terminal alone. False in a pipeline, whose programs
/// share the terminal.
pub(super) fn is_used() -> bool {
    isatty(stdin()) && isatty(stdout())
}

/// Lets the group of the command read from the terminal and receive ctrl-c. The shell takes the
/// terminal back when this process ends or stops.
pub(super) fn give_to(group: Pid) {
    if is_used() && is_in_front() {
        let _ = tcsetpgrp(stdin(), group);
        // The command may have been stopped because it read from the terminal too early.
        let _ = kill_process_group(group, Signal::CONT);
    }
}

/// True if this process belongs to the terminal's foreground group, which receives the signal of
/// ctrl-c.
fn is_in_front() -> bool {
    let front = tcgetpgrp(stdin()).map(|group| group.as_raw_nonzero().get());
    family::this_process().is_ok_and(|this| front == Ok(this.group))
}

/// Stops this process, as ctrl-z does. The lease is not renewed until the process continues.
pub(super) fn stand_still() {
    let _ = kill_process(getpid(), Signal::STOP);
}
