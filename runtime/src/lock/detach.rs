//! Bodies that run to their end even if their caller goes away.

use std::future::Future;
use std::panic::resume_unwind;
use std::pin::pin;

use tokio::runtime::Handle;
use tracing::{Instrument as _, Span};

use super::gate::{Keep, OnLost, run_inside};
use super::held::HeldLocks;
use crate::error::LockError;
use crate::pool::scope::in_current_scope;

/// Takes the locks, and then runs the body inside them in a task of its own.
///
/// Cancel safety: a future that is dropped while it takes the locks leaves none, and the body does
/// not run. There is no await between the grant and the spawn. From the spawn on the task owns the
/// locks and the body, and dropping this future drops only the result.
///
/// A call that is nested in the holder of a lock is a part of that body. A task of its own could
/// outlive the lock that it runs inside of.
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
    let held = taking.await?;
    if held.is_nested() {
        return run_inside(held, pin!(Some(body)), on_lost, keep).await;
    }
    let locks = held.locks().clone();
    let inside = async move { run_inside(held, pin!(Some(body)), on_lost, keep).await };
    let task = in_current_scope(inside).instrument(Span::current());
    match runtime.spawn(task).await {
        Ok(result) => result,
        Err(ended) => match ended.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            // Only the shutdown of the runtime aborts the task. The body did not come to its end.
            Err(_) => Err(locks.lost_error()),
        },
    }
}
