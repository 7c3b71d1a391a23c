//! The thread that inspects a store on a server.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::time::{timeout, timeout_at};

use crate::base::full_key::FullKey;
use crate::base::io_text::{io_text, thread_text};
use crate::error::{LockError, StoreError};
use crate::inspect::info::LockInfo;
use crate::inspect::pattern::Pattern;
use crate::store::backend::Target;
use crate::store::options::Options;
use crate::store::source::{Page, Place, Source};

/// Time without a question after which the thread closes its connections and ends.
const IDLE: Duration = Duration::from_secs(10);

/// Maximum time until an answer, in multiples of `io_timeout`. These are one to find the server
/// (Sentinel, cluster), one to connect, and one for the request.
const STEPS: u32 = 3;

/// The channel for the answer to a question.
pub(super) type Reply<T> = oneshot::Sender<Result<T, LockError>>;

/// A question to the thread.
pub(super) enum Question {
    Look(FullKey, Reply<LockInfo>),
    Page(Pattern, Place, Reply<Page>),
    TakeAway(FullKey, Reply<LockInfo>),
}

/// A question, and the time at which it was asked. The time limit of the answer starts at this
/// time, even if the thread answers other questions first.
pub(super) struct Asked {
    pub(super) question: Question,
    pub(super) at: Instant,
}

/// Starts a thread that answers questions. The thread ends after `IDLE` without a question, or when
/// the returned sender is dropped.
pub(super) fn start(target: Target, options: Options) -> Result<UnboundedSender<Asked>, LockError> {
    let (sender, questions) = unbounded_channel();
    let body = move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        match runtime {
            Ok(runtime) => {
                let limit = options.io_timeout * STEPS;
                runtime.block_on(answer_all(target.source(options), questions, limit));
            }
            Err(error) => refuse_all(questions, &error),
        }
    };
    std::thread::Builder::new()
        .name("leasehold-look".to_owned())
        .spawn(body)
        .map_err(|error| {
            LockError::config(format!(
                "the thread that inspects locks could not start: {}",
                thread_text(&error)
            ))
        })?;
    Ok(sender)
}

/// Answers each question with an error. Used if the thread could not create a runtime, for example
/// because the process cannot open more files.
fn refuse_all(mut questions: UnboundedReceiver<Asked>, error: &io::Error) {
    let refused = unavailable(
        "io",
        &format!("the locks cannot be inspected: {}", io_text(error)),
    );
    while let Some(asked) = questions.blocking_recv() {
        // Later sends then fail, so the observer starts a new thread for later questions.
        questions.close();
        asked.refuse(refused.clone());
    }
}

/// Answers one question after the other, until there is none for `IDLE`, or the observer has
/// dropped the sender.
async fn answer_all(
    source: Result<Box<dyn Source>, LockError>,
    mut questions: UnboundedReceiver<Asked>,
    limit: Duration,
) {
    let mut source = source;
    loop {
        match timeout(IDLE, questions.recv()).await {
            Ok(Some(asked)) => asked.answer(&mut source, limit).await,
            Ok(None) => return,
            Err(_) => break,
        }
    }
    // Later sends then fail, so the observer starts a new thread for later questions.
    questions.close();
    while let Some(asked) = questions.recv().await {
        asked.answer(&mut source, limit).await;
    }
}

impl Asked {
    fn refuse(self, error: LockError) {
        // If the caller has stopped waiting, `send` fails, which does not matter.
        match self.question {
            Question::Look(_, reply) | Question::TakeAway(_, reply) => {
                let _ = reply.send(Err(error));
            }
            Question::Page(_, _, reply) => {
                let _ = reply.send(Err(error));
            }
        }
    }

    async fn answer(self, source: &mut Result<Box<dyn Source>, LockError>, limit: Duration) {
        let until = self.at + limit;
        match self.question {
            Question::Look(key, reply) => {
                reply_with(reply, source, until, |source| source.look(&key)).await;
            }
            Question::Page(pattern, place, reply) => {
                reply_with(reply, source, until, |source| source.page(&pattern, place)).await;
            }
            Question::TakeAway(key, reply) => {
                let grace = source
                    .as_ref()
                    .map_or(Duration::ZERO, |source| source.grace());
                let until = until + grace;
                reply_with(reply, source, until, |source| source.take_away(&key)).await;
            }
        }
    }
}

/// Answers a question with the result of `ask`, or with an error if there is no result at `until`.
/// Does not call `ask` if the caller no longer waits for the answer.
async fn reply_with<'a, T>(
    reply: Reply<T>,
    source: &'a mut Result<Box<dyn Source>, LockError>,
    until: Instant,
    ask: impl FnOnce(
        &'a mut dyn Source,
    ) -> Pin<Box<dyn Future<Output = Result<T, LockError>> + Send + 'a>>,
) {
    if reply.is_closed() {
        return;
    }
    let answer = match source {
        Ok(source) => timeout_at(until.into(), ask(source.as_mut()))
            .await
            .unwrap_or_else(|_| Err(late())),
        Err(error) => Err(error.clone()),
    };
    // If the caller has stopped waiting, `send` fails, which does not matter.
    let _ = reply.send(answer);
}

fn late() -> LockError {
    unavailable(
        "timeout",
        "the store did not answer in time; check that it is up and reachable",
    )
}

/// Returns the error for a thread that ended without an answer.
pub(super) fn ended() -> LockError {
    unavailable(
        "stopped",
        "the thread that inspects locks ended without an answer",
    )
}

fn unavailable(code: &'static str, text: &str) -> LockError {
    LockError::Unavailable {
        source: StoreError::new(code, text),
    }
}
