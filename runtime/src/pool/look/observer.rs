//! What looks at a pool's store, apart from the pool's engine.

use std::fmt;
use std::sync::Arc;
#[cfg(feature = "__remote")]
use std::sync::{Mutex, PoisonError};
#[cfg(feature = "__remote")]
use std::time::Instant;

#[cfg(feature = "__remote")]
use tokio::sync::mpsc::UnboundedSender;
#[cfg(feature = "__remote")]
use tokio::sync::oneshot;

#[cfg(feature = "__remote")]
use super::thread::{self, Asked, Question};
use crate::base::full_key::FullKey;
use crate::error::LockError;
use crate::inspect::info::LockInfo;
use crate::inspect::pattern::Pattern;
use crate::store::memory::space::Space;
use crate::store::options::Options;
use crate::store::source::{Page, Place};
use crate::store::target::Target;

/// Looks at the locks of one pool.
///
/// Locks in this process are looked at by the caller. For other stores there is a thread with a
/// runtime of its own, so that it works under every executor. The thread has the connections. It
/// starts with the first question, and ends when it has had none for a while.
pub(crate) struct Observer {
    namespace: String,
    local: Option<Arc<Space>>,
    #[cfg(feature = "__remote")]
    target: Target,
    #[cfg(feature = "__remote")]
    options: Options,
    #[cfg(feature = "__remote")]
    thread: Mutex<Option<UnboundedSender<Asked>>>,
}

impl Observer {
    /// `local` has the locks, if they are in this process.
    #[cfg_attr(
        not(feature = "__remote"),
        expect(
            unused_variables,
            clippy::needless_pass_by_value,
            reason = "there is no store on a server"
        )
    )]
    pub(crate) fn new(target: Target, options: Options, local: Option<Arc<Space>>) -> Self {
        Self {
            namespace: options.namespace.clone(),
            local,
            #[cfg(feature = "__remote")]
            target,
            #[cfg(feature = "__remote")]
            options,
            #[cfg(feature = "__remote")]
            thread: Mutex::new(None),
        }
    }

    #[cfg_attr(
        not(feature = "__remote"),
        expect(clippy::unused_async, reason = "there is no store on a server")
    )]
    pub(super) async fn look(&self, key: FullKey) -> Result<LockInfo, LockError> {
        match &self.local {
            Some(local) => Ok(local.look(&key)),
            #[cfg(feature = "__remote")]
            None => self.ask(|reply| Question::Look(key, reply)).await,
            #[cfg(not(feature = "__remote"))]
            None => Ok(LockInfo::free(key.name())),
        }
    }

    #[cfg_attr(
        not(feature = "__remote"),
        expect(clippy::unused_async, reason = "there is no store on a server")
    )]
    pub(super) async fn page(&self, pattern: Pattern, from: Place) -> Result<Page, LockError> {
        match &self.local {
            Some(local) => Ok(local.page(&self.namespace, &pattern, &from)),
            #[cfg(feature = "__remote")]
            None => self.ask(|reply| Question::Page(pattern, from, reply)).await,
            #[cfg(not(feature = "__remote"))]
            None => Ok(Page::default()),
        }
    }

    #[cfg_attr(
        not(feature = "__remote"),
        expect(clippy::unused_async, reason = "there is no store on a server")
    )]
    pub(super) async fn take_away(&self, key: FullKey) -> Result<LockInfo, LockError> {
        match &self.local {
            Some(local) => Ok(local.take_away(&key)),
            #[cfg(feature = "__remote")]
            None if self.target.has_sessions() => self.take_away_apart(key).await,
            #[cfg(feature = "__remote")]
            None => self.ask(|reply| Question::TakeAway(key, reply)).await,
            #[cfg(not(feature = "__remote"))]
            None => Ok(LockInfo::free(key.name())),
        }
    }

    /// On a thread of its own, because it waits for the holder and other questions come meanwhile.
    #[cfg(feature = "__remote")]
    async fn take_away_apart(&self, key: FullKey) -> Result<LockInfo, LockError> {
        let (reply, answer) = oneshot::channel();
        let started = thread::start(self.target.clone(), self.options.clone())?;
        // A thread that cannot run drops the question.
        let _ = started.send(Asked {
            question: Question::TakeAway(key, reply),
            at: Instant::now(),
        });
        drop(started);
        answer.await.unwrap_or_else(|_| Err(thread::ended()))
    }

    #[cfg(feature = "__remote")]
    async fn ask<T>(
        &self,
        question: impl FnOnce(thread::Reply<T>) -> Question,
    ) -> Result<T, LockError> {
        let (reply, answer) = oneshot::channel();
        self.send(question(reply))?;
        answer.await.unwrap_or_else(|_| Err(thread::ended()))
    }

    /// Gives a question to the thread, which is started if it does not run.
    #[cfg(feature = "__remote")]
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
        // A thread that cannot run drops the question, and its caller is told.
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
