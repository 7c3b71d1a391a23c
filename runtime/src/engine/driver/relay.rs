//! The relay: two threads between the keeper and threads of low priority.
//!
//! Waking a thread, or a task on its runtime, takes locks of the library that runs them. A thread
//! of low priority may stand still while it has such a lock. So that thread does not wake the
//! keeper, and the keeper does not wake the tasks of that thread. Two threads that have the
//! keeper's priority, and may wait, do it for them:
//! - *The waker* wakes the keeper.
//! - *The notifier* delivers the keeper's notifications.
//!
//! They are two, because a thread of low priority may also stand still while it wakes the waker.
//! The keeper starts both when a thread has [`deferred`] a command for the first time.
//!
//! [`deferred`]: super::deferred

use std::mem;
use std::sync::{Arc, OnceLock};

use super::notifications::{Notifications, tell};
use super::store_waker::StoreWaker;
use crate::base::sync::{Mutex, MutexGuard, PoisonError};
use crate::base::sync::{atomic::AtomicBool, atomic::Ordering};
use crate::base::sync::{thread, thread::Thread};

/// The way to the two threads, and what it does without them.
#[derive(Default)]
pub(super) struct Relay {
    /// `None` where the process may have no further thread: then the relay does everything
    /// directly.
    threads: OnceLock<Option<Threads>>,
    tasks: Arc<Tasks>,
}

struct Threads {
    waker: Thread,
    notifier: Thread,
}

/// What the two threads are to do.
#[derive(Default)]
struct Tasks {
    /// Whether the keeper is to be woken.
    wakes: AtomicBool,
    /// The keeper's notifications. No thread of low priority takes this mutex.
    notifications: Mutex<Vec<Notifications>>,
    ended: AtomicBool,
}

impl Relay {
    /// Starts the two threads, with this thread's priority, unless that was done or tried before.
    /// Only the keeper calls this, and not under the engine's mutex.
    pub(super) fn start(&self, store_waker: &Arc<StoreWaker>) {
        self.threads.get_or_init(|| {
            let (tasks, store_waker) = (Arc::clone(&self.tasks), Arc::clone(store_waker));
            let waker = spawn("leasehold-call", move || tasks.wake(&store_waker))?;
            let tasks = Arc::clone(&self.tasks);
            let Some(notifier) = spawn("leasehold-tell", move || tasks.notify()) else {
                self.tasks.ended.store(true, Ordering::SeqCst);
                waker.unpark();
                return None;
            };
            Some(Threads { waker, notifier })
        });
    }

    fn threads(&self) -> Option<&Threads> {
        self.threads.get()?.as_ref()
    }

    /// Wakes the keeper for a thread of low priority. `false` if the relay has no threads.
    pub(super) fn wakes_keeper(&self) -> bool {
        let threads = self.threads();
        if let Some(threads) = threads {
            self.tasks.wakes.store(true, Ordering::SeqCst);
            threads.waker.unpark();
        }
        threads.is_some()
    }

    /// Delivers the keeper's notifications.
    pub(super) fn notify(&self, notifications: Option<Notifications>) {
        match (self.threads(), notifications) {
            (Some(threads), Some(notifications)) => {
                self.tasks.notifications().push(notifications);
                threads.notifier.unpark();
            }
            (_, notifications) => tell(notifications),
        }
    }

    /// Ends the two threads. The notifier delivers what it has before.
    pub(super) fn end(&self) {
        self.tasks.ended.store(true, Ordering::SeqCst);
        if let Some(threads) = self.threads() {
            threads.waker.unpark();
            threads.notifier.unpark();
        }
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Option<Thread> {
    let started = thread::Builder::new().name(name.to_owned()).spawn(run);
    started.ok().map(|started| started.thread().clone())
}

impl Tasks {
    fn wake(&self, store_waker: &StoreWaker) {
        while !self.ended.load(Ordering::SeqCst) {
            if self.wakes.swap(false, Ordering::SeqCst) {
                store_waker.wake_keeper();
            }
            thread::park();
        }
    }

    fn notify(&self) {
        loop {
            // Read first, so that notifications from before the end are delivered.
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
