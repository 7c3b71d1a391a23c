//! Conversion of a [`LockError`] into a service's response to its client, for any framework.

use std::time::Duration;

use crate::error::LockError;

/// Time that a client must wait before it repeats a request, unless the error has a `retry_after`.
const USUAL_DELAY: Duration = Duration::from_secs(1);

/// Classes of errors that a client can distinguish.
enum Class {
    Contention,
    Unavailable,
    Lost,
    InvalidKey,
    Mismatch,
    /// A mistake in the program or its configuration.
    Setup,
}

/// Conversions of an error into a response for a client. No response contains the key, because a
/// key can contain data that only one user may see.
impl LockError {
    /// Returns the HTTP status of a response.
    ///
    /// - 409 for contention.
    /// - 503 if the lock store is unavailable or the pool is shutting down.
    /// - 400 for a value from which no valid key can be built.
    /// - 422 for a `replay` call whose key has the kept result of another request.
    /// - 500 for all other errors. They include `Lost`, because the work may then have been done in
    ///   part, and after a 503, proxies and clients would automatically repeat it.
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
            Class::Mismatch => 422,
            Class::Lost | Class::Setup => 500,
        }
    }

    /// Returns the number of the gRPC status.
    ///
    /// - 10 (`ABORTED`) for contention.
    /// - 14 (`UNAVAILABLE`) if the lock store is unavailable or the pool is shutting down.
    /// - 3 (`INVALID_ARGUMENT`) for a value from which no valid key can be built. Also for a
    ///   `replay` call whose key has the kept result of another request.
    /// - 2 (`UNKNOWN`) for a lost lease. The work may have been done in part, and after
    ///   `UNAVAILABLE`, clients may automatically repeat it.
    /// - 13 (`INTERNAL`) for all other errors.
    ///
    /// ```
    /// # use leasehold::LockError;
    /// assert_eq!(LockError::ShuttingDown.grpc_code(), 14);
    /// ```
    pub fn grpc_code(&self) -> i32 {
        match self.class() {
            Class::Contention => 10,
            Class::Unavailable => 14,
            Class::InvalidKey | Class::Mismatch => 3,
            Class::Lost => 2,
            Class::Setup => 13,
        }
    }

    /// Returns the value of a `Retry-After` header, in whole seconds and at least 1. Returns none
    /// if the same request should not be repeated.
    ///
    /// - For contention, the value is [`retry_after`](Self::retry_after), or 1 if that time is
    ///   unknown. It is rounded up, because a client that retries earlier would be refused again.
    /// - If the lock store is unavailable or the pool is shutting down, the value is 1.
    ///
    /// All clients get the same value. So that they do not retry all at once, a client that retries
    /// automatically should add a random time.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use leasehold::LockError;
    /// let busy = LockError::contended("order:42", Duration::from_millis(2_001));
    /// assert_eq!(busy.retry_after_secs(), Some(3));
    /// assert_eq!(LockError::ShuttingDown.retry_after_secs(), Some(1));
    /// assert_eq!(LockError::lost("order:42", None).retry_after_secs(), None);
    /// ```
    pub fn retry_after_secs(&self) -> Option<u64> {
        let seconds = self.client_delay()?.as_nanos().div_ceil(1_000_000_000);
        Some(u64::try_from(seconds).unwrap_or(u64::MAX).max(1))
    }

    /// Returns the time that a client must wait before it repeats the request. Returns none if the
    /// client should not repeat it.
    pub(super) fn client_delay(&self) -> Option<Duration> {
        match self.class() {
            Class::Contention => Some(self.retry_after().unwrap_or(USUAL_DELAY)),
            Class::Unavailable => Some(USUAL_DELAY),
            Class::Lost | Class::InvalidKey | Class::Mismatch | Class::Setup => None,
        }
    }

    /// Returns a text for clients. Unlike `Display`, the text contains no key, no server and no
    /// advice for the program's author.
    ///
    /// ```
    /// # use leasehold::LockError;
    /// let error = LockError::contended("order:42", None);
    /// assert_eq!(error.public_message(), "the same operation is already being processed");
    /// ```
    pub fn public_message(&self) -> &'static str {
        match self.class() {
            // `TimedOut` and `QueueFull` are for calls that may queue. Such a call usually waits
            // for a different operation on the same key, so "the same operation" would be wrong.
            Class::Contention if !matches!(self, Self::Contended { .. }) => {
                "busy at the moment; try again later"
            }
            Class::Contention => "the same operation is already being processed",
            Class::Unavailable => "the lock service is not available",
            Class::Lost => "the lock was lost before the work was done",
            Class::InvalidKey => "a value in the request is empty or too long",
            Class::Mismatch => "the key was used before for another request",
            Class::Setup => "the lock is not set up correctly",
        }
    }

    /// Returns a problem document (RFC 9457), as JSON.
    #[cfg(any(feature = "axum", feature = "actix"))]
    pub(super) fn problem(&self) -> String {
        let (title, status) = (self.public_message(), self.http_status());
        format!(r#"{{"type":"about:blank","title":"{title}","status":{status}}}"#)
    }

    /// Logs a mistake in the program or its configuration, because the response hides it. Other
    /// errors are not mistakes and are not logged.
    #[cfg(any(feature = "axum", feature = "actix", feature = "tonic"))]
    pub(super) fn log_a_mistake(&self) {
        if let Class::Setup = self.class() {
            tracing::error!(error = %self, "a client got a response with an internal error");
        }
    }

    fn class(&self) -> Class {
        match self {
            Self::Contended { .. } | Self::TimedOut { .. } | Self::QueueFull { .. } => {
                Class::Contention
            }
            Self::Unavailable { .. } | Self::ShuttingDown => Class::Unavailable,
            Self::Lost { .. } => Class::Lost,
            Self::InvalidKey { .. } => Class::InvalidKey,
            Self::Mismatch { .. } => Class::Mismatch,
            Self::WouldDeadlock { .. } | Self::NotInstalled | Self::Config { .. } => Class::Setup,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "order:1";

    fn contended(retry_after: Option<Duration>) -> LockError {
        LockError::contended(KEY, retry_after)
    }

    #[test]
    fn retry_after_is_in_whole_seconds() {
        let after = |millis| contended(Some(Duration::from_millis(millis))).retry_after_secs();
        assert_eq!(after(2_001), Some(3));
        assert_eq!(after(0), Some(1));
        assert_eq!(contended(None).retry_after_secs(), Some(1));
        let long = Duration::from_secs(2);
        let timed_out = LockError::timed_out(KEY, long, long);
        let full = LockError::queue_full(KEY, 1, long);
        assert_eq!(timed_out.retry_after_secs(), Some(2));
        assert_eq!(full.retry_after_secs(), Some(2));
        assert_eq!(LockError::ShuttingDown.retry_after_secs(), Some(1));
    }

    /// Fails if a client is advised to repeat a request that may have been done in part, or that
    /// can never succeed.
    #[test]
    fn retry_after_is_absent_if_a_retry_cannot_help() {
        for error in [
            LockError::lost(KEY, None),
            LockError::invalid_key(KEY, "empty"),
            LockError::mismatch(KEY),
            LockError::would_deadlock(KEY, "a.rs:1"),
            LockError::NotInstalled,
            LockError::config("no ttl"),
        ] {
            assert_eq!(error.retry_after_secs(), None, "{error}");
        }
    }

    #[test]
    fn texts_for_clients_contain_no_key() {
        let errors = [
            contended(None),
            LockError::timed_out(KEY, USUAL_DELAY, None),
            LockError::queue_full(KEY, 7, None),
            LockError::lost(KEY, None),
            LockError::invalid_key(KEY, KEY),
            LockError::mismatch(KEY),
            LockError::would_deadlock(KEY, "a.rs:1"),
            LockError::unavailable("io", format!("10.0.0.1 {KEY}")),
            LockError::config(KEY),
        ];
        for error in errors {
            assert!(!error.public_message().contains(KEY), "{error}");
        }
    }
}
