//! What callers ask of the engine, until somebody takes it up.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use super::shutdown::ShutdownReport;
use super::slot::Slot;
use super::ticket::{Order, TicketId};
use crate::clock::Instant;

/// What callers ask of the engine.
pub(crate) enum Command {
    Acquire {
        id: TicketId,
        order: Order,
        slot: Arc<Slot>,
    },
    /// The locks of one call, at once.
    AcquireAll {
        orders: Vec<(TicketId, Order, Arc<Slot>)>,
        /// How long the call queues if they cannot be had now.
        wait: Duration,
    },
    Release {
        id: TicketId,
        /// For how long the key is to stay.
        keep: Option<Duration>,
    },
    /// The same for several, whose requests leave together.
    ReleaseAll {
        ids: Vec<TicketId>,
        keep: Option<Duration>,
    },
    Abandon(TicketId),
    Downgrade(TicketId),
    /// Wake a caller at this time.
    Wake {
        at: Instant,
        caller: oneshot::Sender<()>,
    },
    ShutDown {
        limit: Duration,
        reply: oneshot::Sender<ShutdownReport>,
    },
    /// All callers are gone.
    Close,
    /// Runs code of a test under the engine's mutex.
    #[cfg(feature = "__test")]
    Inside(Box<dyn FnOnce() + Send>),
}

impl Command {
    /// Whose caller, having given this command, looks for the answer or goes to sleep at once.
    pub(super) fn awaited(&self) -> Option<TicketId> {
        match self {
            Self::Acquire { id, .. } | Self::Release { id, .. } => Some(*id),
            Self::AcquireAll { orders, .. } => orders.first().map(|(id, ..)| *id),
            Self::ReleaseAll { ids, .. } => ids.last().copied(),
            _ => None,
        }
    }
}

/// Commands in the order in which they were given.
#[derive(Default)]
pub(super) struct Inbox {
    state: Mutex<State>,
    /// Whether there is a command, for who need not be sure.
    filled: AtomicBool,
}

#[derive(Default)]
struct State {
    commands: Vec<Command>,
    /// Nobody will take them up any more.
    stopped: bool,
}

impl Inbox {
    /// Adds a command; whether somebody will take it up, which nobody does when the engine has stopped.
    #[must_use]
    pub(super) fn put(&self, command: Command) -> bool {
        let mut state = self.state();
        if state.stopped {
            return false;
        }
        state.commands.push(command);
        self.filled.store(true, Ordering::SeqCst);
        true
    }

    /// Moves all commands to the end of `into`.
    pub(super) fn take(&self, into: &mut Vec<Command>) {
        let mut state = self.state();
        into.append(&mut state.commands);
        self.filled.store(false, Ordering::SeqCst);
    }

    /// Whether there is no command, but for one that is only just being given; its caller then looks for somebody to take it up.
    pub(super) fn is_empty(&self) -> bool {
        !self.filled.load(Ordering::SeqCst)
    }

    /// Takes no commands from now on; what is left of them.
    pub(super) fn stop(&self) -> Vec<Command> {
        let mut state = self.state();
        state.stopped = true;
        self.filled.store(false, Ordering::SeqCst);
        std::mem::take(&mut state.commands)
    }

    /// Whether no command is taken any more.
    pub(super) fn has_stopped(&self) -> bool {
        self.state().stopped
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
