//! The failure of a request, and the time to retry it.

use crate::error::LockError;

/// Codes of refused logins: of Redis, of PostgreSQL (SQLSTATE), and of etcd and ZooKeeper.
const REFUSED_LOGINS: [&str; 6] = [
    "NOAUTH",
    "WRONGPASS",
    "NOPERM",
    "28P01",
    "28000",
    "permission",
];

/// Code of the failure if the pool gets no credentials from the program's function or the password
/// file.
pub(crate) const NO_CREDENTIALS: &str = "credentials";

/// Failure of a request, returned instead of a [`Reply`](super::Reply).
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    pub(crate) error: LockError,
    pub(crate) retry: Retry,
    /// True if the server may have carried the request out, or may still do so.
    pub(crate) executed: bool,
}

impl Failure {
    /// Returns the failure of a store that cannot serve the request.
    pub(crate) fn unavailable(
        code: &'static str,
        message: String,
        retry: Retry,
        executed: bool,
    ) -> Self {
        Self {
            error: LockError::unavailable(code, message),
            retry,
            executed,
        }
    }

    /// Returns the code of the store's error.
    pub(crate) fn code(&self) -> &'static str {
        match &self.error {
            LockError::Unavailable { source } => source.code(),
            _ => "",
        }
    }

    /// True if the server refused the login, the pool has no credentials, or the settings do not
    /// fit the server. The request then fails until the settings, the credentials or the server
    /// change.
    pub(crate) fn is_refusal(&self) -> bool {
        self.retry == Retry::Never
            || matches!(self.error, LockError::Config { .. })
            || self.code() == NO_CREDENTIALS
            || REFUSED_LOGINS.contains(&self.code())
    }

    /// True if the server refused the user or the password.
    pub(crate) fn is_refused_password(&self) -> bool {
        ["WRONGPASS", "28P01", "permission"].contains(&self.code())
    }

    /// Returns the store's error, without the text that [`LockError::Unavailable`] puts before it.
    pub(crate) fn text(&self) -> String {
        match &self.error {
            LockError::Unavailable { source } => source.to_string(),
            error => error.to_string(),
        }
    }
}

/// The time to retry a failed request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Retry {
    /// At once: the cause of the failure is gone.
    Now,
    /// After a pause: the store is unreachable, loading, or failing over.
    Later,
    /// Only after an operator has changed something.
    Never,
}
