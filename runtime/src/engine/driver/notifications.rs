//! Notifications for callers, delivered after the engine's mutex is released.

use std::mem;
use std::sync::Arc;

use tokio::sync::oneshot;

use crate::base::one_or_many::OneOrMany;
use crate::engine::core::drain::ShutdownReport;
use crate::engine::lease_cell::{LeaseCell, Parting};
use crate::engine::wakers::guarded;
use crate::error::LockError;
use crate::store::LockStore;

/// Sender to the caller that waits for the removal of a kept result.
pub(super) type Forgetting = oneshot::Sender<Result<bool, LockError>>;

/// Wakers to call or drop, and answers to send to callers.
#[derive(Default)]
pub(super) struct Notifications {
    pub(super) wakers: OneOrMany<Parting>,
    /// Lease cells of ended leases. Several tasks may wait for the end of one lease.
    pub(super) over: Vec<Arc<LeaseCell>>,
    pub(super) alarms: Vec<oneshot::Sender<()>>,
    pub(super) reports: Vec<(oneshot::Sender<ShutdownReport>, ShutdownReport)>,
    /// Shutdowns that get no report, because the engine stopped. Dropping the sender notifies the
    /// caller.
    pub(super) unanswered: Vec<oneshot::Sender<ShutdownReport>>,
    /// Callers that waited for the removal of a kept result, each with the outcome.
    pub(super) forgotten: Vec<(Forgetting, Result<bool, LockError>)>,
    /// Callers that waited for the removal of a kept result when the engine stopped. Dropping the
    /// sender notifies the caller.
    pub(super) forgetting: Vec<Forgetting>,
    /// Store of a stopped engine. Dropped without the mutex, because the drop closes its
    /// connections.
    pub(super) left: Option<Box<dyn LockStore>>,
}

impl Notifications {
    /// Takes all notifications. Returns `None` if there are none.
    pub(super) fn take(&mut self) -> Option<Self> {
        let none = self.wakers.is_empty()
            && self.over.is_empty()
            && self.alarms.is_empty()
            && self.reports.is_empty()
            && self.unanswered.is_empty()
            && self.forgotten.is_empty()
            && self.forgetting.is_empty()
            && self.left.is_none();
        (!none).then(|| mem::take(self))
    }

    /// Returns the number of tasks to wake.
    pub(super) fn wakes(&self) -> usize {
        let wakes = |parting: &&Parting| matches!(parting, Parting::Wake(_));
        self.wakers.iter().filter(wakes).count()
    }

    /// Delivers all notifications. A waker runs the program's code, which may panic. Even then, the
    /// other tasks are woken and this thread continues.
    pub(super) fn notify(self) {
        for parting in self.wakers {
            guarded(|| match parting {
                Parting::Wake(waker) => waker.wake(),
                Parting::Drop(waker) => drop(waker),
            });
        }
        for cell in self.over {
            cell.notify_over();
        }
        for caller in self.alarms {
            // The caller may be gone.
            guarded(|| {
                let _ = caller.send(());
            });
        }
        for (reply, report) in self.reports {
            // The caller may have stopped waiting.
            guarded(|| {
                let _ = reply.send(report);
            });
        }
        for (caller, forgotten) in self.forgotten {
            // The caller may have stopped waiting.
            guarded(|| {
                let _ = caller.send(forgotten);
            });
        }
        guarded(|| drop((self.unanswered, self.forgetting)));
        drop(self.left);
    }
}

/// Delivers notifications, if there are any. Must not be called under the engine's mutex.
pub(super) fn notify(notifications: Option<Notifications>) {
    if let Some(notifications) = notifications {
        notifications.notify();
    }
}
