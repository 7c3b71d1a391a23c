//! The relay: a thread between the keeper and threads of low priority.
//!
//! To wake a thread, and to wake a task on its runtime, takes locks of the library that runs them. A
//! thread of low priority may be stopped while it has one. So such a thread does not wake the keeper,
//! and the keeper does not wake its tasks: both leave that to the relay, which has the keeper's
//! priority and may wait. The keeper starts it with the first command that was [`deferred`].
//!
//! [`deferred`]: super::deferred

use std::mem;
use std::sync::{Arc, OnceLock};

use super::news::News;
use super::shared::tell;
use super::stir::Stir;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::thread::{self, Thread};
use crate::sync::{Mutex, MutexGuard, PoisonError};

/// What leads to the relay, before it is started too.
#[derive(Default)]
pub(super) struct Relay {
    thread: OnceLock<Thread>,
    tasks: Arc<Tasks>,
}

/// What the relay is to do.
#[derive(Default)]
struct Tasks {
    /// What the keeper has to tell. No thread of low priority takes this mutex.
    news: Mutex<Vec<News>>,
    /// Whether the keeper is to be woken.
    calls: AtomicBool,
    ended: AtomicBool,
}

impl Relay {
    /// Starts the relay, on a thread that is of this one's priority. Where there can be no further
    /// thread, everything is done without it.
    pub(super) fn start(&self, stir: &Arc<Stir>) {
        if self.thread.get().is_some() {
            return;
        }
        let (tasks, stir) = (Arc::clone(&self.tasks), Arc::clone(stir));
        let started = thread::Builder::new()
            .name("leasehold-relay".to_owned())
            .spawn(move || tasks.run(&stir));
        if let Ok(started) = started {
            // Only the keeper starts it.
            let _ = self.thread.set(started.thread().clone());
        }
    }

    /// A thread of low priority wants the keeper to be woken; whether the relay will.
    pub(super) fn calls_keeper(&self) -> bool {
        let thread = self.thread.get();
        if let Some(thread) = thread {
            self.tasks.calls.store(true, Ordering::SeqCst);
            thread.unpark();
        }
        thread.is_some()
    }

    /// The keeper has something to tell.
    pub(super) fn tell(&self, news: Option<News>) {
        let Some(news) = news else {
            return;
        };
        match self.thread.get() {
            Some(thread) => {
                self.tasks.news().push(news);
                thread.unpark();
            }
            None => tell(Some(news)),
        }
    }

    /// The relay tells what it has, and ends.
    pub(super) fn end(&self) {
        self.tasks.ended.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}

impl Tasks {
    fn run(&self, stir: &Stir) {
        loop {
            // Looked at first: what is left before the end is told.
            let ended = self.ended.load(Ordering::SeqCst);
            if self.calls.swap(false, Ordering::SeqCst) {
                stir.wake_keeper();
            }
            let news = mem::take(&mut *self.news());
            for news in news {
                tell(Some(news));
            }
            if ended {
                return;
            }
            thread::park();
        }
    }

    fn news(&self) -> MutexGuard<'_, Vec<News>> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
