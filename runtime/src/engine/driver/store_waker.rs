//! The waker that a store is polled with, whichever thread polls it.

use std::mem;
use std::sync::Arc;
use std::task::{Wake, Waker};

use crate::base::seeded::seeded;
use crate::base::sync::{Mutex, PoisonError};
use crate::base::sync::{atomic::AtomicU8, atomic::Ordering};

/// Wakes the keeper when something stirs in the store, unless a thread is polling the store: that
/// thread looks again.
#[derive(Default)]
pub(super) struct StoreWaker {
    state: AtomicU8,
    /// The keeper's task, until it has been woken. Threads of low priority use this only until there is a
    /// relay: while one stood still in here, all others would wait for it.
    keeper: Mutex<Option<Waker>>,
}

const CALM: u8 = 0;
/// Something has stirred, and the keeper was woken for it.
const CALLED: u8 = 1;
/// A thread polls the store, under the engine's mutex.
const POLLED: u8 = 2;
/// The same, and something has stirred since it began.
const STIRRED: u8 = 3;

impl StoreWaker {
    /// The keeper is about to work, and is woken for what happens from now on.
    pub(super) fn register(&self, keeper: &Waker) {
        let mut place = self.keeper.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *place {
            Some(place) => place.clone_from(keeper),
            None => *place = Some(keeper.clone()),
        }
    }

    /// Whether something has stirred that the keeper was woken for and nobody has looked at.
    pub(super) fn is_called(&self) -> bool {
        self.state.load(Ordering::SeqCst) == CALLED
    }

    /// This thread polls the store from now on.
    pub(super) fn begin(&self) {
        self.state.store(POLLED, Ordering::SeqCst);
    }

    /// This thread has polled the store to its end. False if something has stirred since it began:
    /// it polls again.
    pub(super) fn end(&self) -> bool {
        let calm = self
            .state
            .compare_exchange(POLLED, CALM, Ordering::SeqCst, Ordering::SeqCst);
        if calm.is_err() && seeded!(StirForgotten) {
            self.state.store(CALM, Ordering::SeqCst);
            return true;
        }
        if calm.is_err() {
            self.begin();
        }
        calm.is_ok()
    }

    /// Leaves the store to the keeper, and wakes it.
    pub(super) fn hand_over(&self) {
        self.state.store(CALLED, Ordering::SeqCst);
        self.wake_keeper();
    }

    /// Wakes the keeper to look at the time.
    pub(super) fn wake_keeper(&self) {
        let mut place = self.keeper.lock().unwrap_or_else(PoisonError::into_inner);
        // Once: to wake a thread that is awake costs a system call, too.
        if let Some(keeper) = mem::take(&mut *place) {
            keeper.wake();
        }
    }
}

impl Wake for StoreWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let stirred = |state| match state {
            CALM => Some(CALLED),
            POLLED => Some(STIRRED),
            _ => None,
        };
        let before = self
            .state
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, stirred);
        if before == Ok(CALM) {
            self.wake_keeper();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fixtures::counting;

    #[test]
    fn what_stirs_while_a_thread_polls_is_for_that_thread_and_else_for_the_keeper() {
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
