//! The outcome of a call's request for its locks, and the reason for the end of these locks. Both
//! have names for metrics and spans.

use crate::error::LockError;

/// Outcome of a call's request for its locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The call got its locks.
    Granted,
    /// The call is nested, and an enclosing call already holds all its locks.
    Entered,
    /// A kept result answered the call, so it got no lock.
    Replayed,
    Contended,
    TimedOut,
    QueueFull,
    Unavailable,
    ShuttingDown,
    /// The kept result has another fingerprint than the call.
    Mismatch,
    /// The call's future was dropped before the call got its locks or was refused.
    Dropped,
    Other,
}

impl Outcome {
    #[cfg(feature = "metrics")]
    pub(crate) const ALL: [Self; 11] = [
        Self::Granted,
        Self::Entered,
        Self::Replayed,
        Self::Contended,
        Self::TimedOut,
        Self::QueueFull,
        Self::Unavailable,
        Self::ShuttingDown,
        Self::Mismatch,
        Self::Dropped,
        Self::Other,
    ];

    pub(crate) fn of(error: &LockError) -> Self {
        match error {
            LockError::Contended { .. } => Self::Contended,
            LockError::TimedOut { .. } => Self::TimedOut,
            LockError::QueueFull { .. } => Self::QueueFull,
            LockError::Unavailable { .. } => Self::Unavailable,
            LockError::ShuttingDown => Self::ShuttingDown,
            LockError::Mismatch { .. } => Self::Mismatch,
            _ => Self::Other,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Granted => "granted",
            Self::Entered => "entered",
            Self::Replayed => "replayed",
            Self::Contended => "contended",
            Self::TimedOut => "timed_out",
            Self::QueueFull => "queue_full",
            Self::Unavailable => "unavailable",
            Self::ShuttingDown => "shutting_down",
            Self::Mismatch => "mismatch",
            Self::Dropped => "dropped",
            Self::Other => "other",
        }
    }
}

/// Reason why a call no longer holds its locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The locks were released.
    Released,
    /// A lease ended before the release, or the release found the lock gone.
    Lost,
    /// The call's future or guard was dropped without a release.
    Dropped,
    /// The body panicked, or a panic dropped the guard.
    Panicked,
}

impl End {
    #[cfg(feature = "metrics")]
    pub(crate) const ALL: [Self; 4] = [Self::Released, Self::Lost, Self::Dropped, Self::Panicked];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Released => "released",
            Self::Lost => "lost",
            Self::Dropped => "dropped",
            Self::Panicked => "panicked",
        }
    }
}
