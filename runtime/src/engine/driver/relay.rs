//! The relay: two threads between the keeper and threads of low priority.
//!
//! To wake a thread, and to wake a task on its runtime, takes locks of the library that runs them. A
//! thread of low priority may be stopped while it has one. So such a thread does not wake the keeper,
//! and the keeper does not wake its tasks. Both leave that to a thread that has the keeper's priority
//! and may wait: the *caller* wakes the keeper, and the *teller* tells its news. They are two, as a
//! thread of low priority may also be stopped while it wakes the caller.
//!
//! The keeper starts both when a command was [`deferred`] for the first time.
//!
//! [`deferred`]: super::deferred

use std::mem;
use std::sync::{Arc, OnceLock};

use super::notifications::{Notifications, tell};
use super::store_waker::StoreWaker;
use crate::base::sync::{Mutex, MutexGuard, PoisonError};
use crate::base::sync::{atomic::AtomicBool, atomic::Ordering};
use crate::base::sync::{thread, thread::Thread};

/// What leads to the relay, before it is started too.
#[derive(Default)]
pub(super) struct Relay {
    /// Without them, where the process may have no further thread, everything is done directly.
    threads: OnceLock<Option<Threads>>,
    tasks: Arc<Tasks>,
}

struct Threads {
    caller: Thread,
    teller: Thread,
}

/// What the relay is to do.
#[derive(Default)]
struct Tasks {
    /// Whether the keeper is to be woken.
    calls: AtomicBool,
    /// What the keeper has to tell. No thread of low priority takes this mutex.
    notifications: Mutex<Vec<Notifications>>,
    ended: AtomicBool,
}

impl Relay {
    /// Starts the relay, with this thread's priority, unless that was done or tried before. Only the
    /// keeper does, and not under the engine's mutex.
    pub(super) fn start(&self, store_waker: &Arc<StoreWaker>) {
        self.threads.get_or_init(|| {
            let (tasks, store_waker) = (Arc::clone(&self.tasks), Arc::clone(store_waker));
            let caller = spawn("leasehold-call", move || tasks.call(&store_waker))?;
            let tasks = Arc::clone(&self.tasks);
            let Some(teller) = spawn("leasehold-tell", move || tasks.tell()) else {
                self.tasks.ended.store(true, Ordering::SeqCst);
                caller.unpark();
                return None;
            };
            Some(Threads { caller, teller })
        });
    }

    fn threads(&self) -> Option<&Threads> {
        self.threads.get()?.as_ref()
    }

    /// A thread of low priority wants the keeper to be woken; whether the relay will.
    pub(super) fn calls_keeper(&self) -> bool {
        let threads = self.threads();
        if let Some(threads) = threads {
            self.tasks.calls.store(true, Ordering::SeqCst);
            threads.caller.unpark();
        }
        threads.is_some()
    }

    /// The keeper has something to tell.
    pub(super) fn tell(&self, notifications: Option<Notifications>) {
        match (self.threads(), notifications) {
            (Some(threads), Some(notifications)) => {
                self.tasks.notifications().push(notifications);
                threads.teller.unpark();
            }
            (_, notifications) => tell(notifications),
        }
    }

    /// The relay tells what it has, and ends.
    pub(super) fn end(&self) {
        self.tasks.ended.store(true, Ordering::SeqCst);
        if let Some(threads) = self.threads() {
            threads.caller.unpark();
            threads.teller.unpark();
        }
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Option<Thread> {
    let started = thread::Builder::new().name(name.to_owned()).spawn(run);
    started.ok().map(|started| started.thread().clone())
}

impl Tasks {
    fn call(&self, store_waker: &StoreWaker) {
        while !self.ended.load(Ordering::SeqCst) {
            if self.calls.swap(false, Ordering::SeqCst) {
                store_waker.wake_keeper();
            }
            thread::park();
        }
    }

    fn tell(&self) {
        loop {
            // Looked at first: what is left before the end is told.
            let ended = self.ended.load(Ordering::SeqCst);
            let notifications = mem::take(&mut *self.notifications());
            for notifications in notifications {
                tell(Some(notifications));
            }
            if ended {
                return;
            }
            thread::park();
        }
    }

    fn notifications(&self) -> MutexGuard<'_, Vec<Notifications>> {
        self.notifications
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
