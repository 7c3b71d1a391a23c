//! The modes of a lock, and the number of holders that each mode allows at the same time.

use serde::{Deserialize, Serialize};

/// The mode in which a body holds its lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Exclusive: no other body is inside.
    #[default]
    Alone,
    /// Shared: other readers may be inside.
    Reader,
    /// Holds one of this number of permits.
    Place(u32),
}

impl Mode {
    /// True if no other body may be inside.
    pub fn is_alone(&self) -> bool {
        *self == Self::Alone
    }

    pub(super) fn goes_with(self, other: Self) -> bool {
        matches!(
            (self, other),
            (Self::Reader, Self::Reader) | (Self::Place(_), Self::Place(_))
        )
    }

    /// Returns the number of permits. A mode without permits has no limit here (`usize::MAX`). If
    /// concurrent holders specify different numbers, the largest number counts. A separate rule
    /// finds bodies that overlap an exclusive holder.
    pub(super) fn places(self) -> usize {
        match self {
            Self::Place(most) => usize::try_from(most).unwrap_or(usize::MAX),
            Self::Alone | Self::Reader => usize::MAX,
        }
    }
}
