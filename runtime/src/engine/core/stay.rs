//! The options that keep a lock taken after its body.

use std::time::Duration;

/// Times for which a lock stays taken after its body. Boxed where it is stored, because few
/// calls have one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stay {
    /// Time after a success, if set before the call.
    pub(crate) cooldown: Duration,
    /// Least time counted from the body's start.
    pub(crate) min_hold: Option<Duration>,
}

impl Stay {
    /// Returns none if the lock need not stay taken.
    pub(crate) fn of(cooldown: Duration, min_hold: Option<Duration>) -> Option<Box<Self>> {
        let stays = !cooldown.is_zero() || min_hold.is_some();
        stays.then(|| Box::new(Self { cooldown, min_hold }))
    }
}
