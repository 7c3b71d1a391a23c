//! The signals that are passed on to the command.

use std::future::poll_fn;
use std::task::Poll;
use std::{fs, io};

use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind};

/// What ends a program that does not handle it, and is passed on to the command.
const ENDING: [Signal; 6] = [
    Signal::HUP,
    Signal::INT,
    Signal::QUIT,
    Signal::TERM,
    Signal::USR1,
    Signal::USR2,
];

/// What a terminal tells a program that runs on it.
const TERMINAL: [Signal; 3] = [Signal::TSTP, Signal::CONT, Signal::WINCH];

/// What would stop a process that sets the terminal's foreground group, or reads from it.
const BACKGROUND: [Signal; 2] = [Signal::TTIN, Signal::TTOU];

/// Signals that this process gets, and that have no other effect on it.
pub(super) struct Signals(Vec<(Signal, unix::Signal)>);

impl Signals {
    /// Those that end a program. What this process ignores from its start (`nohup`) stays ignored,
    /// here and in the command.
    pub(super) fn ending() -> io::Result<Self> {
        let mut signals = Self(Vec::new());
        signals.add(&ENDING)?;
        Ok(signals)
    }

    /// Those of the terminal, too.
    pub(super) fn and_terminal(mut self) -> io::Result<Self> {
        self.add(&TERMINAL)?;
        Ok(self)
    }

    /// All of them, for a process that none of them is to end or to stop.
    pub(super) fn all() -> io::Result<Self> {
        let mut signals = Self::ending()?.and_terminal()?;
        signals.add(&BACKGROUND)?;
        Ok(signals)
    }

    fn add(&mut self, signals: &[Signal]) -> io::Result<()> {
        let ignored = ignored();
        let heard = signals.iter().filter(|signal| !is_in(ignored, **signal));
        for signal in heard {
            let kind = SignalKind::from_raw(signal.as_raw());
            self.0.push((*signal, unix::signal(kind)?));
        }
        Ok(())
    }

    /// The next signal. Cancel safe.
    pub(super) async fn next(&mut self) -> Signal {
        poll_fn(|cx| {
            for (signal, stream) in &mut self.0 {
                if let Poll::Ready(Some(())) = stream.poll_recv(cx) {
                    return Poll::Ready(*signal);
                }
            }
            Poll::Pending
        })
        .await
    }
}

/// The signals that this process ignores: bit 0 is signal 1.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut lines = status.lines();
    let mask = lines.find_map(|line| line.strip_prefix("SigIgn:"));
    mask.map_or(0, |mask| u64::from_str_radix(mask.trim(), 16).unwrap_or(0))
}

fn is_in(mask: u64, signal: Signal) -> bool {
    let bit = signal.as_raw() - 1;
    (0..64).contains(&bit) && (mask >> bit) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_of_the_mask() {
        assert!(is_in(0b1, Signal::HUP) && !is_in(0b1, Signal::INT));
        // Rust programs ignore SIGPIPE, and this is one.
        assert!(is_in(ignored(), Signal::PIPE));
        assert!(!is_in(ignored(), Signal::TERM));
    }
}
