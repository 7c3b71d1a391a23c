//! What callers are told when the engine's state has been given up.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tokio::sync::oneshot;

use crate::base::reporter;
use crate::engine::core::drain::ShutdownReport;
use crate::engine::lease_cell::{LeaseCell, Parting};
use crate::store::LockStore;

/// Whom to wake, and what for.
#[derive(Default)]
pub(super) struct Notifications {
    pub(super) wakers: Vec<Parting>,
    /// Locks that are not held any more, which more than one task may watch.
    pub(super) over: Vec<Arc<LeaseCell>>,
    pub(super) alarms: Vec<oneshot::Sender<()>>,
    pub(super) reports: Vec<(oneshot::Sender<ShutdownReport>, ShutdownReport)>,
    /// Shutdowns that nobody will report: their askers are told by the drop.
    pub(super) unanswered: Vec<oneshot::Sender<ShutdownReport>>,
    /// A store that is not used any more.
    pub(super) left: Option<Box<dyn LockStore>>,
}

impl Notifications {
    /// What there is to tell, which is nothing after most commands of callers that do not wait.
    pub(super) fn take(&mut self) -> Option<Self> {
        let none = self.wakers.is_empty()
            && self.over.is_empty()
            && self.alarms.is_empty()
            && self.reports.is_empty()
            && self.unanswered.is_empty()
            && self.left.is_none();
        (!none).then(|| mem::take(self))
    }

    /// How many tasks are to be woken.
    pub(super) fn wakes(&self) -> usize {
        let wakes = |parting: &&Parting| matches!(parting, Parting::Wake(_));
        self.wakers.iter().filter(wakes).count()
    }

    /// Tells all of it. A waker is the program's code. One that panics keeps no other from being
    /// woken, and does not end the thread that tells.
    pub(super) fn tell(self) {
        for parting in self.wakers {
            guarded(|| match parting {
                Parting::Wake(waker) => waker.wake(),
                Parting::Drop(waker) => drop(waker),
            });
        }
        for cell in self.over {
            guarded(|| cell.tell_over());
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
        guarded(|| drop(self.unanswered));
        drop(self.left);
    }
}

/// Tells what there is to tell, after the machine has been given up.
pub(super) fn tell(notifications: Option<Notifications>) {
    if let Some(notifications) = notifications {
        notifications.tell();
    }
}

/// Wakes somebody, whatever the waker does.
fn guarded(tell: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(tell)).is_err() {
        reporter::log(|| tracing::error!("the waker of a task that uses a lock has panicked"));
    }
}
