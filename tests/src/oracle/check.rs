//! Reads a history and applies the oracle's rules to it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use super::rules::KeyNotes;
use super::{Kind, Note, Reader, Violation};

/// The results of a check.
#[derive(Debug, Default)]
pub struct Report {
    /// The name of each run in the history, with its seed.
    pub runs: Vec<(String, u64)>,
    /// Number of bodies that began, counted once for each key of a body.
    pub sections: u64,
    /// Number of nested bodies that began.
    pub nested: u64,
    /// Number of requests to downgrade a lock.
    pub downgraded: u64,
    /// Number of times that a key had to stay locked after the end of a body.
    pub kept: u64,
    /// Number of calls with `replay` that got an answer.
    pub answered: u64,
    /// Number of calls with `replay` that got a kept result.
    pub replayed: u64,
    /// Number of writes that the protected resource accepted.
    pub writes: u64,
    /// Number of writes that the resource refused after the end of the writer's lease. They are
    /// from polls that began before that end, or from tasks that bodies have spawned.
    pub late_writes: u64,
    /// Lost leases.
    pub lost: u64,
    /// Locks that operators took away.
    pub taken_away: u64,
    /// Calls refused because of another holder.
    pub refused: u64,
    /// Number of notes cut off because their process was killed.
    pub torn: u64,
    /// Injected faults, by kind.
    pub faults: BTreeMap<String, u64>,
    /// The longest time until a key became free or got its next holder, in nanoseconds. It is from
    /// the `Note::Free` notes.
    pub worst_release: u64,
    /// The longest time from the start of a call to its body or its refusal, in nanoseconds.
    pub longest_wait: u64,
    /// Broken promises.
    pub violations: Vec<Violation>,
}

impl Report {
    /// Returns the number of violations of one kind.
    pub fn count(&self, kind: Kind) -> u64 {
        let of_kind = self.violations.iter().filter(|found| found.kind == kind);
        u64::try_from(of_kind.count()).unwrap_or(u64::MAX)
    }

    fn waited(&mut self, asked: u64, at: u64) {
        self.longest_wait = self.longest_wait.max(at.saturating_sub(asked));
    }

    /// Returns the number of injected faults.
    pub fn faults(&self) -> u64 {
        self.faults.values().sum()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, seed) in &self.runs {
            writeln!(f, "{what}, seed {seed}")?;
        }
        writeln!(f, "sections {}", self.sections)?;
        writeln!(
            f,
            "writes {}, refused after a deadline {}",
            self.writes, self.late_writes
        )?;
        writeln!(
            f,
            "leases lost {}, calls refused {}, torn notes {}",
            self.lost, self.refused, self.torn
        )?;
        for (kind, times) in &self.faults {
            writeln!(f, "fault {kind}: {times}")?;
        }
        writeln!(f, "violations {}", self.violations.len())?;
        for violation in self.violations.iter().take(20) {
            writeln!(f, "  {violation}")?;
        }
        Ok(())
    }
}

/// Applies the oracle's rules to a history file.
///
/// # Errors
///
/// Fails if the file cannot be read.
pub fn check_file(path: &Path) -> std::io::Result<Report> {
    let mut reader = Reader::open(path)?;
    let mut checker = Checker::default();
    while let Some(note) = reader.next_note()? {
        checker.take(&note);
    }
    Ok(Report {
        torn: reader.torn(),
        ..checker.finish()
    })
}

/// Applies the oracle's rules to these notes.
pub fn check(notes: impl IntoIterator<Item = Note>) -> Report {
    let mut checker = Checker::default();
    for note in notes {
        checker.take(&note);
    }
    checker.finish()
}

#[derive(Default)]
struct Checker {
    report: Report,
    keys: BTreeMap<String, KeyNotes>,
    unfenced: bool,
}

impl Checker {
    fn take(&mut self, note: &Note) {
        let report = &mut self.report;
        match note {
            Note::Run { what, seed } => report.runs.push((what.clone(), *seed)),
            Note::Enter {
                asked, at, within, ..
            } => {
                report.sections += 1;
                report.nested += u64::from(within.is_some());
                report.waited(*asked, *at);
            }
            Note::Write { kept: true, .. } => report.writes += 1,
            Note::Write { at, deadline, .. } if at >= deadline => report.late_writes += 1,
            Note::Lost { .. } => report.lost += 1,
            Note::TakenAway { .. } => report.taken_away += 1,
            Note::Refused { asked, at, .. } => {
                report.refused += 1;
                report.waited(*asked, *at);
            }
            Note::Answered { ran, .. } => {
                report.answered += 1;
                report.replayed += u64::from(ran.is_none());
            }
            Note::Unfenced => self.unfenced = true,
            Note::Shared { .. } => report.downgraded += 1,
            Note::Leave { keeps: Some(_), .. } => report.kept += 1,
            Note::Fault { kind, .. } => *report.faults.entry(kind.clone()).or_default() += 1,
            Note::Free { due, at, .. } => {
                report.worst_release = report.worst_release.max(at.saturating_sub(*due));
            }
            _ => {}
        }
        if let Some(key) = key_of(note) {
            if !self.keys.contains_key(key) {
                self.keys.insert(key.to_owned(), KeyNotes::default());
            }
            if let Some(notes) = self.keys.get_mut(key) {
                notes.take(note);
            }
        }
    }

    fn finish(mut self) -> Report {
        for (key, notes) in self.keys {
            for (kind, detail) in notes.finish(!self.unfenced) {
                let key = key.clone();
                self.report.violations.push(Violation { kind, key, detail });
            }
        }
        self.report
    }
}

fn key_of(note: &Note) -> Option<&str> {
    match note {
        Note::Run { .. } | Note::Fault { .. } | Note::Unfenced => None,
        Note::Enter { key, .. }
        | Note::Write { key, .. }
        | Note::Read { key, .. }
        | Note::Fair { key, .. }
        | Note::LatePoll { key, .. }
        | Note::Leave { key, .. }
        | Note::Shared { key, .. }
        | Note::Lost { key, .. }
        | Note::Refused { key, .. }
        | Note::Alone { key }
        | Note::MustReport { key }
        | Note::Answered { key, .. }
        | Note::AllKept { key }
        | Note::Durable { key }
        | Note::TakenAway { key, .. }
        | Note::Undisturbed { key }
        | Note::MustLeave { key, .. }
        | Note::Free { key, .. }
        | Note::Foreign { key, .. } => Some(key),
    }
}

#[cfg(test)]
mod tests {
    use super::{Kind, Note};
    use crate::oracle::Mode;
    use crate::oracle::fixtures::{enter, kinds, leave, shared};

    fn write(holder: u64, fence: u64, seen: u64, newest: u64, at: u64, kept: bool) -> Note {
        Note::Write {
            key: "k".to_owned(),
            holder,
            fence: Some(fence),
            seen,
            newest,
            at,
            deadline: 110,
            kept,
        }
    }

    #[test]
    fn consecutive_holders_are_accepted() {
        let fine = [
            enter(1, 1, 10),
            leave(1, 20, 110),
            enter(2, 2, 20),
            leave(2, 30, 120),
        ];
        assert_eq!(kinds(&fine), []);
    }

    #[test]
    fn a_killed_holder_keeps_its_lease() {
        assert_eq!(kinds(&[enter(1, 1, 10), enter(2, 2, 109)]), [Kind::Overlap]);
        assert_eq!(kinds(&[enter(1, 1, 10), enter(2, 2, 110)]), []);
    }

    #[test]
    fn a_renewal_extends_the_checked_lease() {
        let renewed = [enter(1, 1, 10), enter(2, 2, 150), leave(1, 160, 200)];
        assert_eq!(kinds(&renewed), [Kind::Overlap]);
    }

    #[test]
    fn a_late_end_of_a_stopped_process_is_not_an_overlap() {
        // The poll in which the first body left began before its deadline of 110, and ended at 310.
        // For the oracle, the body was inside only until 110, so the second body is no overlap.
        let late = [enter(1, 1, 10), enter(2, 2, 150), leave(1, 310, 110)];
        assert_eq!(kinds(&late), []);
    }

    #[test]
    fn a_long_section_is_compared_with_all_later_ones() {
        let nested = [
            enter(1, 1, 10),
            enter(2, 2, 20),
            leave(2, 30, 120),
            enter(3, 3, 50),
            leave(3, 60, 150),
            leave(1, 90, 110),
        ];
        assert_eq!(kinds(&nested), [Kind::Overlap, Kind::Overlap]);
    }

    #[test]
    fn fences_must_grow() {
        let same = [enter(1, 7, 10), leave(1, 20, 110), enter(2, 7, 30)];
        assert_eq!(kinds(&same), [Kind::FenceOrder]);
    }

    #[test]
    fn fences_must_grow_across_a_client_without_fences() {
        let mut foreign = enter(2, 0, 30);
        if let Note::Enter { fence, .. } = &mut foreign {
            *fence = None;
        }
        let around = |before, after| {
            let first = [Note::Unfenced, enter(1, before, 10), leave(1, 20, 110)];
            let first = [&first[..], &[foreign.clone()]].concat();
            let last = [leave(2, 40, 130), enter(3, after, 50)];
            kinds(&[&first[..], &last[..]].concat())
        };
        assert_eq!(around(7, 8), []);
        assert_eq!(around(7, 7), [Kind::FenceOrder]);
    }

    #[test]
    fn grants_of_two_masters_are_reported_as_crossed() {
        let together = [enter(1, 8, 10), enter(2, 7, 30)];
        assert_eq!(kinds(&together), [Kind::Overlap, Kind::Crossed]);
        let Note::Enter {
            key,
            asked,
            deadline,
            mode,
            ..
        } = enter(2, 7, 30)
        else {
            unreachable!("that is what was made");
        };
        // The body of `late` began at 30, but its lease was requested at 19, before the first body
        // left at 20. So another master may have granted it.
        let late = Note::Enter {
            key,
            asked,
            deadline,
            mode,
            holder: 2,
            fence: Some(7),
            at: 30,
            sent: 19,
            within: None,
        };
        let crossed = [enter(1, 8, 10), leave(1, 20, 110), late];
        assert_eq!(kinds(&crossed), [Kind::Crossed]);
    }

    #[test]
    fn two_writes_after_one_read_lose_an_update() {
        let writes = [write(1, 1, 5, 1, 20, true), write(2, 2, 5, 2, 30, true)];
        assert_eq!(kinds(&writes), [Kind::LostUpdate]);
    }

    #[test]
    fn a_resource_must_refuse_an_older_fence() {
        assert_eq!(kinds(&[write(1, 1, 5, 2, 120, true)]), [Kind::StaleWrite]);
    }

    #[test]
    fn a_newer_fence_during_a_lease_is_a_violation() {
        assert_eq!(kinds(&[write(1, 1, 5, 2, 50, false)]), [Kind::Overtaken]);
        assert_eq!(kinds(&[write(1, 1, 5, 2, 110, false)]), []);
    }

    #[test]
    fn a_lease_must_start_before_its_body() {
        let Note::Enter { key, deadline, .. } = enter(1, 1, 10) else {
            unreachable!("that is what was made");
        };
        let late = Note::Enter {
            key,
            deadline,
            holder: 1,
            fence: Some(1),
            asked: 5,
            at: 10,
            sent: 11,
            mode: Mode::Alone,
            within: None,
        };
        assert_eq!(kinds(&[late]), [Kind::LeaseTooLong]);
    }

    #[test]
    fn readers_may_overlap_only_with_readers() {
        let read = |holder, fence, at| shared(Mode::Reader, holder, fence, at);
        // Fences are in the order of the grants, but bodies of readers may first read the clock in
        // another order. So the first body may have fence 2, and the second body fence 1.
        let readers = [read(1, 2, 10), read(2, 1, 20), read(3, 3, 30)];
        assert_eq!(kinds(&readers), []);
        let ended = [read(1, 2, 10), read(2, 1, 20), enter(3, 3, 120)];
        assert_eq!(kinds(&ended), []);
        let beside = [read(1, 1, 10), read(2, 2, 60), enter(3, 3, 120)];
        assert_eq!(kinds(&beside), [Kind::Overlap]);
        assert_eq!(kinds(&[enter(1, 1, 10), read(2, 2, 60)]), [Kind::Overlap]);
        let place = shared(Mode::Place(2), 2, 2, 60);
        assert_eq!(kinds(&[read(1, 1, 10), place]), [Kind::Overlap]);
    }

    #[test]
    fn a_writer_has_a_fence_between_earlier_and_later_readers() {
        let read = |holder, fence, at| shared(Mode::Reader, holder, fence, at);
        let late = [read(1, 5, 10), read(2, 4, 20), enter(3, 5, 200)];
        assert_eq!(kinds(&late), [Kind::FenceOrder]);
        let early = [enter(1, 5, 10), read(2, 6, 200), read(3, 5, 210)];
        assert_eq!(kinds(&early), [Kind::FenceOrder]);
    }

    #[test]
    fn holders_beyond_the_permits_are_reported() {
        let place = |holder, at| shared(Mode::Place(2), holder, holder, at);
        assert_eq!(kinds(&[place(1, 10), place(2, 20), place(3, 110)]), []);
        let crowd = [place(1, 10), place(2, 20), place(3, 109)];
        assert_eq!(kinds(&crowd), [Kind::Crowded]);
    }

    #[test]
    fn a_reader_sees_no_write_during_its_lease() {
        let read = |last, at| Note::Read {
            key: "k".to_owned(),
            holder: 1,
            first: 5,
            last,
            at,
            deadline: 110,
        };
        assert_eq!(kinds(&[read(5, 50), read(6, 110)]), []);
        assert_eq!(kinds(&[read(6, 109)]), [Kind::TornRead]);
    }

    #[test]
    fn a_call_with_a_long_wait_counts_as_starved() {
        let fair = |within| Note::Fair {
            key: "k".to_owned(),
            within,
        };
        assert_eq!(kinds(&[enter(1, 1, 10), fair(2)]), []);
        assert_eq!(kinds(&[enter(1, 1, 10), fair(1)]), [Kind::Starved]);
    }

    #[test]
    fn a_missing_fence_is_reported() {
        let mut bare = enter(1, 1, 10);
        if let Note::Enter { fence, .. } = &mut bare {
            *fence = None;
        }
        assert_eq!(kinds(&[bare.clone()]), [Kind::NoFence]);
        assert_eq!(kinds(&[Note::Unfenced, bare]), []);
    }
}
