//! What callers are told when the engine's state has been given up.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Waker;

use tokio::sync::oneshot;

use super::shutdown::ShutdownReport;
use super::slot::Slot;
use crate::store::LockStore;

/// Whom to wake, and what for.
#[derive(Default)]
pub(super) struct News {
    pub(super) wakers: Vec<Waker>,
    /// Who is to look for the answers of all from now on.
    pub(super) asker: Option<Arc<Slot>>,
    /// Locks that are not held any more, which more than one task may watch.
    pub(super) over: Vec<Arc<Slot>>,
    pub(super) alarms: Vec<oneshot::Sender<()>>,
    pub(super) reports: Vec<(oneshot::Sender<ShutdownReport>, ShutdownReport)>,
    /// A store that is not used any more.
    pub(super) left: Option<Box<dyn LockStore>>,
}

impl News {
    /// What there is to tell, which is nothing after most commands of callers that do not wait.
    pub(super) fn take(&mut self) -> Option<Self> {
        let none = self.wakers.is_empty()
            && self.asker.is_none()
            && self.over.is_empty()
            && self.alarms.is_empty()
            && self.reports.is_empty()
            && self.left.is_none();
        (!none).then(|| mem::take(self))
    }

    /// Tells everybody. A waker is other people's code: one that panics is not to keep the others from being woken, nor to end the thread
    /// of a caller that has nothing to do with it.
    pub(super) fn tell(self) {
        for waker in self.wakers {
            guarded(|| waker.wake());
        }
        if let Some(waker) = self.asker.and_then(|slot| slot.nudge()) {
            guarded(|| waker.wake());
        }
        for slot in self.over {
            guarded(|| slot.tell_over());
        }
        for caller in self.alarms {
            // The caller may be gone.
            guarded(|| {
                let _ = caller.send(());
            });
        }
        for (reply, report) in self.reports {
            // Whoever asked may have stopped waiting.
            guarded(|| {
                let _ = reply.send(report);
            });
        }
        drop(self.left);
    }
}

/// Wakes somebody, whatever the waker does.
pub(crate) fn guarded(tell: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(tell)).is_err() {
        tracing::error!("the waker of a task that uses a lock has panicked");
    }
}
