//! Contestants with a fault, so that the checks are checked.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{Fault, Locks};

/// Takes no lock.
pub(crate) struct SeededOverlap;

impl Locks for SeededOverlap {
    async fn inside<B>(&self, _: &str, body: B) -> Result<B::Output, Fault>
    where
        B: Future + Send,
        B::Output: Send,
    {
        tokio::task::yield_now().await;
        Ok(body.await)
    }
}

/// Serves one at a time, but never calls the hundredth waiter.
#[derive(Default)]
pub(crate) struct SeededLoss {
    calls: AtomicU64,
    lock: tokio::sync::Mutex<()>,
}

impl Locks for SeededLoss {
    async fn inside<B>(&self, _: &str, body: B) -> Result<B::Output, Fault>
    where
        B: Future + Send,
        B::Output: Send,
    {
        if self.calls.fetch_add(1, Ordering::Relaxed) == 99 {
            std::future::pending::<()>().await;
        }
        let _held = self.lock.lock().await;
        Ok(body.await)
    }
}
