//! One call of an annotated function.

use std::pin::Pin;
use std::time::Duration;

use crate::key::Key;
use crate::{LockError, LockHandle, LockPool};

/// Where an annotated function stands.
#[derive(Debug)]
pub struct Site {
    /// Its path, `shop::orders::create_order`.
    pub function: &'static str,
    /// `file!()`.
    pub file: &'static str,
    /// `line!()`.
    pub line: u32,
}

/// One call of an annotated function: what to lock, and how.
#[derive(Debug)]
pub struct Call {}

impl Call {
    /// A call that locks `key` for `ttl`; nothing is sent yet.
    pub fn new(site: &'static Site, key: Key, ttl: Duration) -> Self {
        let _ = (site, key, ttl);
        unimplemented!()
    }
    /// `watchdog`
    pub fn watchdog(self) -> Self {
        self
    }
    /// `watchdog = "3s"`
    pub fn watchdog_every(self, _interval: Duration) -> Self {
        self
    }
    /// `max_hold = "60s"`
    pub fn max_hold(self, _limit: Duration) -> Self {
        self
    }
    /// `wait = "2s"`
    pub fn wait(self, _wait: Duration) -> Self {
        self
    }
    /// `on_lost = "continue"`
    pub fn continue_on_lost(self) -> Self {
        self
    }
    /// `pool = "inventory"`
    pub fn pool_named(self, _name: &'static str) -> Self {
        self
    }
    /// `pool = self.locks`; an `Arc<LockPool>` coerces.
    pub fn pool(self, _pool: &LockPool) -> Self {
        self
    }
    /// `guard = lock`: the handle fills in at the grant.
    pub fn handle(&self) -> LockHandle {
        unimplemented!()
    }
    /// Takes the lock, runs the body inside it, and releases it.
    pub async fn run<F: Future>(self, body: Pin<&mut Option<F>>) -> Result<F::Output, LockError> {
        let _ = body;
        unimplemented!()
    }
}
