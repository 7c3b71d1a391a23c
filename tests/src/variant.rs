//! The name of an error's variant, for histories and assertions.

use leasehold::LockError;

/// Returns the name of the variant, such as `Contended`, or `Other` for a variant that this
/// function does not list.
#[must_use]
pub fn of(error: &LockError) -> &'static str {
    match error {
        LockError::Contended { .. } => "Contended",
        LockError::TimedOut { .. } => "TimedOut",
        LockError::QueueFull { .. } => "QueueFull",
        LockError::Lost { .. } => "Lost",
        LockError::Unavailable { .. } => "Unavailable",
        LockError::InvalidKey { .. } => "InvalidKey",
        LockError::WouldDeadlock { .. } => "WouldDeadlock",
        LockError::NotInstalled => "NotInstalled",
        LockError::ShuttingDown => "ShuttingDown",
        LockError::Config { .. } => "Config",
        _ => "Other",
    }
}
