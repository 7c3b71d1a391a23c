//! Functions that make notes for the tests of the oracle's rules.

use super::{Kind, Mode, Note, check};

/// Returns the note of a body that begins at `at` with a lease of 100 ns.
pub(super) fn enter(holder: u64, fence: u64, at: u64) -> Note {
    Note::Enter {
        key: "k".to_owned(),
        holder,
        fence: Some(fence),
        asked: at - 2,
        at,
        sent: at - 1,
        deadline: at + 100,
        mode: Mode::Alone,
        within: None,
    }
}

pub(super) fn shared(mode: Mode, holder: u64, fence: u64, at: u64) -> Note {
    let mut note = enter(holder, fence, at);
    if let Note::Enter { mode: of, .. } = &mut note {
        *of = mode;
    }
    note
}

/// Returns the note of a nested body inside the lock of `outer`.
pub(super) fn nested(outer: u64, holder: u64, fence: u64, at: u64) -> Note {
    let mut note = enter(holder, fence, at);
    if let Note::Enter { within, .. } = &mut note {
        *within = Some(outer);
    }
    note
}

pub(super) fn leave(holder: u64, at: u64, deadline: u64) -> Note {
    Note::Leave {
        key: "k".to_owned(),
        holder,
        at,
        deadline,
        keeps: None,
    }
}

/// Returns the note of a body that ends and whose key should stay locked for `keep`.
pub(super) fn leave_kept(holder: u64, at: u64, deadline: u64, keep: u64) -> Note {
    let mut note = leave(holder, at, deadline);
    if let Note::Leave { keeps, .. } = &mut note {
        *keeps = Some(keep);
    }
    note
}

/// Returns the kinds of violations that the oracle finds.
pub(super) fn kinds(notes: &[Note]) -> Vec<Kind> {
    let report = check(notes.iter().cloned());
    report.violations.iter().map(|found| found.kind).collect()
}
