//! What [`LockPool::inspect`](crate::LockPool::inspect) and its like ask of a store.

#[cfg(feature = "__remote")]
use std::future::Future;
#[cfg(feature = "__remote")]
use std::pin::Pin;
#[cfg(feature = "__remote")]
use std::time::Duration;

#[cfg(feature = "__remote")]
use crate::base::full_key::FullKey;
#[cfg(feature = "__remote")]
use crate::error::LockError;
use crate::inspect::info::LockInfo;
#[cfg(feature = "__remote")]
use crate::inspect::pattern::Pattern;

/// How many keys a page of a list has, about.
pub(crate) const PAGE: usize = 200;

/// The most holders, and the most waiting processes, that are told of one lock.
pub(crate) const MOST_TOLD: usize = 1_000;

/// An answer of a [`Source`] that is awaited.
#[cfg(feature = "__remote")]
pub(crate) type Asking<'a, T> = Pin<Box<dyn Future<Output = Result<T, LockError>> + Send + 'a>>;

/// Looks at the locks of a store over connections of its own, which it opens when it needs them.
///
/// Cancel safe: a question that is dropped leaves a connection that serves the next one, or none.
#[cfg(feature = "__remote")]
pub(crate) trait Source: Send {
    /// What there is of one lock. Changes nothing.
    fn look<'a>(&'a mut self, key: &'a FullKey) -> Asking<'a, LockInfo>;

    /// Some of the locks that match, from `place` on. None of them is free.
    fn page<'a>(&'a mut self, pattern: &'a Pattern, place: Place) -> Asking<'a, Page>;

    /// Takes a lock away from its holders. Returns what was there.
    ///
    /// A holder that can be told is told, and keeps the key from other clients until its body has
    /// ended, for [`GRACE`](crate::store::GRACE) at most. Else the key is free at once.
    fn take_away<'a>(&'a mut self, key: &'a FullKey) -> Asking<'a, LockInfo>;

    /// For how much longer than the other questions that may go on: it may wait for the holder.
    fn grace(&self) -> Duration {
        Duration::ZERO
    }
}

/// The error of a store whose locks are in this process: they are looked at without a source.
#[cfg(feature = "__remote")]
pub(crate) fn no_server() -> LockError {
    LockError::config("the locks of this store are in this process; there is no server to look at")
}

/// Where a list goes on: the last key, or what the server has said. Empty at the beginning.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Place(pub(crate) String);

/// A part of a list.
#[derive(Debug, Default)]
pub(crate) struct Page {
    pub(crate) locks: Vec<LockInfo>,
    /// None at the end.
    pub(crate) next: Option<Place>,
}
