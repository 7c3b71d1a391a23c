//! The keeper: the engine's own task, which does what is due.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::handle::Engine;
use super::shared::Shared;
use super::state::Machine;
use super::store_waker::Stir;
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
        let stir = Arc::new(Stir::default());
        let machine = Machine::new(store, limits, clock, listeners, Arc::clone(&stir));
        let shared = Arc::new(Shared::new(machine, stir));
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
        self.shared.stir.hand_over();
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
            shared.stir.register(cx.waker());
            let called = shared.stir.is_called();
            if *own_thread {
                shared.kept_here();
            }
            let mut machine = shared.machine();
            shared.turn(&mut machine, called);
            let over = machine.is_over();
            let waits = timer.set(machine.sleep(), cx).is_pending();
            machine.keeper_sleeps(timer.at());
            let news = machine.take_news();
            drop(machine);
            shared.keeper_tells(news);
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
