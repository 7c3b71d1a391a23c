//! The engine's state behind its mutex, and the operations of the threads that take the mutex.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::command::Command;
use super::deferred::{Deferred, Locked};
use super::lanes::{ListenerId, NewListeners};
use super::notifications::notify;
use super::observer::Watch;
use super::priority::KeptPriority;
use super::state::{EngineState, Received};
use super::store_waker::StoreWaker;
use crate::base::seeded::seeded;
use crate::base::sync::{Mutex, MutexGuard, PoisonError};
use crate::base::sync::{atomic::AtomicBool, atomic::Ordering};
use crate::error::{LockError, StoreError};

/// State shared by the keeper, the callers and the listeners.
pub(super) struct Shared {
    state: Mutex<EngineState>,
    pub(super) store_waker: Arc<StoreWaker>,
    /// Commands from threads with a lower priority than the keeper, which never take the mutex.
    deferred: Deferred,
    /// The keeper's priority, if it has a dedicated thread.
    priority: KeptPriority,
    stopped: AtomicBool,
}

impl Shared {
    pub(super) fn new(state: EngineState, store_waker: Arc<StoreWaker>) -> Self {
        Self {
            state: Mutex::new(state),
            store_waker,
            deferred: Deferred::default(),
            priority: KeptPriority::default(),
            stopped: AtomicBool::new(false),
        }
    }

    pub(super) fn watched_by(&self, watch: Arc<dyn Watch>) {
        self.lock().watched_by(watch);
    }

    /// Executes a caller's command, unless the engine has stopped. If a socket has no listener and
    /// `runtime` returns a runtime, returns this runtime and new listeners for it.
    ///
    /// The caller must spawn the listeners after this function has released the mutex. A runtime in
    /// its shutdown may drop a spawned listener at once, and the listener's `Drop` takes the mutex.
    pub(super) fn execute<R>(
        &self,
        command: Command,
        runtime: impl FnOnce() -> Option<R>,
    ) -> Result<Option<(R, NewListeners)>, LockError> {
        let earlier = self.deferred.lock().filter(|_| !seeded!(DeferredOvertaken));
        let mut state = self.lock();
        if state.is_stopped() {
            return Err(stopped());
        }
        let earlier = earlier.map(Locked::take).unwrap_or_default();
        self.execute_all(&mut state, earlier.into_iter().chain([command]));
        let listeners = self.guarded(&mut state, |state| {
            let runtime = state.wants_listeners().then(runtime)??;
            Some((runtime, state.lanes().begin()))
        });
        self.unlock(state);
        Ok(listeners.flatten())
    }

    /// Executes `commands`. If one of them makes the engine panic, stops the engine and notifies
    /// the calls of the remaining commands.
    fn execute_all(&self, state: &mut EngineState, mut commands: impl Iterator<Item = Command>) {
        let done = self.guarded(state, |state| state.execute(&mut commands));
        if done.is_none() {
            state.refuse(commands);
            state.stop(&stopped());
        }
    }

    /// True if the current thread must not take the mutex, because it has a lower priority than the
    /// keeper.
    pub(super) fn is_outranked(&self) -> bool {
        self.priority.outranks_this_thread()
    }

    /// Leaves a command to the keeper, unless the engine has stopped.
    pub(super) fn defer(&self, command: Command) -> Result<(), LockError> {
        if !self.deferred.push(command) {
            return Err(stopped());
        }
        if !seeded!(DeferredUnnoticed) {
            self.store_waker.wake_keeper();
        }
        Ok(())
    }

    /// Records that the current thread is the keeper's dedicated thread.
    pub(super) fn keeper_is_here(&self) {
        self.priority.is_of_this_thread();
    }

    /// Executes the deferred commands and then the due work. Only the keeper calls this. `called`
    /// is true if the store may have events.
    pub(super) fn do_what_is_due(&self, state: &mut EngineState, called: bool) {
        // If the engine has stopped, the keeper ends now, and `stop` refuses the deferred commands.
        if state.is_stopped() {
            return;
        }
        let deferred = self.deferred.try_take();
        if !deferred.is_empty() {
            self.execute_all(state, deferred.into_iter());
        }
        state.do_what_is_due(called);
    }

    /// Reads and handles the answers that a listener found on its socket.
    pub(super) fn receive(&self, listener: ListenerId) -> Received {
        if self.is_outranked() {
            // This low-priority thread must not read. The command removes the listener, and no new
            // listener starts for a while.
            self.send(Command::ListenerOutranked(listener));
            return Received::InVain;
        }
        let mut state = self.lock();
        let received = self.guarded(&mut state, |state| state.receive(listener));
        self.unlock(state);
        received.unwrap_or(Received::InVain)
    }

    /// Sends the collected requests. Called when the callers woken by a listener have run.
    pub(super) fn gathered(&self) {
        if self.is_outranked() {
            // The keeper sends the collected requests when it wakes up next.
            return;
        }
        let mut state = self.lock();
        self.guarded(&mut state, EngineState::gathered);
        self.unlock(state);
    }

    /// Records that a listener has ended.
    pub(super) fn listener_ended(&self, listener: ListenerId) {
        self.send(Command::ListenerEnded(listener));
    }

    /// Records that a caller's runtime could not start a listener.
    pub(super) fn unable(&self) {
        self.send(Command::ListenerUnable);
    }

    /// Executes or defers a listener's command. A stopped engine ignores it.
    fn send(&self, command: Command) {
        if self.is_outranked() {
            let _ = self.defer(command);
        } else {
            let _ = self.execute(command, || None::<()>);
        }
    }

    pub(super) fn has_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, EngineState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Releases the mutex. Then wakes the keeper, if necessary, and delivers the notifications.
    fn unlock(&self, mut state: MutexGuard<'_, EngineState>) {
        let wakes_keeper = state.needs_keeper();
        let notifications = state.take_notifications();
        drop(state);
        if wakes_keeper {
            self.store_waker.wake_keeper();
        }
        notify(notifications);
    }

    /// Stops the engine, so that no call waits for it forever. Called when the keeper is dropped:
    /// at its end, at the end of its runtime, or after a panic.
    pub(super) fn stop(&self) {
        // Locks the list of deferred commands before the engine's mutex, as `execute` does. With
        // the opposite order, the two could deadlock.
        let deferred = self.deferred.close();
        let mut state = self.lock();
        self.stopped.store(true, Ordering::SeqCst);
        state.refuse(deferred.into_iter());
        state.stop(&stopped());
        let notifications = state.take_notifications();
        drop(state);
        notify(notifications);
    }

    /// Runs `work` on the state. A panic stops the engine, but the current thread continues.
    fn guarded<T>(
        &self,
        state: &mut EngineState,
        work: impl FnOnce(&mut EngineState) -> T,
    ) -> Option<T> {
        let done = catch_unwind(AssertUnwindSafe(|| work(state)));
        if done.is_err() {
            // Set at once, so that no thread uses the inconsistent state.
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
            "the pool's engine has stopped: the runtime it ran on is gone, or it panicked; connect \
             a new pool, and install it instead of this one",
        ),
    }
}
