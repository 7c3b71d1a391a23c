//! Constructors of errors.

use std::sync::Arc;
use std::time::Duration;

use super::{LockError, StoreError};
use crate::fence::Fence;
use crate::owner::Owner;

/// Constructors, for tests of a program's own error handling and for mocks of a lock. Two errors
/// have no content, and so no constructor: [`NotInstalled`](Self::NotInstalled) and
/// [`ShuttingDown`](Self::ShuttingDown).
impl LockError {
    /// Another call holds the lock. HTTP status 409.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use leasehold::LockError;
    /// let error = LockError::contended("order:42", Duration::from_secs(2));
    /// assert_eq!((error.http_status(), error.retry_after_secs()), (409, Some(2)));
    /// assert!(LockError::contended("order:42", None).is_contention());
    /// ```
    pub fn contended(key: impl Into<String>, retry_after: impl Into<Option<Duration>>) -> Self {
        Self::Contended {
            key: key.into(),
            retry_after: retry_after.into(),
            holder: None,
        }
    }

    /// Sets the [`holder`](Self::holder), if the error is `Contended` or `TimedOut`.
    ///
    /// ```
    /// # use leasehold::{LockError, Owner};
    /// let error = LockError::contended("order:42", None).with_holder(Owner::new("web-1", 4711, ""));
    /// assert!(error.to_string().contains("held by web-1 (pid 4711)"));
    /// ```
    #[must_use]
    pub fn with_holder(mut self, owner: Owner) -> Self {
        if let Self::Contended { holder, .. } | Self::TimedOut { holder, .. } = &mut self {
            *holder = Some(Arc::new(owner));
        }
        self
    }

    /// The lock did not become free within `waited`. HTTP status 409.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use leasehold::LockError;
    /// let error = LockError::timed_out("item:kettle", Duration::from_secs(5), None);
    /// assert!(error.is_contention());
    /// ```
    pub fn timed_out(
        key: impl Into<String>,
        waited: Duration,
        retry_after: impl Into<Option<Duration>>,
    ) -> Self {
        Self::TimedOut {
            key: key.into(),
            waited,
            retry_after: retry_after.into(),
            holder: None,
        }
    }

    /// The queue for the lock already has `limit` calls. HTTP status 409.
    ///
    /// ```
    /// # use leasehold::LockError;
    /// assert!(LockError::queue_full("item:kettle", 1_000, None).is_contention());
    /// ```
    pub fn queue_full(
        key: impl Into<String>,
        limit: usize,
        retry_after: impl Into<Option<Duration>>,
    ) -> Self {
        Self::QueueFull {
            key: key.into(),
            limit,
            retry_after: retry_after.into(),
        }
    }

    /// The lease ended before the work did. HTTP status 500.
    ///
    /// ```
    /// # use leasehold::{Fence, LockError};
    /// let error = LockError::lost("order:42", Fence::from(7));
    /// assert!(error.is_lost() && !error.is_unavailable());
    /// ```
    pub fn lost(key: impl Into<String>, fence: impl Into<Option<Fence>>) -> Self {
        Self::Lost {
            key: key.into(),
            fence: fence.into(),
        }
    }

    /// The lock store could not serve. HTTP status 503. For `code`, see [`StoreError::code`].
    ///
    /// ```
    /// # use leasehold::LockError;
    /// let error = LockError::unavailable("timeout", "no answer within 1s");
    /// assert!(error.is_unavailable());
    /// assert_eq!(error.http_status(), 503);
    /// ```
    pub fn unavailable(code: &'static str, message: impl Into<String>) -> Self {
        Self::Unavailable {
            source: StoreError::new(code, message),
        }
    }

    /// The key cannot be used. HTTP status 400.
    ///
    /// ```
    /// # use leasehold::LockError;
    /// let error = LockError::invalid_key("order:", "the value of `<id>` is empty");
    /// assert_eq!(error.http_status(), 400);
    /// ```
    pub fn invalid_key(key: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::InvalidKey {
            key: key.into(),
            reason: reason.into(),
        }
    }

    /// The call is nested in a body that already holds the key. `held_at` is the place
    /// (`file:line`) of the call or function that took the key. HTTP status 500.
    ///
    /// ```
    /// # use leasehold::LockError;
    /// let error = LockError::would_deadlock("order:42", "src/orders.rs:12");
    /// assert_eq!(error.http_status(), 500);
    /// ```
    pub fn would_deadlock(key: impl Into<String>, held_at: impl Into<String>) -> Self {
        Self::WouldDeadlock {
            key: key.into(),
            held_at: held_at.into(),
        }
    }

    /// The key was used before for another request. HTTP status 422.
    ///
    /// ```
    /// # use leasehold::LockError;
    /// let error = LockError::mismatch("order:42");
    /// assert_eq!((error.http_status(), error.grpc_code()), (422, 3));
    /// ```
    pub fn mismatch(key: impl Into<String>) -> Self {
        Self::Mismatch { key: key.into() }
    }

    /// The configuration of the pool or the lock is invalid. HTTP status 500.
    ///
    /// ```
    /// # use leasehold::LockError;
    /// let error = LockError::config("the lock has no ttl");
    /// assert_eq!(error.to_string(), "the lock has no ttl");
    /// ```
    pub fn config(reason: impl Into<String>) -> Self {
        Self::Config {
            reason: reason.into(),
        }
    }
}
