//! Tasks that take along the pool of a scope, and the locks of the code that spawns them.

use std::future::Future;

use tokio::task::JoinHandle;

use super::nesting;
use crate::pool::scope;

/// As [`tokio::spawn`]. The task has the pool of the [`scope`](crate::LockPool::scope) that this is
/// called in. Outside of a scope it uses the installed pool, as every task does.
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
/// The task has no locks of its caller, because it can outlive them. For a key that the caller
/// holds, the task is any other call: it is refused or waits, and `reentrant` enters nothing. A
/// body that waits for such a task waits for itself, until the task's `wait` or the body's lease is
/// over. The log then has the event `own-lock` with the place of the task's call. The task is also
/// not dropped with a body whose lease is lost. [`is_held`](crate::is_held()) is true in the task
/// for the locks of its caller, as long as their leases last.
///
/// Cancel safe as [`tokio::spawn`] is: the task runs on when its handle is dropped. If the task is
/// aborted, its future is dropped, which releases its locks. Until its end the task keeps the pool
/// of its scope running.
///
/// # Panics
///
/// Outside of a tokio runtime, as [`tokio::spawn`] does. A panic of the future is in the handle's
/// [`JoinError`](tokio::task::JoinError).
#[track_caller]
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    tokio::spawn(taken_along(future))
}

/// The future of a task, in the scope of the running code and with its locks for
/// [`is_held`](crate::is_held()).
pub(super) fn taken_along<F: Future>(future: F) -> impl Future<Output = F::Output> {
    scope::taken_along(nesting::spawned_here(future))
}
