//! The check for bodies that exclude each other and were inside at the same time.

use super::Kind;
use super::section::Section;

/// Finds bodies that were inside the lock at the same time although they exclude each other.
/// `sections` must be sections of one key, in the order in which the bodies began.
pub(super) fn overlaps(sections: &[Section]) -> Vec<(Kind, String)> {
    let mut found = Vec::new();
    let mut inside: Vec<&Section> = Vec::new();
    for section in sections {
        inside.retain(|other| section.at < other.end());
        let other = inside.iter();
        let mut others = other.filter(|other| !section.mode.goes_with(other.mode));
        if let Some(other) = others.next() {
            found.push((Kind::Overlap, format!("{other:?} and {section:?}")));
        }
        inside.push(section);
        let places = inside.iter().map(|section| section.mode.places()).max();
        if places.is_some_and(|places| places < inside.len()) {
            found.push((Kind::Crowded, format!("{inside:?}")));
        }
    }
    found
}
