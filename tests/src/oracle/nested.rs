//! Nested calls. Each nested call runs inside the body that holds the lock. Of the nested calls in
//! one body, only one may run at a time.

use std::collections::HashMap;

use super::Kind;
use super::section::Section;

/// Extends the deadline of each holder to the deadlines of its nested calls. A holder and its
/// nested calls share one lease, so a confirmed renewal extends all of their deadlines.
pub(super) fn share_deadlines(sections: &mut [Section]) {
    let places: HashMap<u64, usize> = (0..)
        .zip(sections.iter())
        .map(|(place, section)| (section.holder, place))
        .collect();
    // A nested call begins after its holder. So the reverse order visits inner calls first, and
    // their deadlines reach all outer calls.
    for place in (0..sections.len()).rev() {
        let Section {
            within, deadline, ..
        } = sections[place];
        if let Some(holder) = within.and_then(|within| places.get(&within)) {
            let holder = &mut sections[*holder];
            holder.deadline = holder.deadline.max(deadline);
        }
    }
}

/// Finds nested calls outside their holders, and nested calls of one holder that overlap.
/// `sections` must be in the order in which the bodies began.
pub(super) fn misplaced(sections: &[Section]) -> Vec<(Kind, String)> {
    let holders: HashMap<u64, &Section> = sections
        .iter()
        .map(|section| (section.holder, section))
        .collect();
    let mut found = Vec::new();
    let mut last: HashMap<u64, &Section> = HashMap::new();
    for section in sections {
        // The holder is not in `sections` if its body first read the clock after the end of its
        // lease.
        let holder = section.within.and_then(|within| holders.get(&within));
        let Some(holder) = holder else { continue };
        if let Some(kind) = broken(section, holder) {
            found.push((kind, format!("{section:?} inside {holder:?}")));
        }
        let before = last.insert(holder.holder, section);
        if let Some(before) = before.filter(|before| section.at < before.end()) {
            let detail = format!("nested side by side: {before:?} and {section:?}");
            found.push((Kind::Overlap, detail));
        }
    }
    found
}

/// Returns the kind of violation if the nested `section` does not fit into its `holder`.
fn broken(section: &Section, holder: &Section) -> Option<Kind> {
    if section.mode.is_alone() && !holder.mode.is_alone() {
        return Some(Kind::Overlap);
    }
    let outlives =
        matches!((section.left, holder.left), (Some(inner), Some(outer)) if inner > outer);
    let other = section.fence != holder.fence;
    (section.at < holder.at || outlives || other).then_some(Kind::Misnested)
}

#[cfg(test)]
mod tests {
    use crate::oracle::fixtures::{enter, kinds, leave, nested, shared};
    use crate::oracle::{Kind, Mode};

    #[test]
    fn nested_calls_take_turns_inside_their_holder() {
        let fine = [
            enter(1, 5, 10),
            nested(1, 2, 5, 20),
            leave(2, 30, 110),
            nested(1, 3, 5, 30),
            leave(3, 40, 110),
            leave(1, 50, 110),
            enter(4, 6, 50),
        ];
        assert_eq!(kinds(&fine), []);
    }

    #[test]
    fn two_concurrent_nested_calls_overlap() {
        let beside = [
            enter(1, 5, 10),
            nested(1, 2, 5, 20),
            nested(1, 3, 5, 25),
            leave(2, 30, 110),
            leave(3, 40, 110),
            leave(1, 50, 110),
        ];
        assert_eq!(kinds(&beside), [Kind::Overlap]);
    }

    #[test]
    fn a_nested_call_has_the_interval_and_fence_of_its_holder() {
        let outlives = [
            enter(1, 5, 10),
            nested(1, 2, 5, 20),
            leave(1, 30, 110),
            leave(2, 40, 110),
        ];
        assert_eq!(kinds(&outlives), [Kind::Misnested]);
        assert_eq!(
            kinds(&[enter(1, 5, 10), nested(1, 2, 6, 20)]),
            [Kind::Misnested]
        );
    }

    #[test]
    fn an_exclusive_call_inside_a_share_is_an_overlap() {
        let reader = shared(Mode::Reader, 1, 5, 10);
        assert_eq!(kinds(&[reader, nested(1, 2, 5, 20)]), [Kind::Overlap]);
    }

    #[test]
    fn a_deadline_of_a_nested_call_applies_to_its_holder() {
        let killed = [enter(1, 5, 10), nested(1, 2, 5, 60), enter(3, 6, 120)];
        assert_eq!(kinds(&killed), [Kind::Overlap]);
    }
}
