//! The keeper: the engine's own task, which does what is due.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::handle::Engine;
use super::shared::Shared;
use super::state::EngineState;
use super::store_waker::StoreWaker;
use super::timer::Timer;
use crate::base::clock::Clock;
use crate::engine::core::signal::Limits;
use crate::store::LockStore;

/// The engine's own task.
pub(super) struct Keeper {
    shared: Arc<Shared>,
    timer: Timer,
    /// Whether it has a thread of its own, which may outrank those of callers.
    own_thread: bool,
}

impl Keeper {
    /// To be called in the runtime that the store was connected in. `listeners`: whether runtimes
    /// of callers may hear of answers. `own_thread`: whether the keeper has a thread of its own.
    pub(super) fn new(
        store: Box<dyn LockStore>,
        limits: Limits,
        clock: Clock,
        listeners: bool,
        own_thread: bool,
    ) -> (Self, Engine) {
        let store_waker = Arc::new(StoreWaker::default());
        let state = EngineState::new(store, limits, clock, listeners, Arc::clone(&store_waker));
        let shared = Arc::new(Shared::new(state, store_waker));
        if own_thread {
            shared.kept_here();
        }
        let keeper = Self {
            shared: Arc::clone(&shared),
            timer: Timer::new(clock),
            own_thread,
        };
        (keeper, Engine::new(shared, clock))
    }

    /// Runs until all callers are gone and everything is released.
    pub(super) async fn run(mut self) {
        // The store may have events from before the engine was there.
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
            // Registered first: what stirs after the look at `is_called` wakes it.
            shared.store_waker.register(cx.waker());
            let called = shared.store_waker.is_called();
            if *own_thread {
                shared.kept_here();
            }
            let mut state = shared.state();
            shared.turn(&mut state, called);
            let over = state.is_over();
            let waits = timer.set(state.sleep(), cx).is_pending();
            state.keeper_sleeps(timer.at());
            let notifications = state.take_notifications();
            drop(state);
            shared.keeper_tells(notifications);
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
