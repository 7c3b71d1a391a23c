//! Pools.
use crate::{LockError, LockRequest};
use std::time::Duration;

/// A connection to a lock store, and everything that keeps its locks. Cheap to clone.
#[derive(Debug, Clone)]
pub struct LockPool {}
/// Builds a [`LockPool`].
#[derive(Debug, Clone)]
#[must_use]
pub struct LockPoolBuilder {}
/// What [`LockPool::shutdown`] found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// Locks that were released during the shutdown.
    pub released: usize,
    /// Locks still held when the time was up; they expire after their ttl.
    pub still_held: usize,
    /// Releases that the store did not confirm in time; these locks expire after their ttl.
    pub unconfirmed: usize,
}
impl LockPool {
    /// A builder.
    pub fn builder() -> LockPoolBuilder {
        unimplemented!()
    }
    /// Connects with the defaults.
    pub async fn connect(_url: &str) -> Result<Self, LockError> {
        unimplemented!()
    }
    /// Makes this the pool of annotated functions.
    pub fn install(&self) -> Result<(), LockError> {
        unimplemented!()
    }
    /// Makes this the pool of functions with `pool = "name"`.
    pub fn install_as(&self, _name: &str) -> Result<(), LockError> {
        unimplemented!()
    }
    /// Runs `future` with this pool in the place of the installed one.
    pub async fn scope<F: Future>(&self, _future: F) -> F::Output {
        unimplemented!()
    }
    /// A request for `key`.
    pub fn lock(&self, _key: impl Into<String>) -> LockRequest {
        unimplemented!()
    }
    /// Stops acquiring, waits for holders, drains releases.
    pub async fn shutdown(&self, _limit: Duration) -> ShutdownReport {
        unimplemented!()
    }
}
impl LockPoolBuilder {
    /// Where the locks live.
    pub fn url(self, _url: impl Into<String>) -> Self {
        self
    }
    /// The prefix of every key, default `lock`.
    pub fn namespace(self, _n: impl Into<String>) -> Self {
        self
    }
    /// The default `wait`.
    pub fn wait(self, _w: Duration) -> Self {
        self
    }
    /// How long one request may take, default 1 s.
    pub fn io_timeout(self, _w: Duration) -> Self {
        self
    }
    /// How many calls of this process may queue for one key, default 1000.
    pub fn max_waiters(self, _w: usize) -> Self {
        self
    }
    /// Connects.
    pub async fn connect(self) -> Result<LockPool, LockError> {
        unimplemented!()
    }
}
