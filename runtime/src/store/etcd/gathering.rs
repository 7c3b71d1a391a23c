//! Sends several requests of one session in one transaction. Requests gather while [`ENOUGH`]
//! transactions have no answer.
//!
//! Most of the cost of a transaction does not depend on its size: one write to the server's disk,
//! and most of the CPU time. A transaction may contain other transactions as operations, each with
//! its own condition. The server reads all conditions before it changes anything, so two requests
//! for one lock could both find it free. Therefore, a transaction has at most one request for each
//! directory.

use std::collections::HashSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::client::Client;
use super::connection::LEAST_PATIENCE;
use super::epoch::Epoch;
use super::failure;
use super::messages::{Operation, Response, TxnResponse};
use crate::base::seeded::seeded;
use crate::store::session::service::Answer;

/// Requests gather while this many transactions have no answer. With two, the server can work on
/// the next transaction while an answer is on its way.
const ENOUGH: usize = 2;

/// Time after which an unanswered transaction no longer holds further requests back, because its
/// connection may be dead.
const SLOW: Duration = Duration::from_secs(1);

/// Maximum number of requests in one transaction. The server accepts 128 operations.
const MOST: usize = 64;

/// Maximum number of tries for a transaction. A try fails if the session's epoch has changed.
const TRIES: usize = 8;

/// A request for one directory, with the channel for its answer.
pub(super) struct Asked {
    pub(super) directory: String,
    pub(super) operation: Operation,
    pub(super) patience: Duration,
    pub(super) answer: oneshot::Sender<Answer<Response>>,
}

/// Handle of the task that sends the requests of a session.
pub(super) struct Gathering {
    asked: UnboundedSender<Asked>,
}

impl Gathering {
    /// Starts a task that sends requests until this value is dropped. Must be called in the runtime
    /// that requests run on.
    pub(super) fn begin(client: Arc<Client>, epoch: Arc<Epoch>) -> Self {
        let (sender, asked) = unbounded_channel();
        tokio::spawn(carry(client, epoch, asked));
        Self { asked: sender }
    }

    /// Carries out `operation`, which must change only keys of `directory`. After a time-out, the
    /// server may still carry it out, until the session is sealed (see `epoch.rs`).
    pub(super) async fn ask(
        &self,
        directory: String,
        operation: Operation,
        patience: Duration,
    ) -> Answer<Response> {
        let (sender, answer) = oneshot::channel();
        // This failure states that the request may have been carried out, or may still be.
        let silent = || Err(failure::silent().into());
        let asked = Asked {
            directory,
            operation,
            patience,
            answer: sender,
        };
        if self.asked.send(asked).is_err() {
            return silent();
        }
        match timeout(patience.max(LEAST_PATIENCE), answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) | Err(_) => silent(),
        }
    }
}

async fn carry(client: Arc<Client>, epoch: Arc<Epoch>, mut asked: UnboundedReceiver<Asked>) {
    let mut waiting = Vec::new();
    let mut under_way = FuturesUnordered::new();
    loop {
        if !waiting.is_empty() && (under_way.len() < ENOUGH || seeded!(CallsPileUp)) {
            let requests = next_of(&mut waiting);
            let carrying = together(Arc::clone(&client), Arc::clone(&epoch), requests);
            under_way.push(timeout(SLOW, tokio::spawn(carrying)));
        }
        let more = asked.recv_many(&mut waiting, MOST);
        if under_way.is_empty() {
            if more.await == 0 {
                return;
            }
        } else if let Either::Left((0, _)) = select(pin!(more), under_way.next()).await {
            return;
        }
    }
}

/// Removes the requests of the next transaction from `waiting`.
fn next_of(waiting: &mut Vec<Asked>) -> Vec<Asked> {
    // Given-up requests are not sent.
    waiting.retain(|asked| !asked.answer.is_closed());
    let most = if seeded!(CallsPileUp) { 1 } else { MOST };
    let mut directories = HashSet::new();
    let (mut leaving, mut staying) = (Vec::new(), Vec::new());
    for asked in waiting.drain(..) {
        if leaving.len() < most && directories.insert(asked.directory.clone()) {
            leaving.push(asked);
        } else {
            staying.push(asked);
        }
    }
    *waiting = staying;
    leaving
}

/// Carries out the requests in one transaction, and sends their answers.
pub(super) async fn together(client: Arc<Client>, epoch: Arc<Epoch>, requests: Vec<Asked>) {
    let Some((requests, answers)) = unsealed(&client, &epoch, requests).await else {
        return;
    };
    match answers {
        Ok(answers) => {
            for (asked, answer) in requests.into_iter().zip(answers) {
                // `send` fails if the request was given up.
                let _ = asked.answer.send(Ok(answer));
            }
        }
        Err(trouble) => {
            for asked in requests {
                let _ = asked.answer.send(Err(trouble.clone()));
            }
        }
    }
}

/// Carries out the requests. If the session was sealed, tries again with the new epoch. Returns the
/// requests with their answers, or `None` if all requests were given up.
///
/// A given-up request is not sent again with the new epoch. For its caller, the seal has ended this
/// request, so the name of its node may already belong to another node.
async fn unsealed(
    client: &Arc<Client>,
    epoch: &Epoch,
    mut requests: Vec<Asked>,
) -> Option<(Vec<Asked>, Answer<Vec<Response>>)> {
    for _ in 0..TRIES {
        // The epoch is read before the given-up requests are removed. If a request is given up
        // later, the removal of its node seals the session. The server then refuses this
        // transaction, because its epoch is outdated.
        let now = epoch.now();
        requests.retain(|asked| !asked.answer.is_closed() || seeded!(GivenUpSentAgain));
        let patience = requests.iter().map(|asked| asked.patience).max()?;
        let operations = requests.iter().map(|asked| asked.operation.clone());
        let request = epoch.unsealed_since(now, operations.collect());
        let answer = match client.txn(request, patience).await {
            Ok(answer) => answer,
            Err(trouble) => return Some((requests, Err(trouble))),
        };
        if answer.succeeded {
            let responses = all(answer).filter(|responses| responses.len() == requests.len());
            let responses = responses.ok_or_else(|| failure::garbled().into());
            return Some((requests, responses));
        }
        if let Err(trouble) = epoch.learn(&answer) {
            return Some((requests, Err(trouble)));
        }
    }
    Some((requests, Err(failure::unsettled().into())))
}

fn all(answer: TxnResponse) -> Option<Vec<Response>> {
    let responses = answer.responses.into_iter();
    responses.map(|outcome| outcome.response).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::etcd::messages::DeleteRequest;

    fn asked(directory: &str) -> (Asked, oneshot::Receiver<Answer<Response>>) {
        let (answer, receiver) = oneshot::channel();
        let deletion = DeleteRequest {
            key: directory.into(),
            range_end: Vec::new(),
        };
        let asked = Asked {
            directory: directory.to_owned(),
            operation: deletion.into(),
            patience: Duration::ZERO,
            answer,
        };
        (asked, receiver)
    }

    fn leave(waiting: &mut Vec<Asked>) -> Vec<String> {
        let leaving = next_of(waiting).into_iter();
        leaving.map(|asked| asked.directory).collect()
    }

    /// Fails if two requests for one lock are sent in one transaction. Both requests could then
    /// find the lock free.
    #[test]
    fn a_transaction_has_one_request_for_each_directory() {
        let names = ["a", "b", "a", "c", "a"];
        let (mut waiting, answers): (Vec<_>, Vec<_>) = names.into_iter().map(asked).unzip();
        assert_eq!(leave(&mut waiting), ["a", "b", "c"]);
        assert_eq!(leave(&mut waiting), ["a"]);
        drop(answers);
        assert!(leave(&mut waiting).is_empty(), "it was given up");
        assert!(waiting.is_empty());
    }

    #[test]
    fn a_transaction_stays_within_the_server_limit() {
        let names: Vec<_> = (0..MOST + 3).map(|name| name.to_string()).collect();
        let asked = names.iter().map(|name| asked(name));
        let (mut waiting, _answers): (Vec<_>, Vec<_>) = asked.unzip();
        assert_eq!(leave(&mut waiting), names[..MOST]);
        assert_eq!(leave(&mut waiting), names[MOST..]);
    }
}
