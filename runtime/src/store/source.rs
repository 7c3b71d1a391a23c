//! The part of a store that inspects locks, for [`LockPool::inspect`](crate::LockPool::inspect) and
//! similar calls.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use crate::base::full_key::FullKey;
use crate::error::LockError;
use crate::inspect::info::LockInfo;
use crate::inspect::pattern::Pattern;

/// Approximate number of keys on one page of a list of locks.
pub(crate) const PAGE: usize = 200;

/// Maximum number of holders, and of waiting processes, reported for one lock. This bounds the size
/// of an answer.
pub(crate) const MOST_TOLD: usize = 1_000;

/// Pending answer of a [`Source`]: the future that `look`, `page` and `take_away` return.
pub(crate) type Asking<'a, T> = Pin<Box<dyn Future<Output = Result<T, LockError>> + Send + 'a>>;

/// Part of a store that inspects its locks. It uses separate connections, which it opens when it
/// needs them.
///
/// Cancel safe: after a dropped call, the next call reuses the connection or opens a new one.
pub(crate) trait Source: Send {
    /// Returns the information on one lock, without changing the lock.
    fn look<'a>(&'a mut self, key: &'a FullKey) -> Asking<'a, LockInfo>;

    /// Returns one page of the matching locks that are not free, starting at `place`.
    fn page<'a>(&'a mut self, pattern: &'a Pattern, place: Place) -> Asking<'a, Page>;

    /// Takes a lock away from its holders. Returns the state that the lock had before.
    ///
    /// Notifies a holder if possible. A notified holder keeps other clients out until its body has
    /// ended, for at most [`GRACE`](crate::store::GRACE). If no holder can be notified, the lock is
    /// free at once.
    fn take_away<'a>(&'a mut self, key: &'a FullKey) -> Asking<'a, LockInfo>;

    /// Returns the extra time that `take_away` may need compared with other calls, because it may
    /// wait for the holder.
    fn grace(&self) -> Duration {
        Duration::ZERO
    }
}

/// Returns the error of a store whose locks are in this process. Such locks are inspected without a
/// source.
pub(crate) fn no_server() -> LockError {
    LockError::config("the locks of this store are in this process; there is no server to look at")
}

/// Position in a list, as a key or as the server's cursor. Empty at the beginning.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Place(pub(crate) String);

/// One page of a list.
#[derive(Debug, Default)]
pub(crate) struct Page {
    pub(crate) locks: Vec<LockInfo>,
    /// `None` on the last page.
    pub(crate) next: Option<Place>,
}
