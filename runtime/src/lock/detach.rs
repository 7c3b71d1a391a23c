//! Bodies that run to their end, whether or not their caller is still there.

use std::future::Future;
use std::panic::resume_unwind;
use std::pin::pin;

use tokio::runtime::Handle;
use tracing::{Instrument as _, Span};

use super::gate::{Keep, OnLost, run_inside};
use super::held::HeldLocks;
use crate::error::LockError;
use crate::pool::installed;

/// Takes the locks, and then runs the body inside them in a task of its own.
///
/// Cancel safety: dropped while it takes, this leaves nothing, and the body does not run. There is no await between
/// the grant and the spawn; from then on the task owns the locks and the body, and dropping this only drops the result.
///
/// A call that is nested in the holder of a lock is a part of that body: a task of its own could outlive the lock that it
/// runs inside of.
pub(crate) async fn run_detached<F>(
    taking: impl Future<Output = Result<HeldLocks, LockError>>,
    body: F,
    on_lost: OnLost,
    keep: Option<Keep<F::Output>>,
) -> Result<F::Output, LockError>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let runtime = Handle::try_current().map_err(|_| {
        LockError::config(
            "a detached body is a task of the caller's tokio runtime, and there is none here; \
             call it on tokio, or leave `detach` out",
        )
    })?;
    let taken = taking.await?;
    if taken.is_nested() {
        return run_inside(taken, pin!(Some(body)), on_lost, keep).await;
    }
    let locks = taken.locks().clone();
    let inside = async move { run_inside(taken, pin!(Some(body)), on_lost, keep).await };
    let task = in_scope(inside).instrument(Span::current());
    match runtime.spawn(task).await {
        Ok(result) => result,
        Err(ended) => match ended.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            // Nobody else can abort it: the runtime has shut down, and the body did not come to its end.
            Err(_) => Err(locks.lost_error()),
        },
    }
}

/// The future with the pool that this task has in its scope.
fn in_scope<F: Future>(future: F) -> impl Future<Output = F::Output> {
    let pool = installed::scoped();
    async move {
        match pool {
            Some(pool) => pool.scope(future).await,
            None => future.await,
        }
    }
}
