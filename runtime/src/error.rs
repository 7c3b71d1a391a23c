//! The possible errors, with advice for the caller.

mod constructors;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::fence::Fence;
use crate::owner::Owner;
use crate::plain::Plain;

/// The error of a call that did not get its lock, or lost it.
///
/// Most messages include the action to take. That of [`ShuttingDown`](Self::ShuttingDown) does not,
/// and that of [`Unavailable`](Self::Unavailable) only if the store's error does. No message
/// contains a password or a lock's token. `Display` shows the key, so use it only for logs, and
/// [`public_message`](Self::public_message) for clients. `Display` escapes control characters in
/// keys, owners and texts of servers, so that they cannot manipulate a log or a terminal.
///
/// Each error can be constructed, so that a program can test its own error handling:
///
/// ```
/// use std::time::Duration;
///
/// use leasehold::LockError;
///
/// /// What this program's clients get: status and `Retry-After`.
/// fn answer(error: &LockError) -> (u16, Option<u64>) {
///     (error.http_status(), error.retry_after_secs())
/// }
///
/// let busy = LockError::contended("order:42", Duration::from_millis(1_200));
/// assert_eq!(answer(&busy), (409, Some(2)));
///
/// let away = LockError::unavailable("timeout", "no answer within 1s");
/// assert_eq!(answer(&away), (503, Some(1)));
///
/// let lost = LockError::lost("order:42", None);
/// assert_eq!(answer(&lost), (500, None)); // a part of the work may be done
/// ```
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// The lock is not free, and this call does not queue (`wait` is zero). Usually, another call
    /// holds the lock. After that call, `cooldown` or `min_hold` may still keep it.
    #[error(
        "the lock `{}` is held{}{}; set `wait` to queue for it",
        Plain(key),
        HeldBy(holder.as_deref()),
        RetryAfter(*.retry_after)
    )]
    Contended {
        /// The key without its namespace.
        key: String,
        /// See [`LockError::retry_after`].
        retry_after: Option<Duration>,
        /// See [`LockError::holder`].
        holder: Option<Arc<Owner>>,
    },

    /// The call queued for the lock, and its `wait` ended before it got the lock.
    #[error(
        "the lock `{}` did not become free within {}{}; retry later or set a longer `wait`",
        Plain(key),
        millis(*.waited),
        LastHeldBy(holder.as_deref())
    )]
    TimedOut {
        /// The key without its namespace.
        key: String,
        /// Time for which the call queued.
        waited: Duration,
        /// See [`LockError::retry_after`].
        retry_after: Option<Duration>,
        /// See [`LockError::holder`].
        holder: Option<Arc<Owner>>,
    },

    /// The call held the lock, but its lease ended before the work did. The body was dropped,
    /// unless `on_lost = "continue"`. A body that is not async cannot be dropped and ran to its
    /// end. Requests that the body had already sent may still take effect.
    #[error(
        "the lease on `{}` was lost before the work was done; see the log for the reason; without \
         `watchdog` the `ttl` must be longer than the work takes; check the fence where the result \
         is written",
        Plain(key)
    )]
    Lost {
        /// The key without its namespace.
        key: String,
        /// The fence of the lost lease.
        fence: Option<Fence>,
    },

    /// The lock store cannot be reached, did not answer in time, or answered that it cannot serve.
    /// The call holds no lock. In the background, the engine removes anything that the request may
    /// have set on the server.
    #[error("the lock store is unavailable: {source}")]
    Unavailable {
        /// The error of the store.
        source: StoreError,
    },

    /// The key cannot be used. No request was sent and the body did not run.
    #[error("the lock key `{}` cannot be used: {}", Plain(key), Plain(reason))]
    InvalidKey {
        /// The key, as far as it could be built. At most its first 64 characters.
        key: String,
        /// The problem with the key, and the correct form.
        reason: String,
    },

    /// This call is nested in a body that already holds the key. The call would wait for the body,
    /// and the body for the call, forever. No request was sent. Use `reentrant` for a nested call
    /// that should run inside the lock.
    #[error(
        "the lock `{}` is already held by this call path, taken at {held_at}; mark the function \
         `reentrant` to enter an exclusive lock, or use another key",
        Plain(key)
    )]
    WouldDeadlock {
        /// The key without its namespace.
        key: String,
        /// `file:line` of the annotated function, or of the `pool.lock(…)`, that holds the key.
        held_at: String,
    },

    /// Too many calls of this process queue for the key already.
    #[error(
        "{limit} calls of this process already queue for the lock `{}`; shed load, or raise `max_waiters` in the pool's `Fairness`",
        Plain(key)
    )]
    QueueFull {
        /// The key without its namespace.
        key: String,
        /// The pool's limit, [`max_waiters`](crate::Fairness::max_waiters).
        limit: usize,
        /// See [`LockError::retry_after`].
        retry_after: Option<Duration>,
    },

    /// The key has the kept result of another request, whose `fingerprint` differs from the call's.
    /// The call got no lock and the body did not run.
    #[error(
        "the kept result of `{}` belongs to another request: the `fingerprint` differs; use a new \
         key for a new request",
        Plain(key)
    )]
    Mismatch {
        /// The key without its namespace.
        key: String,
    },

    /// An annotated function was called before a pool was installed, or in a task outside of the
    /// [`scope`](crate::LockPool::scope) of its caller.
    #[error(
        "no lock pool is installed; add `leasehold::init(\"redis://127.0.0.1/\").await?;` at the \
         start of the program; inside a `pool.scope(…)` spawn tasks with `leasehold::spawn(…)`, or \
         give the task's future its own scope with `leasehold::pool()?.scope(…)`"
    )]
    NotInstalled,

    /// The pool is shutting down and takes no new locks. A shutdown also drops the running body of
    /// [`lead`](crate::LockRequest::lead), which then returns this error.
    #[error("the lock pool is shutting down and takes no new locks")]
    ShuttingDown,

    /// The configuration of the pool or the lock is invalid.
    #[error("{}", Plain(reason))]
    Config {
        /// The problem, and the action to take.
        reason: String,
    },
}

/// Writes the same text as `Display`, because Rust prints the `Debug` text of an error that `main`
/// returns.
impl fmt::Debug for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl LockError {
    /// Returns true if other calls hold the lock or queue for it: [`Contended`](Self::Contended),
    /// [`TimedOut`](Self::TimedOut) or [`QueueFull`](Self::QueueFull). An HTTP service answers 409.
    ///
    /// ```
    /// # use leasehold::LockError;
    /// assert!(LockError::contended("order:42", None).is_contention());
    /// ```
    pub fn is_contention(&self) -> bool {
        matches!(
            self,
            Self::Contended { .. } | Self::TimedOut { .. } | Self::QueueFull { .. }
        )
    }

    /// Returns true if the lock service cannot serve now: [`Unavailable`](Self::Unavailable) or
    /// [`ShuttingDown`](Self::ShuttingDown). The body did not run, except in
    /// [`lead`](crate::LockRequest::lead), whose body may have begun. An HTTP service answers 503.
    ///
    /// ```
    /// # use leasehold::LockError;
    /// assert!(LockError::ShuttingDown.is_unavailable());
    /// ```
    pub fn is_unavailable(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::ShuttingDown)
    }

    /// Returns true if the call held the lock and lost it: [`Lost`](Self::Lost). The body has
    /// usually run, at least in part, so do not repeat it blindly. An HTTP service answers 500,
    /// which no proxy retries automatically.
    ///
    /// ```
    /// # use leasehold::LockError;
    /// let error = LockError::lost("order:42", None);
    /// assert!(error.is_lost() && !error.is_unavailable());
    /// ```
    pub fn is_lost(&self) -> bool {
        matches!(self, Self::Lost { .. })
    }

    /// Returns true if the key was used before for another request: [`Mismatch`](Self::Mismatch).
    /// The body did not run. An HTTP service answers 422.
    ///
    /// ```
    /// # use leasehold::LockError;
    /// assert!(LockError::mismatch("order:42").is_mismatch());
    /// ```
    pub fn is_mismatch(&self) -> bool {
        matches!(self, Self::Mismatch { .. })
    }

    /// Returns the time to wait before the next try. Returns none if that time is unknown, and for
    /// errors other than [contention](Self::is_contention).
    ///
    /// The time is an estimate, based on the mean time for which earlier calls held their locks.
    ///
    /// - Each call site has a separate mean. A call site is an annotated function, or a call of
    ///   [`LockPool::lock`](crate::LockPool::lock). If the holder is in this process, the mean of
    ///   its call site is used, otherwise that of the refused call. The mean includes all locks of
    ///   the call site that this pool has released. The last lock has a weight of one eighth.
    /// - The `cooldown` of the call site is added to the mean.
    /// - The estimate is at most the remaining time of the holder's lease, and at least 10 ms.
    /// - Before the first release, the estimate is 1 s for a lock with a watchdog, because its
    ///   lease does not predict its release. Without a watchdog, it is the remaining time of the
    ///   lease.
    /// - While the key is left free for [other clients](crate::Fairness::make_way_after), the time
    ///   is exactly the remaining time of that pause.
    /// - [`Fairness::retry_hint`](crate::Fairness::retry_hint) replaces the estimate and the
    ///   remaining time of a pause.
    ///
    /// All refused clients get the same time. Clients that retry automatically must each add a
    /// random time (jitter), or they retry at the same moment. Leasehold does not add jitter.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use leasehold::LockError;
    /// let refused = LockError::contended("order:42", Duration::from_millis(120));
    /// assert_eq!(refused.retry_after(), Some(Duration::from_millis(120)));
    /// assert_eq!(refused.retry_after_secs(), Some(1)); // for a `Retry-After` header
    /// ```
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Contended { retry_after, .. }
            | Self::TimedOut { retry_after, .. }
            | Self::QueueFull { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

impl LockError {
    /// Returns the process that held the lock when this call was refused, if that process is known.
    /// Only [`Contended`](Self::Contended) and [`TimedOut`](Self::TimedOut) have a holder. This
    /// method sends no request to the store.
    ///
    /// Returns none if a client without leasehold holds the lock, or if several calls share it.
    /// Also returns none while the lock passes from one process to the next. `Display` shows the
    /// holder, for logs. [`public_message`](Self::public_message) does not.
    ///
    /// ```
    /// # use leasehold::{LockError, Owner};
    /// let holder = Owner::new("web-1", 4711, "shop::create_order");
    /// let error = LockError::contended("order:42", None).with_holder(holder);
    /// assert_eq!(error.holder().map(|owner| owner.pid), Some(4711));
    /// assert!(error.to_string().contains("held by shop::create_order on web-1 (pid 4711)"));
    /// assert!(!error.public_message().contains("web-1"));
    /// ```
    pub fn holder(&self) -> Option<&Owner> {
        match self {
            Self::Contended { holder, .. } | Self::TimedOut { holder, .. } => holder.as_deref(),
            _ => None,
        }
    }
}

/// Formats a duration such as `2s 500ms`, without fractions of a millisecond.
pub(crate) fn millis(span: Duration) -> humantime::FormattedDuration {
    let millis = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    humantime::format_duration(Duration::from_millis(millis))
}

/// Displays ` by shop::create_order on web-1 (pid 4711)`, or nothing if the holder is unknown.
struct HeldBy<'a>(Option<&'a Owner>);

impl fmt::Display for HeldBy<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(owner) => write!(f, " by {owner}"),
            None => Ok(()),
        }
    }
}

/// Displays `, held by shop::create_order on web-1 (pid 4711)`, or nothing if the holder is
/// unknown.
struct LastHeldBy<'a>(Option<&'a Owner>);

impl fmt::Display for LastHeldBy<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(_) => write!(f, ", held{}", HeldBy(self.0)),
            None => Ok(()),
        }
    }
}

/// Displays ` (try again in 2s 500ms)`, or nothing if the time is unknown.
struct RetryAfter(Option<Duration>);

impl fmt::Display for RetryAfter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(after) => write!(f, " (try again in {})", millis(after)),
            None => Ok(()),
        }
    }
}

/// The error of a lock store that could not serve. It is the `source()` of
/// [`LockError::Unavailable`].
///
/// ```
/// use std::error::Error;
///
/// use leasehold::{LockError, StoreError};
///
/// let source = StoreError::new("READONLY", "the server is a replica");
/// let error = LockError::Unavailable { source };
/// assert_eq!(error.to_string(), "the lock store is unavailable: the server is a replica");
/// assert!(error.source().is_some_and(|source| source.is::<StoreError>()));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreError {
    code: &'static str,
    message: String,
}

impl StoreError {
    /// Creates the error of a store. See [`LockError::unavailable`].
    ///
    /// ```
    /// use leasehold::{LockError, StoreError};
    ///
    /// let source = StoreError::new("timeout", "no answer within 1s");
    /// assert!(LockError::Unavailable { source }.is_unavailable());
    /// ```
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }

    /// Returns a short constant for logs and tests: `timeout`, `io`, `LOADING`, `READONLY`, `OOM`,
    /// `NOAUTH`, `WRONGPASS`, `NOPERM`, …
    ///
    /// ```
    /// # use leasehold::StoreError;
    /// assert_eq!(StoreError::new("timeout", "no answer within 1s").code(), "timeout");
    /// ```
    pub fn code(&self) -> &'static str {
        self.code
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Plain(&self.message).fmt(f)
    }
}

impl std::error::Error for StoreError {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys, owners and server errors can contain control characters. Fails if such a text can
    /// begin a new line in a log, or control a terminal.
    #[test]
    fn control_characters_in_an_error_are_escaped() {
        let odd = "a\u{1b}[2J\n\u{202e}b";
        let owner = Owner::new(odd, 7, odd);
        for error in [
            LockError::contended(odd, None).with_holder(owner.clone()),
            LockError::timed_out(odd, Duration::ZERO, None).with_holder(owner),
            LockError::lost(odd, None),
            LockError::unavailable("ERR", odd),
            LockError::invalid_key(odd, odd),
            LockError::would_deadlock(odd, "a.rs:1"),
            LockError::queue_full(odd, 7, None),
            LockError::mismatch(odd),
            LockError::config(odd),
        ] {
            for text in [error.to_string(), format!("{error:?}")] {
                assert!(!text.contains(['\n', '\u{1b}', '\u{202e}']), "{text:?}");
                assert!(text.contains("a\\u{1b}[2J\\n\\u{202e}b"), "{text:?}");
            }
        }
    }
}
