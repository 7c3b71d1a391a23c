//! Inspection of a pool's store, independent of the pool's engine.

use std::fmt;
use std::sync::Arc;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

use super::thread::{self, Asked, Question};
use crate::base::full_key::FullKey;
use crate::error::LockError;
use crate::inspect::info::LockInfo;
use crate::inspect::pattern::Pattern;
use crate::store::backend::Target;
use crate::store::memory::space::Space;
use crate::store::options::Options;
use crate::store::source::{Page, Place};

/// Inspects the locks of one pool.
///
/// Locks of a store in this process are read on the caller's thread. Every other store is read on a
/// dedicated thread with its own runtime, so that inspection works with every executor. The thread
/// owns the connections. It starts with the first question, and ends after 10 s without one.
pub(crate) struct Observer {
    namespace: String,
    local: Option<Arc<Space>>,
    target: Target,
    options: Options,
    thread: Mutex<Option<UnboundedSender<Asked>>>,
}

impl Observer {
    /// Creates an observer. `local` has the locks of a store in this process, and is `None` for a
    /// store on a server.
    pub(crate) fn new(target: Target, options: Options, local: Option<Arc<Space>>) -> Self {
        Self {
            namespace: options.namespace.clone(),
            local,
            target,
            options,
            thread: Mutex::new(None),
        }
    }

    pub(super) async fn look(&self, key: FullKey) -> Result<LockInfo, LockError> {
        self.target.reach()?;
        match &self.local {
            Some(local) => Ok(local.look(&key)),
            None => self.ask(|reply| Question::Look(key, reply)).await,
        }
    }

    pub(super) async fn page(&self, pattern: Pattern, from: Place) -> Result<Page, LockError> {
        self.target.reach()?;
        match &self.local {
            Some(local) => Ok(local.page(&self.namespace, &pattern, &from)),
            None => self.ask(|reply| Question::Page(pattern, from, reply)).await,
        }
    }

    pub(super) async fn take_away(&self, key: FullKey) -> Result<LockInfo, LockError> {
        self.target.reach()?;
        match &self.local {
            Some(local) => Ok(local.take_away(&key)),
            None if self.target.waits_for_holders() => self.take_away_apart(key).await,
            None => self.ask(|reply| Question::TakeAway(key, reply)).await,
        }
    }

    /// Takes a lock away on an additional thread. On some stores, this takes some seconds, because
    /// the store waits until the holder's body has ended. On the thread of the other questions, the
    /// wait would delay these questions.
    async fn take_away_apart(&self, key: FullKey) -> Result<LockInfo, LockError> {
        let (reply, answer) = oneshot::channel();
        let started = thread::start(self.target.clone(), self.options.clone())?;
        // If the thread has already ended, the question is dropped, and `answer` ends with an
        // error.
        let _ = started.send(Asked {
            question: Question::TakeAway(key, reply),
            at: Instant::now(),
        });
        drop(started);
        answer.await.unwrap_or_else(|_| Err(thread::ended()))
    }

    async fn ask<T>(
        &self,
        question: impl FnOnce(thread::Reply<T>) -> Question,
    ) -> Result<T, LockError> {
        let (reply, answer) = oneshot::channel();
        self.send(question(reply))?;
        answer.await.unwrap_or_else(|_| Err(thread::ended()))
    }

    /// Sends a question to the thread that inspects the store. Starts the thread if it does not
    /// run.
    fn send(&self, question: Question) -> Result<(), LockError> {
        let mut asked = Asked {
            question,
            at: Instant::now(),
        };
        let mut sender = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = &*sender {
            match running.send(asked) {
                Ok(()) => return Ok(()),
                Err(unsent) => asked = unsent.0,
            }
        }
        let started = thread::start(self.target.clone(), self.options.clone())?;
        // If the thread has already ended, the question is dropped, and the call that waits for an
        // answer gets an error.
        let _ = started.send(asked);
        *sender = Some(started);
        Ok(())
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observer").finish_non_exhaustive()
    }
}
