//! The engine's state between the threads that work it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::command::Command;
use super::deferred::{Deferred, Locked};
use super::lanes::{Begun, ListenerId};
use super::notifications::{Notifications, tell};
use super::priority::KeptPriority;
use super::relay::Relay;
use super::state::{EngineState, Heard};
use super::store_waker::StoreWaker;
use crate::base::seeded::seeded;
use crate::base::sync::{Mutex, MutexGuard, PoisonError};
use crate::base::sync::{atomic::AtomicBool, atomic::Ordering};
use crate::error::{LockError, StoreError};

/// What the keeper, the callers and the listeners share.
pub(super) struct Shared {
    state: Mutex<EngineState>,
    pub(super) store_waker: Arc<StoreWaker>,
    /// What threads of lower priority than the keeper's ask, as they never take the mutex.
    deferred: Deferred,
    relay: Relay,
    /// The keeper's, if it has a thread of its own.
    priority: KeptPriority,
    stopped: AtomicBool,
}

impl Shared {
    pub(super) fn new(state: EngineState, store_waker: Arc<StoreWaker>) -> Self {
        Self {
            state: Mutex::new(state),
            store_waker,
            deferred: Deferred::default(),
            relay: Relay::default(),
            priority: KeptPriority::default(),
            stopped: AtomicBool::new(false),
        }
    }

    /// Takes up a caller's command, unless the engine has stopped. Returns the listeners to spawn, if
    /// some are wanted and there is a `runtime` for them. They are spawned after this: a runtime that
    /// ends drops a task at once, and a listener that is dropped takes the mutex.
    pub(super) fn take_up<R>(
        &self,
        command: Command,
        runtime: impl FnOnce() -> Option<R>,
    ) -> Result<Option<(R, Begun)>, LockError> {
        let earlier = self.deferred.lock().filter(|_| !seeded!(DeferredOvertaken));
        let mut state = self.state();
        if state.is_stopped() {
            return Err(stopped());
        }
        let earlier = earlier.map(Locked::take).unwrap_or_default();
        self.take_up_all(&mut state, earlier.into_iter().chain([command]));
        let begun = self.worked(&mut state, |state| {
            let runtime = state.wants_listeners().then(runtime)??;
            Some((runtime, state.lanes().begin()))
        });
        self.leave(state);
        Ok(begun.flatten())
    }

    /// Takes up all of these, or tells their calls that the engine has stopped.
    fn take_up_all(&self, state: &mut EngineState, mut commands: impl Iterator<Item = Command>) {
        let done = self.worked(state, |state| state.take_up(&mut commands));
        if done.is_none() {
            state.refuse(commands);
            state.stop(&stopped());
        }
    }

    /// Whether the present thread must not take the mutex.
    pub(super) fn is_outranked(&self) -> bool {
        self.priority.outranks_this_thread()
    }

    /// Leaves a command to the keeper, unless the engine has stopped.
    pub(super) fn defer(&self, command: Command) -> Result<(), LockError> {
        if !self.deferred.leave(command) {
            return Err(stopped());
        }
        if !seeded!(DeferredUnheard) && !self.relay.calls_keeper() {
            self.store_waker.wake_keeper();
        }
        Ok(())
    }

    /// The keeper is on this thread, which is its own.
    pub(super) fn kept_here(&self) {
        self.priority.is_of_this_thread();
    }

    /// The keeper works the machine, after what was left to it.
    pub(super) fn turn(&self, state: &mut EngineState, called: bool) {
        // What is deferred to an engine that has stopped is refused when the keeper ends.
        if state.is_stopped() {
            return;
        }
        let deferred = self.deferred.try_take();
        if !deferred.is_empty() {
            self.take_up_all(state, deferred.into_iter());
        }
        state.turn(called);
    }

    /// The keeper tells what there is to tell, after the machine has been given up.
    pub(super) fn keeper_tells(&self, notifications: Option<Notifications>) {
        if self.deferred.was_used() {
            self.relay.start(&self.store_waker);
        }
        self.relay.tell(notifications);
    }

    /// A listener hears that something has come.
    pub(super) fn hear(&self, listener: ListenerId) -> Heard {
        if self.is_outranked() {
            // Its runtime has threads that must not read.
            self.say(Command::ListenerOutranked(listener));
            return Heard::InVain;
        }
        let mut state = self.state();
        let heard = self.worked(&mut state, |state| state.hear(listener));
        self.leave(state);
        heard.unwrap_or(Heard::InVain)
    }

    /// The callers that a listener has told have had their turn.
    pub(super) fn gathered(&self) {
        if self.is_outranked() {
            // The keeper sends what has been gathered, in its time.
            return;
        }
        let mut state = self.state();
        self.worked(&mut state, EngineState::gathered);
        self.leave(state);
    }

    /// A listener has ended.
    pub(super) fn listener_ended(&self, listener: ListenerId) {
        self.say(Command::ListenerEnded(listener));
    }

    /// The runtime that was to listen cannot.
    pub(super) fn unable(&self) {
        self.say(Command::ListenerUnable);
    }

    /// A listener's word to the machine. One that has stopped needs none.
    fn say(&self, word: Command) {
        if self.is_outranked() {
            let _ = self.defer(word);
        } else {
            let _ = self.take_up(word, || None::<()>);
        }
    }

    pub(super) fn has_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    pub(super) fn state(&self) -> MutexGuard<'_, EngineState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the machine up, and tells what there is to tell.
    fn leave(&self, mut state: MutexGuard<'_, EngineState>) {
        let wakes_keeper = state.needs_keeper();
        let notifications = state.take_notifications();
        drop(state);
        if wakes_keeper {
            self.store_waker.wake_keeper();
        }
        tell(notifications);
    }

    /// The runtime that the keeper ran on is gone, or the engine panicked: no call may wait for it
    /// for ever.
    pub(super) fn stop(&self) {
        // Before the mutex, as `take_up` has both in this order.
        let deferred = self.deferred.close();
        let mut state = self.state();
        self.stopped.store(true, Ordering::SeqCst);
        state.refuse(deferred.into_iter());
        state.stop(&stopped());
        let notifications = state.take_notifications();
        drop(state);
        tell(notifications);
        self.relay.end();
    }

    /// Works the machine. A mistake of the engine's does not end a caller's thread: the engine
    /// stops.
    fn worked<T>(
        &self,
        state: &mut EngineState,
        work: impl FnOnce(&mut EngineState) -> T,
    ) -> Option<T> {
        let done = catch_unwind(AssertUnwindSafe(|| work(state)));
        if done.is_err() {
            // At once: what is half done is not to be gone on with.
            self.stopped.store(true, Ordering::SeqCst);
            state.stop(&stopped());
        }
        done.ok()
    }
}

pub(super) fn stopped() -> LockError {
    LockError::Unavailable {
        source: StoreError::new(
            "stopped",
            "the pool's engine has stopped: the runtime it ran on is gone, or it panicked; connect the pool anew, and install it in the place of this one",
        ),
    }
}
