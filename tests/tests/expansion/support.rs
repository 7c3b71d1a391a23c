//! A separate pool in memory for each case.

use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};

use leasehold::LockPool;

/// Runs a case with a separate lock pool.
pub(crate) async fn locked<F: Future>(case: F) -> F::Output {
    pool().await.scope(case).await
}

/// Connects a pool in memory that shares its locks with no other pool.
pub(crate) async fn pool() -> LockPool {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    LockPool::builder()
        .url(format!("memory://case-{number}"))
        .connect()
        .await
        .expect("a pool in memory always connects")
}

/// Yields once, for bodies that must have an await.
pub(crate) async fn tick() {
    tokio::task::yield_now().await;
}
