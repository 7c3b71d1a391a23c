//! Replaces the meters if the feature `metrics` is off: nothing is counted.
#![expect(clippy::unused_self, reason = "nothing is counted")]

/// Returns false, because there are no counts to check again.
pub(super) fn publish_counts() -> bool {
    false
}

pub(super) fn publish_again() {}

pub(super) fn are_in_use() -> bool {
    false
}

pub(crate) mod template {
    use std::time::Duration;

    use crate::base::outcome::{End, Outcome};

    pub(crate) const OTHER: &str = "other";

    pub(crate) type Handle = Meter;

    /// The template of a call's keys. Nothing is counted for it.
    #[derive(Clone, Copy)]
    pub(crate) struct Meter(&'static str);

    impl Meter {
        pub(crate) fn of(template: &'static str) -> Self {
            Self(template)
        }

        pub(crate) fn template(self) -> &'static str {
            self.0
        }

        pub(crate) fn asks(self) {}

        pub(crate) fn answered(self, _: Outcome, _waited: Duration, _holds: bool) {}

        pub(crate) fn refused(self, _: Outcome) {}

        pub(crate) fn let_go(self) {}

        pub(crate) fn ended(self, _: End, _held: Duration) {}

        pub(crate) fn lost(self) {}
    }
}
