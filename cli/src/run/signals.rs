//! Signals passed on to the command, and signal settings inherited by the command.

use std::future::poll_fn;
use std::io;
use std::process::{Child, Command};
use std::task::Poll;

use nix::sys::signal::{SigSet, SigmaskHow};
use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind};

use super::start;

/// Signals that end a program unless it handles them. They are passed on to the command.
const ENDING: [Signal; 10] = [
    Signal::HUP,
    Signal::INT,
    Signal::QUIT,
    // From systemd's watchdog.
    Signal::ABORT,
    Signal::USR1,
    Signal::USR2,
    // From a timer set by the parent: `perl -e 'alarm shift; exec @ARGV' 60 …`.
    Signal::ALARM,
    Signal::TERM,
    // From batch systems, before a job's time is over.
    Signal::XCPU,
    // From the host of an LXC container, to shut it down.
    Signal::POWER,
];

/// Signals that suspend or continue a program, or report a new size of its terminal.
const TERMINAL: [Signal; 3] = [Signal::TSTP, Signal::CONT, Signal::WINCH];

/// Signals that stop a background process when it reads from the terminal or changes the terminal's
/// foreground group.
const BACKGROUND: [Signal; 2] = [Signal::TTIN, Signal::TTOU];

/// Receiver of signals, which then have no other effect on this process.
pub(super) struct Signals {
    streams: Vec<(Signal, unix::Signal)>,
    /// Signals that this process inherited as blocked from its parent.
    blocked: SigSet,
}

impl Signals {
    /// Handles the signals that end a program. Signals that this process ignores from its start
    /// (`nohup`) stay ignored, both here and in the command. Afterwards this process blocks no
    /// signal.
    pub(super) fn ending() -> io::Result<Self> {
        // Sets a handler for SIGCHLD, because the parent may have made this process ignore the
        // signal. The kernel would then not keep the exit codes of children. The handler stays when
        // this stream is dropped, but child processes start with the default of SIGCHLD.
        drop(unix::signal(SignalKind::child())?);
        let mut signals = Self {
            streams: Vec::new(),
            blocked: SigSet::empty(),
        };
        signals.add(&ENDING)?;
        // Unblocks all signals only after the handlers are set. A pending signal arrives now, and
        // without a handler would end this process.
        signals.blocked = SigSet::empty().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
        Ok(signals)
    }

    /// Also handles the signals of the terminal.
    pub(super) fn and_terminal(mut self) -> io::Result<Self> {
        self.add(&TERMINAL)?;
        Ok(self)
    }

    /// Handles the signals in `ENDING`, `TERMINAL` and `BACKGROUND`, so that none of them ends or
    /// stops this process.
    pub(super) fn all() -> io::Result<Self> {
        let mut signals = Self::ending()?.and_terminal()?;
        signals.add(&BACKGROUND)?;
        Ok(signals)
    }

    fn add(&mut self, signals: &[Signal]) -> io::Result<()> {
        for signal in signals.iter().filter(|signal| !start::ignored(**signal)) {
            let kind = SignalKind::from_raw(signal.as_raw());
            self.streams.push((*signal, unix::signal(kind)?));
        }
        Ok(())
    }

    /// Starts a process with the same blocked signals that this process inherited from its parent.
    pub(super) fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        self.blocked.thread_set_mask()?;
        let child = command.spawn();
        SigSet::empty().thread_set_mask()?;
        child
    }

    /// Returns the next signal. Cancel safe.
    pub(super) async fn next(&mut self) -> Signal {
        poll_fn(|cx| {
            for (signal, stream) in &mut self.streams {
                if let Poll::Ready(Some(())) = stream.poll_recv(cx) {
                    return Poll::Ready(*signal);
                }
            }
            Poll::Pending
        })
        .await
    }
}
