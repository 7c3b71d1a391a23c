//! Spawned tasks that inherit the pool of a scope. For `is_held`, they also inherit the locks of
//! the code that spawns them.

use std::future::Future;

use tokio::task::JoinHandle;

use super::nesting;
use crate::pool::scope;

/// Like [`tokio::spawn`], but the task uses the pool of the [`scope`](crate::LockPool::scope) in
/// which this is called. Outside of a scope the task uses the installed pool.
///
/// ```
/// use leasehold::{LockError, LockPool, distributed_lock};
///
/// #[distributed_lock(key = "order:<id>", ttl = "10s")]
/// async fn create_order(id: u64) -> Result<u64, LockError> {
///     Ok(id)
/// }
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let pool = LockPool::connect("memory://").await?;
/// pool.scope(async {
///     let task = leasehold::spawn(create_order(42));
///     assert_eq!(task.await?, Ok(42));
///
///     // This task is outside of the scope, and no pool is installed.
///     let task = tokio::spawn(create_order(42));
///     assert_eq!(task.await?, Err(LockError::NotInstalled));
///     Ok(())
/// })
/// .await
/// # }
/// ```
///
/// The task does not have the locks of its caller, because it can outlive them. For a key that the
/// caller holds, the task is like any other call: it is refused or waits, and `reentrant` enters
/// nothing. A body that awaits such a task waits for itself, until the task's `wait` or the body's
/// lease is over. The log then has the event `own-lock` with `file:line` of the task's call. A body
/// whose lease is lost is dropped, but the task is not. In the task, [`is_held`](crate::is_held())
/// is true for the locks of its caller, as long as their leases last.
///
/// Cancel safe like [`tokio::spawn`]: the task continues when its handle is dropped. If the task is
/// aborted, its future is dropped, which releases its locks. The task keeps the pool of its scope
/// running until it ends.
///
/// # Panics
///
/// Outside of a tokio runtime, like [`tokio::spawn`]. A panic of the future is returned in the
/// handle's [`JoinError`](tokio::task::JoinError).
#[track_caller]
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    tokio::spawn(taken_along(future))
}

/// Wraps the future of a task, so that it keeps the scope of the running code, and its locks for
/// [`is_held`](crate::is_held()).
pub(crate) fn taken_along<F: Future>(future: F) -> impl Future<Output = F::Output> {
    scope::taken_along(nesting::spawned_here(future))
}
