//! The progress of a run, counted from the run's history while workers still write to it.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::time::{Duration, Instant};

use super::ground::{Ground, Size};

/// Faults that workers cause themselves, as named in their notes.
pub(super) const INSIDE: [&str; 2] = ["future dropped", "user worker blocked"];

/// Time limit for a full run to reach its required counts.
const PATIENCE: Duration = Duration::from_secs(20 * 60);

/// The duration of a run. A full run may last longer, until it has reached its required counts.
pub(super) struct Span {
    time: Duration,
    longest: Duration,
}

impl Span {
    /// Returns the duration of one of `parts` equal parts of the requirement's run.
    pub(super) fn of(ground: &Ground, parts: u32) -> Self {
        let time = ground.time / parts;
        let longest = match ground.size {
            Size::Full => time.max(PATIENCE / parts),
            Size::Small => time,
        };
        Self { time, longest }
    }

    /// True if a run that began at `began` must continue. `enough` is true if the run has reached
    /// its required counts.
    pub(super) fn goes_on(&self, began: Instant, enough: bool) -> bool {
        began.elapsed() < if enough { self.time } else { self.longest }
    }
}

/// The notes that count as progress.
#[derive(Debug, Clone, Copy)]
pub(super) enum Progress {
    /// Bodies that begin.
    Sections,
    /// Calls with `replay` that get an answer.
    Answers,
}

impl Progress {
    fn is(self, line: &[u8]) -> bool {
        line.starts_with(match self {
            Self::Sections => b"{\"note\":\"enter\"",
            Self::Answers => b"{\"note\":\"answered\"",
        })
    }
}

/// Counts the notes of a history.
pub(super) struct Tally {
    lines: BufReader<File>,
    line: Vec<u8>,
    counted: Progress,
    /// The beginning of a note that must still occur. `None` after it has occurred.
    awaited: Option<&'static [u8]>,
    progress: u64,
    faults: u64,
}

impl Tally {
    /// Starts at the beginning of the history. `awaited` is the beginning of a note that must occur
    /// before the run may end.
    pub(super) fn of(history: &Path, counted: Progress, awaited: Option<&'static [u8]>) -> Self {
        let history = File::open(history).expect("the history is there");
        Self {
            lines: BufReader::new(history),
            line: Vec::new(),
            counted,
            awaited,
            progress: 0,
            faults: 0,
        }
    }

    /// Reads the new notes.
    pub(super) fn read(&mut self) {
        while self
            .lines
            .read_until(b'\n', &mut self.line)
            .is_ok_and(|length| length > 0)
        {
            // Without a line break the line is incomplete, because a process is still writing it.
            if !self.line.ends_with(b"\n") {
                return;
            }
            self.progress += u64::from(self.counted.is(&self.line));
            self.faults += u64::from(is_outside_fault(&self.line));
            let line = &self.line;
            self.awaited = self.awaited.filter(|note| !line.starts_with(note));
            self.line.clear();
        }
    }

    /// True if the history has at least `progress` notes of progress, `faults` injected faults, and
    /// the awaited note. Faults that workers cause themselves do not count.
    pub(super) fn has(&self, progress: u64, faults: u64) -> bool {
        progress <= self.progress && faults <= self.faults && self.awaited.is_none()
    }
}

/// True for the note of an injected fault. Faults that workers cause themselves are not injected.
fn is_outside_fault(line: &[u8]) -> bool {
    let fault = b"{\"note\":\"fault\",\"kind\":\"";
    let kind = line.strip_prefix(fault);
    kind.is_some_and(|kind| {
        !INSIDE
            .iter()
            .any(|inside| kind.starts_with(inside.as_bytes()))
    })
}
