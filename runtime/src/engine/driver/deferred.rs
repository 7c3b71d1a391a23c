//! Commands from threads that must not take the engine's mutex. The keeper executes them.
//!
//! A thread with a lower [`priority`] than the keeper puts its commands into this list. The task on
//! this thread may then move to a thread with normal priority. Its later commands must not overtake
//! the deferred ones. So a thread that takes the engine's mutex for a command executes all deferred
//! commands first. Until the list is closed, commands are removed only under the engine's mutex.
//!
//! [`priority`]: super::priority

use std::mem;

use super::command::Command;
use crate::base::sync::{Mutex, MutexGuard, PoisonError};
use crate::base::sync::{atomic::AtomicBool, atomic::Ordering};

#[derive(Default)]
pub(super) struct Deferred {
    list: Mutex<List>,
    /// True if the list has commands. A task that has deferred a command reads `true`, even on
    /// another thread, until the command is taken.
    any: AtomicBool,
}

#[derive(Default)]
struct List {
    commands: Vec<Command>,
    /// True if the engine no longer executes commands.
    closed: bool,
}

/// The locked list. No thread can add a command while this value exists.
pub(super) struct Locked<'a>(&'a Deferred, MutexGuard<'a, List>);

impl Deferred {
    /// Adds a command. Returns `false` if the engine no longer executes commands.
    pub(super) fn push(&self, command: Command) -> bool {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        if list.closed {
            return false;
        }
        list.commands.push(command);
        self.any.store(true, Ordering::SeqCst);
        true
    }

    /// Locks the list, if it has commands. This may block while a low-priority thread adds a
    /// command. So the keeper, and threads with the engine's mutex, must not call this.
    pub(super) fn lock(&self) -> Option<Locked<'_>> {
        let any = self.any.load(Ordering::SeqCst);
        any.then(|| {
            Locked(
                self,
                self.list.lock().unwrap_or_else(PoisonError::into_inner),
            )
        })
    }

    /// Takes the commands. The caller must execute them at once, under the engine's mutex. Takes
    /// none while another thread has locked the list. That thread either executes the commands, or
    /// wakes the keeper after it has added one.
    pub(super) fn try_take(&self) -> Vec<Command> {
        if !self.any.load(Ordering::SeqCst) {
            return Vec::new();
        }
        let list = self.list.try_lock().ok();
        list.map_or_else(Vec::new, |list| Locked(self, list).take())
    }

    /// Closes the list, and returns its commands. The list accepts no command after this. May
    /// block, so it must not be called under the engine's mutex.
    pub(super) fn close(&self) -> Vec<Command> {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        list.closed = true;
        Locked(self, list).take()
    }
}

impl Locked<'_> {
    /// Takes the commands. The caller must execute them at once, under the engine's mutex.
    pub(super) fn take(mut self) -> Vec<Command> {
        self.0.any.store(false, Ordering::SeqCst);
        mem::take(&mut self.1.commands)
    }
}
