//! A pool in memory for each case.

use std::future::Future;

use leasehold::LockPool;

/// Runs a case with a lock pool of its own.
pub(crate) async fn locked<F: Future>(case: F) -> F::Output {
    pool().await.scope(case).await
}

/// A pool in memory.
pub(crate) async fn pool() -> LockPool {
    LockPool::builder()
        .url("memory://")
        .connect()
        .await
        .expect("a pool in memory always connects")
}

/// Awaits nothing: for bodies that should be async.
pub(crate) async fn tick() {
    tokio::task::yield_now().await;
}
