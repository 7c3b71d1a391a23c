//! Packs requests into calls of SQL functions.
//!
//! A call is one transaction. The commit of an acquire waits for the server's disk, but that of
//! most releases does not. So a call never has both, and no release waits for an acquire. Renewals
//! are in separate calls, because a call fails as a whole. Otherwise, an acquire that waits too
//! long for a locked row would fail the renewals, too. Requests on the same key keep their order: a
//! later request goes into the same call or into a later one.

use std::time::Duration;

use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, Row};

use super::functions::{Function, Functions};
use super::values::millis;
use super::{failure, replies, results};
use crate::base::full_key::{FullKey, KeyMap};
use crate::base::token::Token;
use crate::error::LockError;
use crate::owner::Owner;
use crate::store::{Failure, GiveKind, Op, OpId, Reply, Request, Retry, Take, TakeKind};

/// A call with this many keys takes no further request.
pub(super) const MOST: usize = 64;

/// A request in a call.
#[derive(Debug)]
struct Asked {
    id: OpId,
    op: Op,
    /// True if this is a release sent after the acquires that it undoes, on the same connection.
    ordered: bool,
}

/// Requests that are sent together, as one call of an SQL function.
#[derive(Debug)]
pub(super) struct Call {
    work: Work,
    asked: Vec<Asked>,
    /// The shortest `patience` of the requests.
    pub(super) patience: Duration,
}

/// The kind of a call. `TakeLines` and `GiveLines` are the arguments of the SQL function: arrays
/// with an element for each key.
#[derive(Debug)]
enum Work {
    /// Acquires of locks and of shares.
    Take(TakeLines),
    /// Renewals of locks and of shares.
    Keep(TakeLines),
    TakeAll,
    Give(GiveLines),
    /// A single request about a kept result or an adopted lock. See [`results`].
    One,
}

#[derive(Debug, Default)]
struct TakeLines {
    verbs: Vec<&'static str>,
    keys: Vec<FullKey>,
    tokens: Vec<Token>,
    ttls: Vec<i32>,
    numbers: Vec<i32>,
    queues: Vec<bool>,
    owners: Vec<String>,
}

#[derive(Debug, Default)]
struct GiveLines {
    verbs: Vec<&'static str>,
    keys: Vec<FullKey>,
    tokens: Vec<Option<Token>>,
    keeps: Vec<Option<i32>>,
}

/// Packs requests into calls.
#[derive(Debug, Default)]
pub(super) struct Packer {
    calls: Vec<Call>,
    /// For each key, the index of the last call that has a request for it.
    last: KeyMap<usize>,
}

impl Packer {
    /// Adds a request. For a release, `ordered` is true if the acquires that the release undoes are
    /// sent before it, on the same connection.
    pub(super) fn add(&mut self, request: Request, ordered: bool) {
        let Request { id, op, patience } = request;
        let mut first = 0;
        for key in op.keys() {
            first = first.max(self.last.get(key).copied().unwrap_or(0));
        }
        let fits = |call: &Call| call.has_room_for(&op);
        let found = self.calls[first.min(self.calls.len())..].iter();
        let at = found.clone().position(fits).map(|at| first + at);
        let at = at.unwrap_or_else(|| {
            self.calls.push(Call::for_op(&op, patience));
            self.calls.len() - 1
        });
        for key in op.keys() {
            self.last.insert(key.clone(), at);
        }
        self.calls[at].push(Asked { id, op, ordered }, patience);
    }

    /// Returns the calls, in the order in which they must be sent.
    pub(super) fn finish(self) -> Vec<Call> {
        self.calls
    }
}

impl Call {
    fn for_op(op: &Op, patience: Duration) -> Self {
        let work = match op {
            op if results::concern(op) => Work::One,
            Op::Keep { .. } => Work::Keep(TakeLines::default()),
            Op::TakeAll { .. } => Work::TakeAll,
            Op::Give(_) | Op::Leave { .. } => Work::Give(GiveLines::default()),
            _ => Work::Take(TakeLines::default()),
        };
        Self {
            work,
            asked: Vec::new(),
            patience,
        }
    }

    /// True if `op` can go into this call. False for a `TakeAll`, which is always a separate call.
    fn has_room_for(&self, op: &Op) -> bool {
        match (&self.work, op) {
            _ if results::concern(op) => false,
            (Work::Take(take), Op::Take(_)) | (Work::Keep(take), Op::Keep { .. }) => {
                take.keys.len() < MOST
            }
            (Work::Give(give), Op::Give(_) | Op::Leave { .. }) => give.keys.len() < MOST,
            _ => false,
        }
    }

    fn push(&mut self, asked: Asked, patience: Duration) {
        self.patience = self.patience.min(patience);
        match (&mut self.work, &asked.op) {
            (Work::Take(take) | Work::Keep(take), op) => take.push(op),
            (Work::Give(give), op) => give.push(op),
            (Work::TakeAll | Work::One, _) => {}
        }
        self.asked.push(asked);
    }

    /// Sends the call, and returns the rows of its answer.
    pub(super) async fn run(
        &self,
        client: &Client,
        functions: &Functions,
        process: Token,
    ) -> Result<Vec<Row>, Error> {
        match &self.work {
            Work::Take(take) | Work::Keep(take) => take.run(client, functions, process).await,
            Work::Give(give) => give.run(client, functions, process).await,
            Work::TakeAll => self.run_all(client, functions, process).await,
            Work::One => match self.asked.first() {
                Some(one) => results::run(client, functions, &one.op, process).await,
                None => Ok(Vec::new()),
            },
        }
    }

    async fn run_all(
        &self,
        client: &Client,
        functions: &Functions,
        process: Token,
    ) -> Result<Vec<Row>, Error> {
        let Some(Op::TakeAll {
            keys,
            ttl,
            function,
        }) = self.asked.first().map(|asked| &asked.op)
        else {
            return Ok(Vec::new());
        };
        let (keys, tokens): (Vec<_>, Vec<_>) = keys.iter().cloned().unzip();
        let (ttl, owner) = (millis(*ttl), Owner::written(function));
        let arguments: [&(dyn ToSql + Sync); 5] = [&process, &keys, &tokens, &ttl, &owner];
        functions.call(client, Function::TakeAll, &arguments).await
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = OpId> {
        self.asked.iter().map(|asked| asked.id)
    }

    /// Reads the reply to each request from the rows. `listens` is true if the server notifies the
    /// pool when a key is reserved for it.
    pub(super) fn replies(
        self,
        rows: &[Row],
        listens: bool,
    ) -> Vec<(OpId, Result<Reply, Failure>)> {
        let mut rows = rows.iter();
        let mut replies = Vec::with_capacity(self.asked.len());
        for Asked { id, op, ordered } in self.asked {
            let reply = replies::read(&op, ordered, listens, &mut rows);
            replies.push((id, reply.map_err(|error| failure::unread(&error))));
        }
        replies
    }
}

impl TakeLines {
    async fn run(
        &self,
        client: &Client,
        functions: &Functions,
        process: Token,
    ) -> Result<Vec<Row>, Error> {
        let arguments: [&(dyn ToSql + Sync); 8] = [
            &process,
            &self.verbs,
            &self.keys,
            &self.tokens,
            &self.ttls,
            &self.numbers,
            &self.queues,
            &self.owners,
        ];
        functions.call(client, Function::Take, &arguments).await
    }

    fn push(&mut self, op: &Op) {
        match op {
            Op::Take(take) => {
                let (verb, number) = match take.kind {
                    TakeKind::Lock { reserved_fences } => ("acquire", reserved_fences),
                    TakeKind::Share { limit } => ("join", limit),
                    // Cannot occur here: a recall is always a separate call (`Work::One`).
                    TakeKind::Recall => return,
                };
                let Take {
                    key, token, ttl, ..
                } = take;
                self.line(verb, (key, *token, *ttl), number, take.queue, take.function);
            }
            Op::Keep { renewals, shares } => {
                let verb = if *shares { "stay" } else { "renew" };
                for one in renewals {
                    self.line(verb, (&one.key, one.token, one.ttl), 0, false, "");
                }
            }
            _ => {}
        }
    }

    fn line(
        &mut self,
        verb: &'static str,
        (key, token, ttl): (&FullKey, Token, Duration),
        number: u32,
        queues: bool,
        function: &'static str,
    ) {
        self.verbs.push(verb);
        self.keys.push(key.clone());
        self.tokens.push(token);
        self.ttls.push(millis(ttl));
        self.numbers.push(i32::try_from(number).unwrap_or(i32::MAX));
        self.queues.push(queues);
        self.owners.push(Owner::written(function));
    }
}

impl GiveLines {
    async fn run(
        &self,
        client: &Client,
        functions: &Functions,
        process: Token,
    ) -> Result<Vec<Row>, Error> {
        let arguments: [&(dyn ToSql + Sync); 5] =
            [&process, &self.verbs, &self.keys, &self.tokens, &self.keeps];
        functions.call(client, Function::Give, &arguments).await
    }

    fn push(&mut self, op: &Op) {
        let (verb, key, token, keep) = match op {
            Op::Give(give) => {
                let verb = match give.kind {
                    GiveKind::Share => "part",
                    GiveKind::Lock | GiveKind::Record(_) => "release",
                };
                (verb, &give.key, Some(give.token), give.keep.map(millis))
            }
            Op::Leave { key } => ("leave", key, None, None),
            _ => return,
        };
        self.verbs.push(verb);
        self.keys.push(key.clone());
        self.tokens.push(token);
        self.keeps.push(keep);
    }
}

/// Returns a failure if a key of the request contains a NUL character. PostgreSQL would refuse such
/// a key as `text`, and with it all other requests in the same call of an SQL function.
pub(super) fn refusal(op: &Op) -> Option<Failure> {
    let key = op.keys().find(|key| key.contains('\0'))?;
    Some(Failure {
        error: LockError::InvalidKey {
            key: key.name().chars().take(64).collect(),
            reason: "PostgreSQL cannot store keys with a NUL character; leave it out".to_owned(),
        },
        retry: Retry::Never,
        executed: false,
    })
}
