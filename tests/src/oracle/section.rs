//! One body inside a lock.

use super::mode::Mode;

/// One body inside the lock of one key.
#[derive(Debug, Clone, Copy)]
pub(super) struct Section {
    pub(super) holder: u64,
    /// Number of the body that holds the lock, if this body is nested in it.
    pub(super) within: Option<u64>,
    pub(super) mode: Mode,
    pub(super) fence: Option<u64>,
    pub(super) sent: u64,
    pub(super) at: u64,
    pub(super) left: Option<u64>,
    pub(super) deadline: u64,
    /// Time at which the body requested the downgrade of its exclusive lock to a shared lock.
    pub(super) shared_at: Option<u64>,
    /// Time for which the key stays locked after the end of the body.
    pub(super) keeps: Option<u64>,
}

impl Section {
    /// Returns the end of the time in which this holder could rely on its lock. A killed body
    /// counts as inside until its deadline, because nobody releases its key. For a body that
    /// continues after its deadline, returns the deadline. Another rule (`PollAfterDeadline`)
    /// reports such a body.
    pub(super) fn end(&self) -> u64 {
        self.left
            .map_or(self.deadline, |left| left.min(self.deadline))
    }

    /// Splits the section at the downgrade of its lock, into an exclusive part and a shared part.
    /// Without a downgrade, the whole section is the only part.
    pub(super) fn parts(&self) -> impl Iterator<Item = Self> + use<> {
        let end = self.end();
        let shared_at = self.shared_at.map(|at| at.min(end));
        let alone = Self {
            left: shared_at.or(self.left),
            ..*self
        };
        let share = shared_at.map(|at| Self {
            mode: Mode::Reader,
            at,
            ..*self
        });
        let parts = [Some(alone), share].into_iter().flatten();
        parts.filter(|part| part.at < part.end())
    }
}

#[cfg(test)]
mod tests {
    use crate::oracle::fixtures::{enter, kinds, leave, shared};
    use crate::oracle::{Kind, Mode, Note};

    #[test]
    fn a_downgraded_lock_is_shared_after_its_request() {
        let downgrade = Note::Shared {
            key: "k".to_owned(),
            holder: 1,
            at: 50,
        };
        let beside = |at| {
            let reader = shared(Mode::Reader, 2, 6, at);
            [
                enter(1, 5, 10),
                downgrade.clone(),
                reader,
                leave(1, 90, 110),
            ]
        };
        assert_eq!(kinds(&beside(60)), []);
        assert_eq!(kinds(&beside(40)), [Kind::Overlap]);
        let writer = [enter(1, 5, 10), downgrade.clone(), enter(2, 6, 60)];
        assert_eq!(kinds(&writer), [Kind::Overlap]);
    }
}
