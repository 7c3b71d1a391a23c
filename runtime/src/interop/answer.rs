//! What a service says of a [`LockError`] to its client, whatever the framework.

use crate::error::LockError;

/// The classes of errors that a client can tell apart.
enum Class {
    Contention,
    Unavailable,
    Lost,
    InvalidKey,
    /// A mistake in the program or its configuration.
    Setup,
}

/// What a client gets of an error. None of these names the key: keys can contain what only one user
/// should see.
impl LockError {
    /// The HTTP status of a response.
    ///
    /// It is 409 for contention, 503 if the lock service cannot serve, 400 for a value that makes
    /// no key, else 500. `Lost` is 500: proxies and clients repeat a 503 by themselves, and the
    /// body did run.
    ///
    /// ```
    /// # use leasehold::LockError;
    /// let error = LockError::ShuttingDown;
    /// assert_eq!(error.http_status(), 503);
    /// assert_eq!(error.public_message(), "the lock service is not available");
    /// ```
    pub fn http_status(&self) -> u16 {
        match self.class() {
            Class::Contention => 409,
            Class::Unavailable => 503,
            Class::InvalidKey => 400,
            Class::Lost | Class::Setup => 500,
        }
    }

    /// The number of the gRPC status.
    ///
    /// It is 10 (`ABORTED`) for contention, 14 (`UNAVAILABLE`) if the lock service cannot serve,
    /// and 3 (`INVALID_ARGUMENT`) for a value that makes no key. For a lost lease it is 2
    /// (`UNKNOWN`), because a part of the work may be done. Else it is 13 (`INTERNAL`).
    ///
    /// ```
    /// # use leasehold::LockError;
    /// assert_eq!(LockError::ShuttingDown.grpc_code(), 14);
    /// ```
    pub fn grpc_code(&self) -> i32 {
        match self.class() {
            Class::Contention => 10,
            Class::Unavailable => 14,
            Class::InvalidKey => 3,
            Class::Lost => 2,
            Class::Setup => 13,
        }
    }

    /// The value of a `Retry-After` header, in whole seconds: for contention at least 1, else
    /// `None`. It is rounded up, since a client that comes back earlier would be refused again.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use leasehold::LockError;
    /// let retry_after = Some(Duration::from_millis(2_001));
    /// let error = LockError::Contended { key: "order:42".to_owned(), retry_after };
    /// assert_eq!(error.retry_after_secs(), Some(3));
    /// assert_eq!(LockError::ShuttingDown.retry_after_secs(), None);
    /// ```
    pub fn retry_after_secs(&self) -> Option<u64> {
        let after = self.retry_after().unwrap_or_default();
        let seconds = after.as_millis().div_ceil(1000).max(1);
        self.is_contention()
            .then(|| u64::try_from(seconds).unwrap_or(u64::MAX))
    }

    /// A text for clients: it names no key, no server and no advice for the program's author, which
    /// `Display` does.
    ///
    /// ```
    /// # use leasehold::LockError;
    /// let error = LockError::Contended { key: "order:42".to_owned(), retry_after: None };
    /// assert_eq!(error.public_message(), "the same operation is already being processed");
    /// ```
    pub fn public_message(&self) -> &'static str {
        match self.class() {
            Class::Contention => "the same operation is already being processed",
            Class::Unavailable => "the lock service is not available",
            Class::Lost => "the lock was lost before the work was done",
            Class::InvalidKey => "the request names nothing that could be locked",
            Class::Setup => "the lock is not set up correctly",
        }
    }

    /// A problem document (RFC 9457).
    #[cfg(any(feature = "axum", feature = "actix"))]
    pub(super) fn problem(&self) -> String {
        let (title, status) = (self.public_message(), self.http_status());
        format!(r#"{{"type":"about:blank","title":"{title}","status":{status}}}"#)
    }

    fn class(&self) -> Class {
        match self {
            Self::Contended { .. } | Self::TimedOut { .. } | Self::QueueFull { .. } => {
                Class::Contention
            }
            Self::Unavailable { .. } | Self::ShuttingDown => Class::Unavailable,
            Self::Lost { .. } => Class::Lost,
            Self::InvalidKey { .. } => Class::InvalidKey,
            Self::WouldDeadlock { .. } | Self::NotInstalled | Self::Config { .. } => Class::Setup,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::error::StoreError;

    fn contended(retry_after: Option<Duration>) -> LockError {
        LockError::Contended {
            key: "order:1".to_owned(),
            retry_after,
        }
    }

    #[test]
    fn a_client_is_told_to_come_back_in_whole_seconds() {
        let after = |millis| contended(Some(Duration::from_millis(millis))).retry_after_secs();
        assert_eq!(after(2_001), Some(3));
        assert_eq!(after(0), Some(1));
        assert_eq!(contended(None).retry_after_secs(), Some(1));
        assert_eq!(LockError::ShuttingDown.retry_after_secs(), None);
    }

    #[test]
    fn no_text_for_clients_names_a_key() {
        let key = || "order:1".to_owned();
        let errors = [
            contended(None),
            LockError::TimedOut {
                key: key(),
                waited: Duration::from_secs(1),
            },
            LockError::QueueFull {
                key: key(),
                limit: 7,
            },
            LockError::Lost {
                key: key(),
                fence: None,
            },
            LockError::InvalidKey {
                key: key(),
                reason: "order:1".to_owned(),
            },
            LockError::WouldDeadlock {
                key: key(),
                held_at: "a.rs:1".to_owned(),
            },
            LockError::Unavailable {
                source: StoreError::new("io", "10.0.0.1 order:1"),
            },
        ];
        for error in errors {
            assert!(!error.public_message().contains("order:1"), "{error}");
        }
    }
}
