//! Commands of threads that must not take the engine's mutex. The keeper executes them.
//!
//! A thread of lower [`priority`] than the keeper leaves its commands here. Its task may move on to
//! a thread of usual priority, whose commands must not overtake the deferred ones. So commands
//! leave this list only under the engine's mutex. A thread that takes the mutex for a command
//! executes all deferred commands first.
//!
//! [`priority`]: super::priority

use std::mem;

use super::command::Command;
use crate::base::sync::{Mutex, MutexGuard, PoisonError};
use crate::base::sync::{atomic::AtomicBool, atomic::Ordering};

#[derive(Default)]
pub(super) struct Deferred {
    list: Mutex<List>,
    /// True if there are commands. A task that has left a command reads `true` until it is taken.
    any: AtomicBool,
}

#[derive(Default)]
struct List {
    commands: Vec<Command>,
    /// True if the engine no longer executes commands.
    closed: bool,
}

/// The list, locked: no thread adds a command while this value lives.
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

    /// Locks the list, if there are commands. This may wait for a thread that adds one. So the
    /// keeper must not call it, nor a thread that has the engine's mutex.
    pub(super) fn lock(&self) -> Option<Locked<'_>> {
        let any = self.any.load(Ordering::SeqCst);
        any.then(|| {
            Locked(
                self,
                self.list.lock().unwrap_or_else(PoisonError::into_inner),
            )
        })
    }

    /// Takes the commands, which the caller must execute at once, under the engine's mutex. Takes
    /// none while another thread has the list. That thread wakes the keeper later, or executes the
    /// commands.
    pub(super) fn try_take(&self) -> Vec<Command> {
        if !self.any.load(Ordering::SeqCst) {
            return Vec::new();
        }
        let list = self.list.try_lock().ok();
        list.map_or_else(Vec::new, |list| Locked(self, list).take())
    }

    /// Closes the list, and returns the commands in it. No command is accepted after this. Must not
    /// be called under the engine's mutex.
    pub(super) fn close(&self) -> Vec<Command> {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        list.closed = true;
        Locked(self, list).take()
    }
}

impl Locked<'_> {
    /// Takes the commands, which the caller must execute at once, under the engine's mutex.
    pub(super) fn take(mut self) -> Vec<Command> {
        self.0.any.store(false, Ordering::SeqCst);
        mem::take(&mut self.1.commands)
    }
}
