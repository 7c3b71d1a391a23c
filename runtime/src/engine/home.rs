//! The waker that a store is polled with, whichever thread polls it.

use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

use crate::clock::Instant;

/// Wakes the engine's own task.
///
/// While another thread works the engine it can be muted: what would wake the task is that thread's own doing, or it will see
/// it too.
#[derive(Default)]
pub(super) struct Home {
    hearing: AtomicU8,
    /// The task, until it has been woken.
    task: Mutex<Option<Waker>>,
    /// When the task will look by itself, in nanoseconds.
    wakes_at: AtomicU64,
    /// Whether the task may have left what stirred it to a caller: to one that looks, or to one that has the machine.
    left: AtomicBool,
}

const OPEN: u8 = 0;
const MUTED: u8 = 1;
/// Muted, and there was something to hear.
const MISSED: u8 = 2;

impl Home {
    /// The engine's task is about to work, and to sleep then unless it is woken from now on.
    pub(super) fn register(&self, waker: &Waker) {
        let mut task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *task {
            Some(task) => task.clone_from(waker),
            None => *task = Some(waker.clone()),
        }
    }

    /// The task will look by itself at `wakes_at`.
    pub(super) fn sleeps(&self, wakes_at: Instant) {
        self.wakes_at.store(wakes_at.as_nanos(), Ordering::Relaxed);
    }

    /// When the task will look by itself.
    pub(super) fn wakes_at(&self) -> Instant {
        Instant::from_nanos(self.wakes_at.load(Ordering::Relaxed))
    }

    /// The task leaves what has stirred it to a caller.
    pub(super) fn leave(&self) {
        self.left.store(true, Ordering::SeqCst);
    }

    /// Whether it has, since somebody last [took](Self::take) it.
    pub(super) fn take(&self) -> bool {
        // Mostly it has not, and to write would cost more than all the rest.
        self.left.load(Ordering::SeqCst) && self.left.swap(false, Ordering::SeqCst)
    }

    /// Keeps what happens from the task from now on.
    pub(super) fn mute(&self) {
        self.hearing.store(MUTED, Ordering::Release);
    }

    /// Lets the task hear again, unless there was something to hear; then whoever muted it looks again.
    pub(super) fn unmute(&self) -> bool {
        let open = self
            .hearing
            .compare_exchange(MUTED, OPEN, Ordering::AcqRel, Ordering::Acquire);
        if open.is_err() {
            self.mute();
        }
        open.is_ok()
    }

    /// Lets the task hear again. What there was is for whoever muted it.
    pub(super) fn listen(&self) {
        self.hearing.store(OPEN, Ordering::Release);
    }

    /// Lets the task hear again, and wakes it for what there was.
    pub(super) fn hand_back(&self) {
        self.listen();
        self.call();
    }

    /// Wakes the task.
    pub(super) fn call(&self) {
        let mut task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        // Once: to wake a thread that is awake costs a system call, too.
        if let Some(task) = mem::take(&mut *task) {
            task.wake();
        }
    }
}

impl Wake for Home {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let missed =
            self.hearing
                .compare_exchange(MUTED, MISSED, Ordering::AcqRel, Ordering::Acquire);
        if missed == Err(OPEN) {
            self.call();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::counting;
    use super::*;

    #[test]
    fn what_happens_while_it_is_muted_is_seen_by_who_muted_it_and_nothing_is_lost() {
        let home = Arc::new(Home::default());
        let (task, woken) = counting();
        home.register(&task);
        home.mute();
        home.wake_by_ref();
        assert_eq!(woken(), 0);
        assert!(!home.unmute(), "there was something to hear");
        assert!(home.unmute());
        home.wake_by_ref();
        home.wake_by_ref();
        assert_eq!(woken(), 1, "once until it looks again");
        home.register(&task);
        home.mute();
        home.hand_back();
        assert_eq!(woken(), 2);
    }
}
