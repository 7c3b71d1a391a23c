//! Requests.
use crate::{LockError, LockGuard};
use std::time::Duration;
/// A lock to take.
#[derive(Debug)]
#[must_use]
pub struct LockRequest {}
impl LockRequest {
    /// Required.
    pub fn ttl(self, _d: Duration) -> Self {
        self
    }
    /// Renew at ttl/3.
    pub fn watchdog(self) -> Self {
        self
    }
    /// Renew at `interval`.
    pub fn watchdog_every(self, _d: Duration) -> Self {
        self
    }
    /// Give up after.
    pub fn max_hold(self, _d: Duration) -> Self {
        self
    }
    /// Queue for so long.
    pub fn wait(self, _d: Duration) -> Self {
        self
    }
    /// Takes the lock.
    pub async fn acquire(self) -> Result<LockGuard, LockError> {
        unimplemented!()
    }
    /// Runs `body` inside the lock.
    pub async fn run<F: Future>(self, _body: F) -> Result<F::Output, LockError> {
        unimplemented!()
    }
}
