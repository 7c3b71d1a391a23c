//! The annotated functions, and the ways in which they end.

use std::future::{pending, poll_fn};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use leasehold::{LockError, distributed_lock};

use super::{Case, FOREIGN, Witness};

/// Way in which an annotated function ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    LastExpression,
    EarlyReturn,
    QuestionMark,
    OwnedArgument,
    Panic,
    PanicInTask,
    Select,
    Timeout,
    Abort,
    PlainDrop,
    DroppedWhileAcquiring,
    DroppedWhileQueueing,
    Expired,
    Stolen,
    Outlived,
}

impl Way {
    pub(crate) fn panics(self) -> bool {
        self == Self::Panic
    }

    /// True if the function returns only after the release.
    pub(crate) fn awaits_its_release(self) -> bool {
        matches!(
            self,
            Self::LastExpression | Self::EarlyReturn | Self::QuestionMark | Self::OwnedArgument
        )
    }

    /// True if the key belongs to another holder when the function returns.
    pub(crate) fn leaves_another_holder(self) -> bool {
        matches!(self, Self::Stolen | Self::Outlived)
    }

    /// True if the key must exist while the body's destructors run. False if nothing requires that.
    /// `None` if the body may not have begun, and so may have no destructors to run.
    pub(crate) fn destructors_run_inside(self) -> Option<bool> {
        match self {
            Self::DroppedWhileAcquiring | Self::DroppedWhileQueueing => None,
            // In these cases the lease is over or nearly over, or another holder has the key.
            Self::Expired | Self::Stolen | Self::Outlived => Some(false),
            _ => Some(true),
        }
    }
}

/// Calls the annotated function and ends the call as `way` specifies.
pub(crate) async fn leave(way: Way, case: Arc<Case>) {
    match way {
        Way::LastExpression => assert_eq!(last_expression(case).await, Ok(7)),
        Way::EarlyReturn => assert_eq!(early_return(case, true).await, Ok(7)),
        Way::QuestionMark => assert_eq!(question_mark(case).await, Err(Failure::Own)),
        Way::OwnedArgument => {
            let witness = case.enter();
            assert_eq!(owned_argument(case, witness).await, Ok(()));
        }
        Way::Panic => drop(panics(case).await),
        Way::PanicInTask => {
            let error = tokio::spawn(panics(case)).await.expect_err("it panics");
            assert!(error.is_panic());
        }
        Way::Select => {
            let observed = Arc::clone(&case);
            tokio::select! {
                _ = stays(case) => unreachable!("it stays"),
                () = observed.entered.notified() => {}
            }
        }
        Way::Timeout => timeout(case).await,
        Way::Abort => abort(case).await,
        Way::PlainDrop => plain_drop(case).await,
        Way::DroppedWhileAcquiring => dropped_while_acquiring(case).await,
        Way::DroppedWhileQueueing => dropped_while_queueing(case).await,
        Way::Expired => {
            let ended = begun(&case, expires).await;
            assert!(matches!(ended, Err(LockError::Lost { .. })), "{ended:?}");
        }
        Way::Outlived => assert_eq!(begun(&case, outlives).await, Ok(7)),
        Way::Stolen => assert!(matches!(is_stolen(case).await, Err(LockError::Lost { .. }))),
    }
}

#[distributed_lock(key = "<case.key>", ttl = "20s", pool = case.pool)]
async fn last_expression(case: Arc<Case>) -> Result<u32, LockError> {
    let _witness = case.enter();
    tokio::task::yield_now().await;
    Ok(7)
}

#[distributed_lock(key = "<case.key>", ttl = "20s", pool = case.pool)]
async fn early_return(case: Arc<Case>, early: bool) -> Result<u32, LockError> {
    let _witness = case.enter();
    tokio::task::yield_now().await;
    if early {
        return Ok(7);
    }
    pending().await
}

#[derive(Debug, PartialEq)]
enum Failure {
    Own,
    Lock(LockError),
}

impl From<LockError> for Failure {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}

#[distributed_lock(key = "<case.key>", ttl = "20s", pool = case.pool)]
async fn question_mark(case: Arc<Case>) -> Result<u32, Failure> {
    let _witness = case.enter();
    tokio::task::yield_now().await;
    Err::<(), _>(Failure::Own)?;
    pending().await
}

/// Takes the witness as an argument. Arguments are dropped after the body's variables, but must
/// also be dropped inside the lock.
#[distributed_lock(key = "<case.key>", ttl = "20s", pool = case.pool)]
async fn owned_argument(case: Arc<Case>, witness: Witness) -> Result<(), LockError> {
    let _ = &witness;
    tokio::task::yield_now().await;
    Ok(())
}

#[distributed_lock(key = "<case.key>", ttl = "20s", pool = case.pool)]
async fn panics(case: Arc<Case>) -> Result<u32, LockError> {
    let _witness = case.enter();
    tokio::task::yield_now().await;
    // Unwinds like a panic, but prints no message.
    resume_unwind(Box::new("the body panics"))
}

#[distributed_lock(key = "<case.key>", ttl = "20s", pool = case.pool)]
async fn stays(case: Arc<Case>) -> Result<u32, LockError> {
    let _witness = case.enter();
    pending().await
}

#[distributed_lock(key = "<case.key>", ttl = "20s", wait = "20s", pool = case.pool)]
async fn queues(case: Arc<Case>) -> Result<u32, LockError> {
    let _witness = case.enter();
    pending().await
}

#[distributed_lock(key = "<case.key>", ttl = "200ms", pool = case.pool)]
async fn expires(case: Arc<Case>) -> Result<u32, LockError> {
    let _witness = case.enter();
    pending().await
}

#[distributed_lock(key = "<case.key>", ttl = "20s", watchdog = "50ms", pool = case.pool)]
async fn is_stolen(case: Arc<Case>) -> Result<u32, LockError> {
    let _witness = case.enter();
    case.probe.steal(&case.key, FOREIGN);
    pending().await
}

/// Returns only after the lease has ended and another holder has taken the key.
#[distributed_lock(key = "<case.key>", ttl = "100ms", on_lost = "continue", pool = case.pool)]
async fn outlives(case: Arc<Case>) -> Result<u32, LockError> {
    let _witness = case.enter();
    while !case.probe.take(&case.key, FOREIGN) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(7)
}

/// Repeats the call until a body has begun. On a busy machine, a short lease may end before its
/// body begins.
async fn begun(
    case: &Arc<Case>,
    call: impl AsyncFn(Arc<Case>) -> Result<u32, LockError>,
) -> Result<u32, LockError> {
    loop {
        match call(Arc::clone(case)).await {
            Err(LockError::Lost { .. } | LockError::Contended { .. }) if case.ends() == 0 => {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            ended => return ended,
        }
    }
}

/// Ends the call by a timeout, which starts only after the body has begun, even on a slow machine.
async fn timeout(case: Arc<Case>) {
    let mut call = Box::pin(stays(Arc::clone(&case)));
    tokio::select! {
        _ = &mut call => unreachable!("it stays"),
        () = case.entered.notified() => {}
    }
    let ended = tokio::time::timeout(Duration::from_millis(1), call).await;
    assert!(ended.is_err());
}

async fn abort(case: Arc<Case>) {
    let task = tokio::spawn(stays(Arc::clone(&case)));
    case.entered.notified().await;
    task.abort();
    assert!(task.await.expect_err("it was aborted").is_cancelled());
}

async fn plain_drop(case: Arc<Case>) {
    let mut call = Box::pin(stays(Arc::clone(&case)));
    tokio::select! {
        _ = &mut call => unreachable!("it stays"),
        () = case.entered.notified() => {}
    }
    drop(call);
}

/// Drops the call after its first poll. At this moment the store may have granted the lock or not.
async fn dropped_while_acquiring(case: Arc<Case>) {
    let mut call = Box::pin(stays(case));
    poll_fn(|context| {
        assert!(call.as_mut().poll(context).is_pending());
        Poll::Ready(())
    })
    .await;
    drop(call);
}

/// Drops the call while another holder has the lock. Then the other holder releases the lock.
async fn dropped_while_queueing(case: Arc<Case>) {
    assert!(case.probe.take(&case.key, FOREIGN));
    let call = queues(Arc::clone(&case));
    assert!(
        tokio::time::timeout(Duration::from_millis(5), call)
            .await
            .is_err()
    );
    assert!(case.probe.untouched(&case.key));
    case.probe.give_back(&case.key);
}
