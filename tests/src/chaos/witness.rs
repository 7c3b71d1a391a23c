//! Notes about locks that the harness's own process holds. Usually, worker processes hold the
//! locks, and write the notes about them.

use std::sync::atomic::{AtomicU64, Ordering};

use leasehold::__test::{deadline, now};
use leasehold::{Fence, LockGuard, LockHandle};

use super::crew::Crew;
use crate::oracle::{Mode, Note};

/// A writer of notes to the history of a crew (a run with its worker processes).
pub(super) struct Witness<'a> {
    crew: &'a Crew,
    holders: AtomicU64,
}

impl<'a> Witness<'a> {
    pub(super) fn new(crew: &'a Crew) -> Self {
        Self {
            crew,
            holders: AtomicU64::new(1),
        }
    }

    /// Notes that a lock is held exclusively until the returned value is dropped. The lease may end
    /// earlier.
    pub(super) fn enter(&self, key: &str, guard: &LockGuard) -> Inside<'_> {
        let handle = guard.handle();
        let (deadline, at) = (deadline(&handle), now());
        let holder = self.holders.fetch_add(1, Ordering::Relaxed);
        self.crew.note(&Note::Enter {
            key: key.to_owned(),
            holder,
            fence: handle.fence().map(Fence::get),
            asked: at,
            at,
            sent: at.min(deadline),
            deadline,
            mode: Mode::Alone,
            within: None,
        });
        Inside {
            crew: self.crew,
            key: key.to_owned(),
            holder,
            handle,
            deadline,
        }
    }
}

/// A held lock. Dropping this value notes the end of the hold.
pub(super) struct Inside<'a> {
    crew: &'a Crew,
    key: String,
    holder: u64,
    handle: LockHandle,
    deadline: u64,
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.crew.note(&Note::Leave {
            key: self.key.clone(),
            holder: self.holder,
            at: now(),
            deadline: self.deadline.max(deadline(&self.handle)),
            keeps: None,
        });
    }
}
