//! The engine's state between the threads that work it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tokio::runtime::Handle;

use super::command::Command;
use super::lane::{self, Begun, ListenerId};
use super::machine::Machine;
use super::news::News;
use super::stir::Stir;
use crate::seeded::seeded;
use crate::sync::{Mutex, MutexGuard, PoisonError};
use crate::{LockError, StoreError};

/// What the keeper, the callers and the listeners share.
pub(super) struct Shared {
    machine: Mutex<Machine>,
    pub(super) stir: Arc<Stir>,
}

/// What a listener has heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heard {
    /// Another hears of answers from now on.
    InVain,
    /// At most one task was told.
    One,
    /// Several were told, and what they ask gathers until they have had their turn.
    Several,
}

impl Shared {
    pub(super) fn new(machine: Machine, stir: Arc<Stir>) -> Self {
        Self {
            machine: Mutex::new(machine),
            stir,
        }
    }

    /// Takes up a caller's command, unless the engine has stopped.
    pub(super) fn send(self: &Arc<Self>, command: Command) -> Result<(), LockError> {
        let runtime = || Handle::try_current().ok();
        if let Some((runtime, begun)) = self.take_up(command, runtime)? {
            for (id, socket) in begun {
                runtime.spawn(lane::listen(self, id, &socket));
            }
        }
        Ok(())
    }

    /// Takes up a caller's command, unless the engine has stopped. Where listeners are wanted, and
    /// there is a `runtime` for them: those that are to be made, after this, as a runtime that ends
    /// drops a task at once, and with it what it has.
    pub(super) fn take_up<R>(
        &self,
        command: Command,
        runtime: impl FnOnce() -> Option<R>,
    ) -> Result<Option<(R, Begun)>, LockError> {
        let mut machine = self.machine();
        if machine.is_stopped() {
            return Err(stopped());
        }
        let begun = worked(&mut machine, |machine| {
            machine.take_up(command);
            let runtime = machine.wants_listeners().then(runtime)??;
            Some((runtime, machine.lanes().begin()))
        });
        self.leave(machine);
        Ok(begun.flatten())
    }

    /// A listener hears that something has come.
    pub(super) fn hear(&self, listener: ListenerId) -> Heard {
        let mut machine = self.machine();
        let heard = worked(&mut machine, |machine| machine.hear(listener));
        self.leave(machine);
        heard.unwrap_or(Heard::InVain)
    }

    /// The callers that a listener has told have had their turn.
    pub(super) fn gathered(&self) {
        let mut machine = self.machine();
        worked(&mut machine, Machine::gathered);
        self.leave(machine);
    }

    /// A listener has ended.
    pub(super) fn listener_ended(&self, listener: ListenerId) {
        let mut machine = self.machine();
        let alone = machine.lanes().end(listener);
        // What its callers ask does not wait for it.
        worked(&mut machine, Machine::gathered);
        self.leave(machine);
        if alone && !seeded!(ListenerEndUnheard) {
            self.stir.hand_over();
        }
    }

    /// The runtime that was to listen cannot.
    pub(super) fn unable(&self) {
        self.machine().unable();
    }

    pub(super) fn has_stopped(&self) -> bool {
        self.machine().is_stopped()
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
        let mut machine = self.machine();
        machine.stop(&stopped());
        let news = machine.take_news();
        drop(machine);
        tell(news);
    }
}

/// Works the machine. A mistake of the engine's does not end a caller's thread: the engine stops.
fn worked<T>(machine: &mut Machine, work: impl FnOnce(&mut Machine) -> T) -> Option<T> {
    let done = catch_unwind(AssertUnwindSafe(|| work(machine)));
    if done.is_err() {
        // At once: what is half done is not to be gone on with.
        machine.stop(&stopped());
    }
    done.ok()
}

/// Tells what there is to tell, after the machine has been given up.
pub(super) fn tell(news: Option<News>) {
    if let Some(news) = news {
        news.tell();
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
