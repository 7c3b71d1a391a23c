//! The oracle's rules for one key.

use std::collections::{HashMap, HashSet};

use super::replays::{self, Answer, Keeps};
use super::section::Section;
use super::taken::Takes;
use super::{Kind, Note, kept, nested, overlap};

/// Tolerance for a call that exceeds its `wait` on a busy machine, in nanoseconds.
const BUDGET_SLACK: u64 = 700_000_000;

/// Notes about kept results.
#[derive(Debug, Default)]
struct Replays {
    answers: Vec<Answer>,
    keeps: Keeps,
}

/// All notes about one key.
#[derive(Debug, Default)]
pub(super) struct KeyNotes {
    sections: Vec<Section>,
    by_holder: HashMap<u64, usize>,
    /// The counter values that bodies had read before their accepted writes.
    seen: HashSet<u64>,
    /// Number of grants without a fence.
    unfenced: u64,
    /// Number of refused calls.
    refusals: u64,
    /// Refused calls that waited for longer than their time limit.
    over_budget: Vec<String>,
    losses: Vec<u64>,
    must_leave: Vec<(u64, u64)>,
    /// Time of the call that waited longest, and the length of its wait, in nanoseconds.
    longest_wait: (u64, u64),
    fair_within: Option<u64>,
    alone: bool,
    undisturbed: bool,
    must_report: bool,
    replays: Replays,
    takes: Takes,
    /// Writes that the resource refused during the writer's lease, because a newer holder had
    /// already used it. For each write: the number of its body, the time, and a description.
    overtaken: Vec<(u64, u64, String)>,
    found: Vec<(Kind, String)>,
}

impl KeyNotes {
    pub(super) fn take(&mut self, note: &Note) {
        match *note {
            Note::Enter { .. } => self.enter(note),
            Note::Leave {
                holder,
                at,
                deadline,
                keeps,
                ..
            } => self.leave(holder, at, deadline, keeps),
            Note::Shared { holder, at, .. } => {
                if let Some(section) = self.section(holder) {
                    section.shared_at = Some(at);
                }
            }
            Note::Write { .. } => self.write(note),
            Note::Read { .. } => self.read(note),
            Note::LatePoll {
                holder,
                began,
                deadline,
                ..
            } => self.found(
                Kind::PollAfterDeadline,
                format!("holder {holder}, poll began {began}, deadline {deadline}"),
            ),
            Note::Lost { at, .. } => self.losses.push(at),
            Note::Refused {
                asked, at, wait, ..
            } => self.refused(asked, at, wait),
            Note::Alone { .. } => self.alone = true,
            Note::MustReport { .. } => self.must_report = true,
            Note::Answered { .. } => self.answered(note),
            Note::AllKept { .. } => self.replays.keeps = Keeps::All,
            Note::Durable { .. } => self.replays.keeps = Keeps::OnceSeen,
            Note::TakenAway {
                process, from, by, ..
            } => self.takes.note(process, from, by),
            Note::Undisturbed { .. } => self.undisturbed = true,
            Note::Fair { within, .. } => self.fair_within = Some(within),
            Note::MustLeave { at, by, .. } => self.must_leave.push((at, by)),
            Note::Free {
                due, at, within, ..
            } => self.freed(due, at, within),
            Note::Foreign { untouched, .. } => {
                if !untouched {
                    self.found(Kind::ForeignTouched, "not as it was left".to_owned());
                }
            }
            Note::Run { .. } | Note::Fault { .. } | Note::Unfenced => {}
        }
    }

    fn leave(&mut self, holder: u64, at: u64, deadline: u64, keeps: Option<u64>) {
        if let Some(section) = self.section(holder) {
            section.left = Some(at);
            section.keeps = keeps;
            section.deadline = section.deadline.max(deadline);
        }
    }

    fn refused(&mut self, asked: u64, at: u64, wait: u64) {
        self.refusals += 1;
        self.waited(asked, at);
        if at - asked > wait + BUDGET_SLACK {
            self.over_budget
                .push(format!("asked {asked}, answered {at}, wait {wait}"));
        }
    }

    fn freed(&mut self, due: u64, at: u64, within: u64) {
        if at.saturating_sub(due) > within {
            self.found(
                Kind::FreedLate,
                format!("due {due}, free {at}, bound {within}"),
            );
        }
    }

    fn enter(&mut self, note: &Note) {
        let Note::Enter {
            holder,
            fence,
            asked,
            at,
            sent,
            deadline,
            mode,
            within,
            ..
        } = *note
        else {
            return;
        };
        self.waited(asked, at);
        self.unfenced += u64::from(fence.is_none());
        // A lease must start (`sent`) before its body. It may start before the call (`asked`): a
        // process may pass a lock to a later call, which continues the lease of an earlier call.
        if sent > at {
            self.found(
                Kind::LeaseTooLong,
                format!("asked {asked}, counts from {sent}, entered {at}"),
            );
        }
        self.by_holder.insert(holder, self.sections.len());
        self.sections.push(Section {
            holder,
            within,
            mode,
            fence,
            sent,
            at,
            left: None,
            deadline,
            shared_at: None,
            keeps: None,
        });
    }

    fn answered(&mut self, note: &Note) {
        let Note::Answered {
            at,
            ran,
            from,
            asked,
            answers,
            unique,
            ..
        } = *note
        else {
            return;
        };
        self.replays.answers.push(Answer {
            at,
            ran,
            from,
            asked,
            answers,
            unique,
        });
    }

    fn write(&mut self, note: &Note) {
        let Note::Write {
            holder,
            fence,
            seen,
            newest,
            at,
            deadline,
            kept,
            ..
        } = *note
        else {
            return;
        };
        if let Some(section) = self.section(holder) {
            section.deadline = section.deadline.max(deadline);
        }
        let overtaken = fence.is_some_and(|fence| fence < newest);
        if kept && overtaken {
            self.found(Kind::StaleWrite, format!("fence {fence:?} after {newest}"));
        }
        if !kept && overtaken && at < deadline {
            let detail = format!(
                "holder {holder}, fence {fence:?}, met {newest} at {at}, deadline {deadline}"
            );
            self.overtaken.push((holder, at, detail));
        }
        if kept && !self.seen.insert(seen) {
            self.found(
                Kind::LostUpdate,
                format!("holder {holder} overwrote what followed {seen}"),
            );
        }
    }

    fn read(&mut self, note: &Note) {
        let Note::Read {
            holder,
            first,
            last,
            at,
            deadline,
            ..
        } = *note
        else {
            return;
        };
        if let Some(section) = self.section(holder) {
            section.deadline = section.deadline.max(deadline);
        }
        // Two readings may differ if the second one is after the deadline, when another holder may
        // write. Such a reading is allowed, because its poll began before the deadline.
        if at < deadline && first != last {
            let detail = format!("holder {holder} found {first}, and {last} at {at}");
            self.found(Kind::TornRead, detail);
        }
    }

    fn waited(&mut self, asked: u64, at: u64) {
        let wait = at.saturating_sub(asked);
        if wait > self.longest_wait.1 {
            self.longest_wait = (asked, wait);
        }
    }

    fn section(&mut self, holder: u64) -> Option<&mut Section> {
        self.by_holder
            .get(&holder)
            .map(|index| &mut self.sections[*index])
    }

    fn found(&mut self, kind: Kind, detail: String) {
        self.found.push((kind, detail));
    }

    /// Applies the rules. `fenced` is true if the store promises a fence for each grant.
    pub(super) fn finish(mut self, fenced: bool) -> Vec<(Kind, String)> {
        self.expectations();
        if fenced && self.unfenced > 0 {
            self.found(Kind::NoFence, format!("{} times", self.unfenced));
        }
        nested::share_deadlines(&mut self.sections);
        let Replays { answers, keeps } = &self.replays;
        let replays = replays::broken(&self.sections, answers, *keeps);
        self.found.extend(replays);
        self.takes.cut(&mut self.sections);
        for (holder, at, detail) in std::mem::take(&mut self.overtaken) {
            let cut = self.section(holder).map(|section| section.deadline);
            if cut.is_none_or(|deadline| at < deadline) {
                self.found(Kind::Overtaken, detail);
            }
        }
        // A body may be stopped between the check of its deadline and its first reading of the
        // clock. Its first poll began within the lease, but the reading is after the lease. Such
        // sections are dropped.
        self.sections.retain(|section| section.at < section.end());
        self.sections.sort_by_key(|section| section.at);
        self.found.extend(nested::misplaced(&self.sections));
        self.sections.retain(|section| section.within.is_none());
        let early = kept::taken_early(&self.sections, self.undisturbed);
        self.found.extend(early);
        self.sections = self.sections.iter().flat_map(Section::parts).collect();
        self.sections.sort_by_key(|section| section.at);
        self.found.extend(overlap::overlaps(&self.sections));
        self.fences();
        self.found
    }

    /// Checks that fences grow in the order of the sections.
    ///
    /// Two masters may grant a lock within a few milliseconds of each other. The body with the
    /// later grant may then be the first to read the clock (`Crossed`). With one server, this never
    /// happens, because each grant follows the end of the previous lease.
    ///
    /// The fences of shared holders need not grow in the order in which their bodies read the
    /// clock. The store may grant several shared locks before the first body reads the clock. An
    /// exclusive holder has a greater fence than all holders before it, and a smaller fence than
    /// all holders after it.
    fn fences(&mut self) {
        let (mut newest, mut alone): (Option<Section>, Option<Section>) = (None, None);
        for index in 0..self.sections.len() {
            let section = self.sections[index];
            // Sections of clients other than leasehold have no fence. They are skipped, and the
            // sections before and after them are compared with each other.
            if section.fence.is_none() {
                continue;
            }
            let is_alone = section.mode.is_alone();
            let before = if is_alone { newest } else { alone };
            // The two parts of a downgraded section have the same fence, and are not compared.
            let before = before.filter(|earlier| earlier.holder != section.holder);
            if let Some(earlier) =
                before.filter(|earlier| section.fence.is_some() && section.fence <= earlier.fence)
            {
                let crossed = section.fence < earlier.fence && section.sent < earlier.end();
                let kind = if crossed {
                    Kind::Crossed
                } else {
                    Kind::FenceOrder
                };
                self.found(kind, format!("{earlier:?} then {section:?}"));
            }
            if is_alone {
                (newest, alone) = (Some(section), Some(section));
            } else {
                newest = newest
                    .filter(|newest| newest.fence > section.fence)
                    .or(Some(section));
            }
        }
    }

    fn expectations(&mut self) {
        if self.undisturbed && !self.losses.is_empty() {
            self.found(Kind::FalseLoss, format!("{} times", self.losses.len()));
        }
        if self.must_report && self.losses.is_empty() {
            self.found(Kind::ReportedLate, "never".to_owned());
        }
        // Only calls for undisturbed keys must return within their `wait`. A fault may stop a
        // process while its call waits, and the call then returns only after the process resumes.
        for detail in std::mem::take(&mut self.over_budget) {
            if self.undisturbed {
                self.found(Kind::OverBudget, detail);
            }
        }
        let (asked, wait) = self.longest_wait;
        if self.fair_within.is_some_and(|within| wait > within) {
            self.found(
                Kind::Starved,
                format!(
                    "asked {asked}, waited {wait} ns, bound {:?}",
                    self.fair_within
                ),
            );
        }
        if self.alone && self.refusals > 0 {
            self.found(Kind::SelfRefusal, format!("{} times", self.refusals));
        }
        for (at, by) in std::mem::take(&mut self.must_leave) {
            let late =
                |section: &&Section| section.at <= at && section.left.is_none_or(|left| left > by);
            if let Some(section) = self.sections.iter().find(late).copied() {
                self.found(
                    Kind::ReportedLate,
                    format!("{section:?}, taken away {at}, bound {by}"),
                );
            }
        }
    }
}
