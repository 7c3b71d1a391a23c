//! Bodies that run to their end even if the caller's future is dropped.

use std::future::{Future, poll_fn};
use std::panic::resume_unwind;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::Handle;
use tracing::{Instrument as _, Span};

use super::body::Body;
use super::section::HiddenSection;
use crate::error::LockError;
use crate::lock::nest::spawn::taken_along;

/// A call that holds its locks, and its body.
struct Inside {
    // The body must be dropped before `section`, whose drop releases the locks. Fields are dropped
    // in this order.
    body: Box<dyn Body + Send>,
    section: HiddenSection,
}

impl Future for Inside {
    type Output = Result<(), LockError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { body, section } = &mut *self;
        section.section_mut().poll(cx, &mut **body)
    }
}

/// Takes the locks, and then runs the body inside them in a separate task.
///
/// Cancel safety: if the future is dropped while it takes the locks, no lock stays taken, and the
/// body does not run. There is no await between the grant and the spawn. After the spawn, the task
/// owns the locks and the body, and dropping this future drops only the result.
///
/// A call that has entered an enclosing call's lock runs its body here, as a part of the enclosing
/// body, because a separate task could outlive that lock. A call answered by a kept result needs no
/// task.
pub(super) fn run(
    section: HiddenSection,
    body: Box<dyn Body + Send>,
) -> Pin<Box<dyn Future<Output = Result<(), LockError>> + Send>> {
    Box::pin(taken_and_run(section, body))
}

async fn taken_and_run(
    mut section: HiddenSection,
    body: Box<dyn Body + Send>,
) -> Result<(), LockError> {
    let runtime = Handle::try_current().map_err(|_| {
        LockError::config(
            "a detached body runs as a task on the caller's tokio runtime, but there is none here; \
             call it on tokio, or leave `detach` out",
        )
    })?;
    poll_fn(|cx| section.section_mut().poll_taken(cx)).await?;
    if section.section().is_nested_or_recalled() {
        return Inside { body, section }.await;
    }
    let locks = section.section().locks().clone();
    let task = taken_along(Inside { body, section }).instrument(Span::current());
    match runtime.spawn(task).await {
        Ok(result) => result,
        Err(ended) => match ended.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            // A shutdown of the runtime aborted the task before the body returned.
            Err(_) => Err(locks.lost_error()),
        },
    }
}
