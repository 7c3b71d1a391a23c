//! The check of keys that stay locked after the end of a body.

use super::Kind;
use super::section::Section;

/// Tolerance for rounding, in nanoseconds: the store and the request to keep a key count in whole
/// milliseconds.
const ROUNDING: u64 = 3_000_000;

/// Finds bodies that began while their key should still have been locked. `sections` must be in the
/// order in which the bodies began.
///
/// If the key is not `undisturbed`, a fault may lose the request to keep the key. The key then need
/// not stay locked beyond the end of the body's lease.
pub(super) fn taken_early(sections: &[Section], undisturbed: bool) -> Vec<(Kind, String)> {
    let mut found = Vec::new();
    for (place, section) in sections.iter().enumerate() {
        let Some(keeps) = section.keeps else { continue };
        let Some(left) = section.left else { continue };
        let until = if undisturbed {
            left + keeps
        } else {
            (left + keeps).min(section.deadline)
        };
        let next = sections[place + 1..]
            .iter()
            .find(|next| left < next.at && next.at + ROUNDING < until);
        if let Some(next) = next {
            let detail = format!("{section:?}, kept until {until}, then {next:?}");
            found.push((Kind::KeptShort, detail));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use crate::oracle::fixtures::{enter, kinds, leave_kept};
    use crate::oracle::{Kind, Note};

    const MS: u64 = 1_000_000;

    #[test]
    fn a_kept_key_must_have_no_holder_before_its_end() {
        let kept = |next: u64| {
            let (mut first, mut second) = (enter(1, 1, 10), enter(2, 2, next));
            for note in [&mut first, &mut second] {
                if let Note::Enter { at, deadline, .. } = note {
                    *deadline = *at + 1_000 * MS;
                }
            }
            [first, leave_kept(1, 20, 1_000 * MS, 50 * MS), second]
        };
        assert_eq!(kinds(&kept(40 * MS)), [Kind::KeptShort]);
        assert_eq!(kinds(&kept(51 * MS)), []);
    }

    /// The second body begins after the end of the first lease, within the time for which the key
    /// is kept. Fails if this is a violation for a disturbed key, or none for an undisturbed key.
    #[test]
    fn an_ended_lease_is_kept_only_without_disturbances() {
        let kept = [
            enter(1, 1, 10),
            leave_kept(1, 20, 110, 50 * MS),
            enter(2, 2, 200),
        ];
        assert_eq!(kinds(&kept), []);
        let mut undisturbed = kept.to_vec();
        undisturbed.push(Note::Undisturbed {
            key: "k".to_owned(),
        });
        assert_eq!(kinds(&undisturbed), [Kind::KeptShort]);
    }
}
