//! The threads that work the engine: callers, listeners and the keeper, around one mutex.
//!
//! An engine's state is a [`machine`] behind one mutex. Any thread may work it:
//! - *A caller* takes up its own command, and writes what that asks of the store.
//! - *A listener* hears of answers on a caller's runtime. Its callers are told on the thread that
//!   is awake already; those of other runtimes wake theirs. See [`lane`].
//! - *The keeper*, a task on a [`thread`] of the engine's own, does what is due: time-outs,
//!   renewals, removals. It hears of answers where no listener does, and takes over from one that
//!   is late.
//!
//! A thread that has the mutex blocks on nothing and runs no code of the program. What is to be told
//! becomes [`news`], and is told once the mutex is free. The system may preempt a thread that has
//! the mutex, and then all wait. A thread of lower [`priority`] than the keeper may wait for a
//! processor for seconds. So it never takes the mutex: its commands are [`deferred`] to the keeper,
//! and the [`relay`] stands between the two.

mod alarms;
pub(crate) mod command;
mod deferred;
mod handle;
mod keeper;
mod lane;
#[cfg(all(test, shuttle))]
mod model;
mod notifications;
mod priority;
mod relay;
mod state;
mod store_waker;
pub(crate) mod thread;
mod timer;
mod traffic;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use self::command::Command;
use self::handle::Shared;
use super::core::ticket::TicketId;
use crate::base::clock::Clock;
use crate::error::LockError;

/// A pool's end of the engine. The engine ends when this is gone and nothing is left to do.
pub(crate) struct Engine {
    shared: Arc<Shared>,
    clock: Clock,
    last_ticket: AtomicU64,
}

impl Engine {
    fn new(shared: Arc<Shared>, clock: Clock) -> Self {
        Self {
            shared,
            clock,
            last_ticket: AtomicU64::new(1),
        }
    }

    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    /// Whether nothing is taken up any more.
    pub(crate) fn has_stopped(&self) -> bool {
        self.shared.has_stopped()
    }

    pub(crate) fn next_ticket(&self) -> TicketId {
        TicketId(self.last_ticket.fetch_add(1, Ordering::Relaxed))
    }

    /// Takes up a command, on this thread.
    pub(crate) fn send(&self, command: Command) -> Result<(), LockError> {
        self.shared.send(command)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // Stopped already: fine.
        let _ = self.send(Command::Close);
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
}
