//! The keeper: the engine's task for timers, and for events that no listener reads.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::handle::Engine;
use super::notifications::notify;
use super::shared::Shared;
use super::state::EngineState;
use super::store_waker::StoreWaker;
use super::timer::Timer;
use crate::base::clock::Clock;
use crate::engine::core::signal::Limits;
use crate::store::LockStore;

/// The engine's own task. The engine stops when this value is dropped.
pub(super) struct Keeper {
    shared: Arc<Shared>,
    timer: Timer,
    /// True if the keeper has a dedicated thread. Only then does the engine compare the priorities
    /// of other threads with the keeper's.
    own_thread: bool,
}

impl Keeper {
    /// Creates the keeper, and the pool's handle to the engine. Must be called in the runtime in
    /// which the store was connected. `listeners` is true if callers' runtimes may run listeners.
    /// `own_thread` is true if the keeper has a dedicated thread. `name` is the store's URL without
    /// its password.
    pub(super) fn new(
        store: Box<dyn LockStore>,
        name: String,
        limits: Limits,
        clock: Clock,
        listeners: bool,
        own_thread: bool,
    ) -> (Self, Engine) {
        let store_waker = Arc::new(StoreWaker::default());
        let verifies = store.verifies();
        let state = EngineState::new(
            store,
            name,
            limits,
            clock,
            listeners,
            Arc::clone(&store_waker),
        );
        let shared = Arc::new(Shared::new(state, store_waker));
        if own_thread {
            shared.keeper_is_here();
        }
        let keeper = Self {
            shared: Arc::clone(&shared),
            timer: Timer::new(clock),
            own_thread,
        };
        (keeper, Engine::new(shared, clock, verifies))
    }

    /// Runs until the pool is dropped and all locks are released.
    pub(super) async fn run(mut self) {
        // Makes the first poll read the store, which may have events from before the engine
        // existed.
        self.shared.store_waker.hand_over();
        poll_fn(|cx| self.poll(cx)).await;
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Self {
            shared,
            timer,
            own_thread,
        } = self;
        loop {
            // Registers before the check of `is_called`, so that a wake-up after the check is not
            // lost.
            shared.store_waker.register(cx.waker());
            let called = shared.store_waker.is_called();
            if *own_thread {
                shared.keeper_is_here();
            }
            let mut state = shared.lock();
            shared.do_what_is_due(&mut state, called);
            let over = state.is_over();
            let waits = timer.set(state.sleep(), cx).is_pending();
            state.keeper_sleeps(timer.at());
            let notifications = state.take_notifications();
            drop(state);
            notify(notifications);
            if over {
                return Poll::Ready(());
            }
            if waits {
                return Poll::Pending;
            }
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.shared.stop();
    }
}
