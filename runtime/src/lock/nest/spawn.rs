//! Spawned tasks that inherit the pool of the scope in which they are spawned. In such a task,
//! `is_held` is also true for the locks of the spawning code.

use std::future::Future;

use tokio::task::JoinHandle;

use super::nesting;
use crate::pool::scope;

/// Like [`tokio::spawn`], but the task uses the pool of the [`scope`](crate::LockPool::scope) in
/// which `spawn` is called. Outside of a scope, the task uses the installed pool.
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
/// The task does not have the locks of the body that spawns it, because the task can outlive them.
/// If it requests a key that the body holds, it is refused or waits like any other call, even with
/// `reentrant`. A body that awaits such a waiting task waits for itself, until the task's `wait` or
/// the body's lease is over. If the lease is lost first, the log has the event `own-lock` with
/// `file:line` of the task's call. A lost lease drops the body, but not the task. In the task,
/// [`is_held`](crate::is_held()) is true for the locks of the body, as long as their leases last.
///
/// Cancel safe like [`tokio::spawn`]: the task continues when its handle is dropped. If the task is
/// aborted, its future is dropped, which releases its locks. The pool of the scope runs at least
/// until the task ends.
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

/// Wraps the future of a task, so that the task inherits the scope of the running code. For
/// [`is_held`](crate::is_held()), the task also inherits the locks around this code.
pub(crate) fn taken_along<F: Future>(future: F) -> impl Future<Output = F::Output> {
    scope::taken_along(nesting::spawned_here(future))
}
