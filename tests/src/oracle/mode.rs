//! How a lock is held, and which holders may be inside at the same time.

use serde::{Deserialize, Serialize};

use super::Kind;
use super::section::Section;

/// How a body holds its lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// With no other body inside.
    #[default]
    Alone,
    /// As a reader, beside other readers.
    Reader,
    /// In one of so many places.
    Place(u32),
}

impl Mode {
    /// Whether no other body may be inside.
    pub fn is_alone(&self) -> bool {
        *self == Self::Alone
    }

    fn goes_with(self, other: Self) -> bool {
        matches!(
            (self, other),
            (Self::Reader, Self::Reader) | (Self::Place(_), Self::Place(_))
        )
    }

    /// How many bodies may be inside. Where functions disagree the larger number counts.
    fn places(self) -> usize {
        match self {
            Self::Place(most) => usize::try_from(most).unwrap_or(usize::MAX),
            Self::Alone | Self::Reader => usize::MAX,
        }
    }
}

/// Finds bodies that were inside beside another one that excludes them. The sections are of one
/// key, in the order in which they began.
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
