//! The waker with which any thread polls the store.

use std::mem;
use std::sync::Arc;
use std::task::{Wake, Waker};

use crate::base::seeded::seeded;
use crate::base::sync::{Mutex, PoisonError};
use crate::base::sync::{atomic::AtomicU8, atomic::Ordering};

/// Wakes the keeper when the store may have events. While a thread polls the store, the keeper is
/// not woken: that thread polls again instead.
#[derive(Default)]
pub(super) struct StoreWaker {
    state: AtomicU8,
    /// Waker of the keeper's task; none after it was woken.
    keeper: Mutex<Option<Waker>>,
}

/// No thread polls the store, and the store has not called its waker.
const CALM: u8 = 0;
/// The keeper was woken for the store, and no thread has polled the store since.
const CALLED: u8 = 1;
/// A thread polls the store, under the engine's mutex.
const POLLED: u8 = 2;
/// A thread polls the store, and the store has called its waker since that poll began.
const POLLED_AND_WOKEN: u8 = 3;

impl StoreWaker {
    /// Registers the keeper's waker for the next wake-up.
    pub(super) fn register(&self, keeper: &Waker) {
        let mut registered = self.keeper.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *registered {
            Some(registered) => registered.clone_from(keeper),
            None => *registered = Some(keeper.clone()),
        }
    }

    /// True if the keeper was woken for the store, and no thread has polled the store since.
    pub(super) fn is_called(&self) -> bool {
        self.state.load(Ordering::SeqCst) == CALLED
    }

    /// Records that this thread begins to poll the store.
    pub(super) fn begin(&self) {
        self.state.store(POLLED, Ordering::SeqCst);
    }

    /// Records that this thread has taken all events from the store. Returns `false` if the store
    /// has called its waker since [`begin`](Self::begin): then this thread must poll again.
    pub(super) fn end(&self) -> bool {
        let calm = self
            .state
            .compare_exchange(POLLED, CALM, Ordering::SeqCst, Ordering::SeqCst);
        if calm.is_err() && seeded!(WakeUpForgotten) {
            self.state.store(CALM, Ordering::SeqCst);
            return true;
        }
        if calm.is_err() {
            self.begin();
        }
        calm.is_ok()
    }

    /// Wakes the keeper to poll the store, and ends this thread's polling.
    pub(super) fn hand_over(&self) {
        self.state.store(CALLED, Ordering::SeqCst);
        self.wake_keeper();
    }

    /// Wakes the keeper, unless it was already woken since it last registered its waker.
    pub(super) fn wake_keeper(&self) {
        let mut registered = self.keeper.lock().unwrap_or_else(PoisonError::into_inner);
        // Takes the waker, so that the keeper is woken only once. Even waking a thread that is
        // already awake costs a system call.
        let keeper = mem::take(&mut *registered);
        // Releases the mutex before the wake-up, so that no thread has to wait if the system
        // preempts this thread during the wake-up.
        drop(registered);
        if let Some(keeper) = keeper {
            keeper.wake();
        }
    }
}

impl Wake for StoreWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let woken = |state| match state {
            CALM => Some(CALLED),
            POLLED => Some(POLLED_AND_WOKEN),
            _ => None,
        };
        let before = self
            .state
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, woken);
        if before == Ok(CALM) {
            self.wake_keeper();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::selftest::fixtures::counting;

    #[test]
    fn wake_ups_go_to_the_polling_thread_or_the_keeper() {
        let store_waker = Arc::new(StoreWaker::default());
        let (keeper, woken) = counting();
        store_waker.register(&keeper);
        store_waker.begin();
        store_waker.wake_by_ref();
        assert!(!store_waker.end(), "something has stirred");
        assert!(store_waker.end());
        assert!(woken() == 0 && !store_waker.is_called());
        store_waker.wake_by_ref();
        store_waker.wake_by_ref();
        assert_eq!(woken(), 1, "once until it looks again");
        assert!(store_waker.is_called());
        store_waker.register(&keeper);
        store_waker.begin();
        store_waker.hand_over();
        assert_eq!(woken(), 2);
        assert!(store_waker.is_called());
    }
}
