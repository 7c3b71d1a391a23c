//! Contestants with a fault that the harness must detect, and `Nothing`, which only runs the body.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use super::{Fault, Locks};
use crate::clock;

/// [`SeededStall`] blocks its thread for the time `STALL` in one of `STALL_EACH` calls.
const STALL_EACH: u64 = 20;
const STALL: Duration = Duration::from_millis(80);
/// Time for which [`SeededSpin`] computes in each call. In the row `open_200`, with 200 calls a
/// second, the calls need 1.6 s of CPU time per second, more than one thread can provide.
const SPIN: Duration = Duration::from_millis(8);

/// A contestant without a lock, for the cost of the harness itself.
pub(crate) struct Nothing;

impl Locks for Nothing {
    async fn inside<B>(&self, _: &str, body: B) -> Result<B::Output, Fault>
    where
        B: Future + Send,
        B::Output: Send,
    {
        Ok(body.await)
    }
}

/// A contestant without a lock, which blocks its thread in one of [`STALL_EACH`] calls.
#[derive(Default)]
pub(crate) struct SeededStall {
    calls: AtomicU64,
}

impl Locks for SeededStall {
    async fn inside<B>(&self, _: &str, body: B) -> Result<B::Output, Fault>
    where
        B: Future + Send,
        B::Output: Send,
    {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        if call.is_multiple_of(STALL_EACH) {
            thread::sleep(STALL);
        }
        Ok(body.await)
    }
}

/// A contestant without a lock, which computes in each call.
pub(crate) struct SeededSpin;

impl Locks for SeededSpin {
    async fn inside<B>(&self, _: &str, body: B) -> Result<B::Output, Fault>
    where
        B: Future + Send,
        B::Output: Send,
    {
        let end = clock::of_thread() + clock::nanos(SPIN);
        while clock::of_thread() < end {}
        Ok(body.await)
    }
}

/// A contestant without a lock, whose critical sections overlap.
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

/// A lock inside one process. The hundredth caller never gets it.
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
