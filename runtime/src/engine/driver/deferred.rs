//! Commands of threads that must not take the engine's mutex, which the keeper takes up for them.
//!
//! A thread of lower [`priority`] than the keeper leaves its commands here. A task may go on to a
//! thread of usual priority, whose commands must not overtake those. So commands leave this list
//! only under the engine's mutex, and a thread that takes the mutex for a command takes up all that
//! were left before.
//!
//! [`priority`]: super::priority

use std::mem;

use super::command::Command;
use crate::base::sync::{Mutex, MutexGuard, PoisonError};
use crate::base::sync::{atomic::AtomicBool, atomic::Ordering};

#[derive(Default)]
pub(super) struct Deferred {
    list: Mutex<List>,
    /// Whether there are commands. Whoever has left one sees that it is so.
    any: AtomicBool,
    /// Whether there ever were.
    used: AtomicBool,
}

#[derive(Default)]
struct List {
    commands: Vec<Command>,
    /// Nothing is taken up any more.
    closed: bool,
}

/// The list, to which nothing is added while this lasts.
pub(super) struct Locked<'a>(&'a Deferred, MutexGuard<'a, List>);

impl Deferred {
    /// Leaves a command; whether anything is still taken up.
    pub(super) fn leave(&self, command: Command) -> bool {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        if list.closed {
            return false;
        }
        list.commands.push(command);
        self.used.store(true, Ordering::SeqCst);
        self.any.store(true, Ordering::SeqCst);
        true
    }

    /// Whether a thread of low priority has ever left a command.
    pub(super) fn was_used(&self) -> bool {
        self.used.load(Ordering::SeqCst)
    }

    /// The list, if there are commands. It may have to wait for a thread that leaves one. So it is
    /// not for the keeper, and not under the engine's mutex.
    pub(super) fn lock(&self) -> Option<Locked<'_>> {
        let any = self.any.load(Ordering::SeqCst);
        any.then(|| {
            Locked(
                self,
                self.list.lock().unwrap_or_else(PoisonError::into_inner),
            )
        })
    }

    /// The commands, to be taken up at once, under the engine's mutex. None while another thread
    /// has the list: it wakes the keeper afterwards, or takes them up itself.
    pub(super) fn try_take(&self) -> Vec<Command> {
        if !self.any.load(Ordering::SeqCst) {
            return Vec::new();
        }
        let list = self.list.try_lock().ok();
        list.map_or_else(Vec::new, |list| Locked(self, list).take())
    }

    /// From now on nothing is left here. Returns what was. Not under the engine's mutex.
    pub(super) fn close(&self) -> Vec<Command> {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        list.closed = true;
        Locked(self, list).take()
    }
}

impl Locked<'_> {
    /// The commands, to be taken up at once, under the engine's mutex.
    pub(super) fn take(mut self) -> Vec<Command> {
        self.0.any.store(false, Ordering::SeqCst);
        mem::take(&mut self.1.commands)
    }
}
