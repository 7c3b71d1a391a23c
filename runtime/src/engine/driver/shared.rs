//! The engine's state between the threads that work it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::command::Command;
use super::deferred::{Deferred, Locked};
use super::lanes::{Begun, ListenerId};
use super::notifications::{News, tell};
use super::priority::KeptPriority;
use super::relay::Relay;
use super::state::{Heard, Machine};
use super::store_waker::Stir;
use crate::base::seeded::seeded;
use crate::base::sync::{Mutex, MutexGuard, PoisonError};
use crate::base::sync::{atomic::AtomicBool, atomic::Ordering};
use crate::error::{LockError, StoreError};

/// What the keeper, the callers and the listeners share.
pub(super) struct Shared {
    machine: Mutex<Machine>,
    pub(super) stir: Arc<Stir>,
    /// What threads of lower priority than the keeper's ask, as they never take the mutex.
    deferred: Deferred,
    relay: Relay,
    /// The keeper's, if it has a thread of its own.
    priority: KeptPriority,
    stopped: AtomicBool,
}

impl Shared {
    pub(super) fn new(machine: Machine, stir: Arc<Stir>) -> Self {
        Self {
            machine: Mutex::new(machine),
            stir,
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
        let mut machine = self.machine();
        if machine.is_stopped() {
            return Err(stopped());
        }
        let earlier = earlier.map(Locked::take).unwrap_or_default();
        self.take_up_all(&mut machine, earlier.into_iter().chain([command]));
        let begun = self.worked(&mut machine, |machine| {
            let runtime = machine.wants_listeners().then(runtime)??;
            Some((runtime, machine.lanes().begin()))
        });
        self.leave(machine);
        Ok(begun.flatten())
    }

    /// Takes up all of these, or tells their calls that the engine has stopped.
    fn take_up_all(&self, machine: &mut Machine, mut commands: impl Iterator<Item = Command>) {
        let done = self.worked(machine, |machine| machine.take_up(&mut commands));
        if done.is_none() {
            machine.refuse(commands);
            machine.stop(&stopped());
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
            self.stir.wake_keeper();
        }
        Ok(())
    }

    /// The keeper is on this thread, which is its own.
    pub(super) fn kept_here(&self) {
        self.priority.is_of_this_thread();
    }

    /// The keeper works the machine, after what was left to it.
    pub(super) fn turn(&self, machine: &mut Machine, called: bool) {
        // What is deferred to an engine that has stopped is refused when the keeper ends.
        if machine.is_stopped() {
            return;
        }
        let deferred = self.deferred.try_take();
        if !deferred.is_empty() {
            self.take_up_all(machine, deferred.into_iter());
        }
        machine.turn(called);
    }

    /// The keeper tells what there is to tell, after the machine has been given up.
    pub(super) fn keeper_tells(&self, news: Option<News>) {
        if self.deferred.was_used() {
            self.relay.start(&self.stir);
        }
        self.relay.tell(news);
    }

    /// A listener hears that something has come.
    pub(super) fn hear(&self, listener: ListenerId) -> Heard {
        if self.is_outranked() {
            // Its runtime has threads that must not read.
            self.say(Command::ListenerOutranked(listener));
            return Heard::InVain;
        }
        let mut machine = self.machine();
        let heard = self.worked(&mut machine, |machine| machine.hear(listener));
        self.leave(machine);
        heard.unwrap_or(Heard::InVain)
    }

    /// The callers that a listener has told have had their turn.
    pub(super) fn gathered(&self) {
        if self.is_outranked() {
            // The keeper sends what has been gathered, in its time.
            return;
        }
        let mut machine = self.machine();
        self.worked(&mut machine, Machine::gathered);
        self.leave(machine);
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

    pub(super) fn machine(&self) -> MutexGuard<'_, Machine> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the machine up, and tells what there is to tell.
    fn leave(&self, mut machine: MutexGuard<'_, Machine>) {
        let wakes_keeper = machine.needs_keeper();
        let news = machine.take_news();
        drop(machine);
        if wakes_keeper {
            self.stir.wake_keeper();
        }
        tell(news);
    }

    /// The runtime that the keeper ran on is gone, or the engine panicked: no call may wait for it
    /// for ever.
    pub(super) fn stop(&self) {
        // Before the mutex, as `take_up` has both in this order.
        let deferred = self.deferred.close();
        let mut machine = self.machine();
        self.stopped.store(true, Ordering::SeqCst);
        machine.refuse(deferred.into_iter());
        machine.stop(&stopped());
        let news = machine.take_news();
        drop(machine);
        tell(news);
        self.relay.end();
    }

    /// Works the machine. A mistake of the engine's does not end a caller's thread: the engine
    /// stops.
    fn worked<T>(&self, machine: &mut Machine, work: impl FnOnce(&mut Machine) -> T) -> Option<T> {
        let done = catch_unwind(AssertUnwindSafe(|| work(machine)));
        if done.is_err() {
            // At once: what is half done is not to be gone on with.
            self.stopped.store(true, Ordering::SeqCst);
            machine.stop(&stopped());
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
