//! Held locks.
use crate::{Fence, LockError};
use std::time::Duration;

/// A held lock. Dropping it releases it in the background.
#[derive(Debug)]
#[must_use = "the lock is released when the guard is dropped"]
pub struct LockGuard {}

/// What the body of an annotated function sees of its lock (`guard = name`). Cheap to clone.
#[derive(Debug, Clone)]
pub struct LockHandle {}

macro_rules! view {
    ($t:ty) => {
        impl $t {
            /// The fence; `None` where the store promises none (Redlock).
            pub fn fence(&self) -> Option<Fence> {
                unimplemented!()
            }
            /// How long the lease lasts if it is not renewed; zero once it is lost.
            pub fn remaining(&self) -> Duration {
                unimplemented!()
            }
            /// `Err(Lost)` once the lease is lost.
            pub fn check(&self) -> Result<(), LockError> {
                unimplemented!()
            }
            /// Ends when the lease is lost.
            pub async fn lost(&self) {
                unimplemented!()
            }
            /// The key without its namespace.
            pub fn key(&self) -> &str {
                unimplemented!()
            }
        }
    };
}
view!(LockGuard);
view!(LockHandle);
impl LockGuard {
    /// Releases the lock and waits for the store's answer, at most ttl/10.
    pub async fn release(self) -> Result<(), LockError> {
        unimplemented!()
    }
}
