//! How asking for locks, holding them and renewing them ends, as metrics and spans name it.

use crate::error::LockError;

/// What a call got that asked for its locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Its locks.
    Granted,
    /// Only locks that an enclosing call holds.
    Entered,
    /// The result that is kept, and no lock.
    Replayed,
    Contended,
    TimedOut,
    QueueFull,
    Unavailable,
    ShuttingDown,
    /// A result is kept, and it is that of another request.
    Mismatch,
    /// Nothing: its future was dropped first.
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

/// How a call stops holding its locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// By a release.
    Released,
    /// A lease was over first, or the store did not have the lock any more.
    Lost,
    /// Its future, or its guard, was dropped.
    Dropped,
    /// Its body panicked, or its guard was dropped by a panic.
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
