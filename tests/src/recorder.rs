//! An oracle for one test. Every body reports when it enters and leaves, and the oracle detects
//! bodies that overlap.
//!
//! The oracle does not use the lock store. All timestamps are microseconds of [`clock::now`], a
//! clock that all processes share.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;

use crate::clock;

/// One run of a body inside its lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// The locked key.
    pub key: String,
    /// The fence of this holder, if the store has fences.
    pub fence: Option<u64>,
    /// Start of the body.
    pub entered: u64,
    /// End of the body; `None` if the body was killed.
    pub left: Option<u64>,
    /// End of the lease, as the store last confirmed it to the holder.
    pub deadline: u64,
}

impl Section {
    /// The last moment at which this body can have run. For a killed body, this moment is its
    /// deadline.
    pub fn end(&self) -> u64 {
        self.left.unwrap_or(self.deadline)
    }
}

/// A broken promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Violation {
    /// Two bodies ran inside one lock at the same time.
    Overlap(Section, Section),
    /// The fence of a holder is not greater than the fence of the holder before it.
    FenceOrder(Section, Section),
    /// A body continued after its deadline.
    Outlived(Section),
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Overlap(a, b) => write!(f, "two bodies overlap: {a:?} and {b:?}"),
            Self::FenceOrder(a, b) => write!(f, "the fence did not grow: {a:?} then {b:?}"),
            Self::Outlived(a) => write!(f, "a body outlived its lease: {a:?}"),
        }
    }
}

/// Collects the sections of all holders.
#[derive(Debug, Default)]
pub struct Recorder {
    sections: Mutex<Vec<Section>>,
}

impl Recorder {
    /// An empty recorder.
    pub fn new() -> Self {
        Self::default()
    }

    /// Records the start of a body. The body must keep the returned value until it ends, because
    /// dropping the value records the end of the body.
    pub fn enter(&self, key: &str, fence: Option<u64>, deadline: u64) -> Inside<'_> {
        Inside {
            recorder: self,
            section: Section {
                key: key.to_owned(),
                fence,
                entered: clock::now(),
                left: None,
                deadline,
            },
        }
    }

    /// Adds a section reported by another process.
    pub fn add(&self, section: Section) {
        self.lock().push(section);
    }

    /// Number of recorded sections.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// True if no section was recorded.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All broken promises.
    pub fn violations(&self) -> Vec<Violation> {
        let mut by_key: BTreeMap<String, Vec<Section>> = BTreeMap::new();
        for section in self.lock().iter() {
            by_key
                .entry(section.key.clone())
                .or_default()
                .push(section.clone());
        }
        by_key.into_values().flat_map(check).collect()
    }

    /// Checks all recorded sections.
    ///
    /// # Panics
    ///
    /// Panics with the violations, if there are any.
    #[track_caller]
    pub fn verify(&self) {
        let violations = self.violations();
        let texts: Vec<_> = violations.iter().map(ToString::to_string).collect();
        assert!(texts.is_empty(), "{}", texts.join("\n"));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Section>> {
        self.sections
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// A running body. Dropping this value records the end of the body.
#[derive(Debug)]
#[must_use]
pub struct Inside<'a> {
    recorder: &'a Recorder,
    section: Section,
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.section.left = Some(clock::now());
        self.recorder.add(self.section.clone());
    }
}

/// Checks the sections of one key.
fn check(mut sections: Vec<Section>) -> Vec<Violation> {
    sections.sort_by_key(|section| section.entered);
    let mut violations = Vec::new();
    // The section with the latest end so far. A long section may overlap with any later section,
    // not only with the next one.
    let mut longest: Option<Section> = None;
    let mut newest: Option<Section> = None;
    for section in sections {
        if section.end() > section.deadline {
            violations.push(Violation::Outlived(section.clone()));
        }
        if let Some(earlier) = longest.take() {
            if section.entered < earlier.end() {
                violations.push(Violation::Overlap(earlier.clone(), section.clone()));
            }
            longest = Some(earlier).filter(|earlier| earlier.end() > section.end());
        }
        if let Some(earlier) = newest.take()
            && section.fence.is_some()
            && section.fence <= earlier.fence
        {
            violations.push(Violation::FenceOrder(earlier, section.clone()));
        }
        longest = longest.or_else(|| Some(section.clone()));
        newest = Some(section);
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::{Recorder, Section, Violation};

    fn section(fence: u64, entered: u64, left: Option<u64>) -> Section {
        Section {
            key: "k".to_owned(),
            fence: Some(fence),
            entered,
            left,
            deadline: entered + 100,
        }
    }

    fn violations(sections: &[Section]) -> Vec<Violation> {
        let recorder = Recorder::new();
        for section in sections {
            recorder.add(section.clone());
        }
        recorder.violations()
    }

    #[test]
    fn consecutive_sections_are_accepted() {
        let fine = [
            section(1, 10, Some(20)),
            section(2, 20, Some(30)),
            section(5, 40, None),
            section(6, 140, Some(150)),
        ];
        assert_eq!(violations(&fine), []);
    }

    #[test]
    fn an_overlap_with_a_non_adjacent_body_is_detected() {
        let long = section(1, 10, Some(90));
        let nested = [
            long.clone(),
            section(2, 20, Some(30)),
            section(3, 50, Some(60)),
        ];
        let expected = [
            Violation::Overlap(long.clone(), nested[1].clone()),
            Violation::Overlap(long, nested[2].clone()),
        ];
        assert_eq!(violations(&nested), expected);
    }

    #[test]
    fn a_killed_body_counts_until_its_deadline() {
        let killed = section(1, 10, None);
        let early = section(2, 50, Some(60));
        assert_eq!(
            violations(&[killed.clone(), early.clone()]),
            [Violation::Overlap(killed, early)]
        );
    }

    #[test]
    fn a_fence_without_growth_is_detected() {
        let first = section(7, 10, Some(20));
        let second = section(7, 30, Some(40));
        assert_eq!(
            violations(&[first.clone(), second.clone()]),
            [Violation::FenceOrder(first, second)]
        );
    }

    #[test]
    fn a_body_after_its_deadline_is_detected() {
        let late = section(1, 10, Some(111));
        assert_eq!(
            violations(std::slice::from_ref(&late)),
            [Violation::Outlived(late)]
        );
    }
}
