//! Keeps one connection to a server up, and the requests on it in order.
//!
//! The crate `redis` has supervisors of its own, but a connection that is swallowed without an error is never replaced
//! by them, and after a cut a command can block for many seconds. Here a connection is replaced when it
//! ends, or when a request on it has gone unanswered for its patience; the engine has its own time-outs and never waits for that.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use redis::aio::MultiplexedConnection;
use redis::{Cmd, Pipeline, PushInfo, PushKind, RedisResult, Value};
use tokio::sync::mpsc;
use tokio::time::{Instant, Sleep, sleep};

use super::reply;
use super::scripts;
use super::server::{Link, Server};
use crate::LockError;
use crate::engine::Jitter;
use crate::store::target::Options;
use crate::store::{Failure, LockStore, Op, OpId, Reply, Request, Retry, StoreEvent};

/// Silence shorter than this does not replace a connection, however short the leases: a busy machine is
/// silent for so long now and then.
const LEAST_PATIENCE: Duration = Duration::from_millis(250);

/// The pause after the first failure to connect; it doubles with each.
const FIRST_RETRY: Duration = Duration::from_millis(25);

/// The longest pause in the first seconds of an outage. A lease of 2 s survives an outage of 0.4 of its ttl
/// only if its connection is back within a few hundred milliseconds of the server.
const SHORT_RETRY: Duration = Duration::from_millis(200);

/// The longest pause in a long outage: leases are lost by then, and a server that comes back must not drown
/// in connections.
const LONG_RETRY: Duration = Duration::from_secs(1);
const SHORT_RETRIES: u32 = 30;

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Counts connections.
type Epoch = u64;

/// Locks on one server.
pub(crate) struct RedisStore {
    server: Server,
    fence_key: String,
    io_timeout: Duration,
    line: Option<Line>,
    /// Replaced because they were silent; what they still answer is welcome.
    retired: Vec<Line>,
    /// Attempts to connect. A new one does not wait for an older one that hangs: what begins inside an outage may
    /// hang for its whole time-out after the outage.
    connecting: FuturesUnordered<Boxed<Result<Link, Failure>>>,
    /// When to connect again, if a connection is wanted, or to look whether the present one is silent.
    timer: Pin<Box<Sleep>>,
    reconnect_at: Option<Instant>,
    attempts: u32,
    jitter: Jitter,
    /// Why there is no connection.
    reason: Failure,
    last_epoch: Epoch,
    running: FuturesUnordered<Boxed<Batch>>,
    /// The acquires under way, and where.
    acquires: HashMap<OpId, Epoch>,
    events: VecDeque<StoreEvent>,
    waker: Option<Waker>,
}

/// A connection in use.
struct Line {
    epoch: Epoch,
    connection: MultiplexedConnection,
    pushes: mpsc::UnboundedReceiver<PushInfo>,
    /// When each batch under way, oldest first, will have been unanswered for too long.
    patience: VecDeque<Instant>,
}

/// A request that went out.
struct Sent {
    id: OpId,
    op: Op,
    /// For a removal: whether its acquires went before it on the same connection.
    ordered: bool,
}

impl Sent {
    /// Fills in what the answer does not say.
    fn complete(&self, reply: Reply) -> Reply {
        match reply {
            Reply::Released { found, .. } => Reply::Released {
                found,
                ordered: self.ordered,
            },
            reply => reply,
        }
    }
}

/// Requests that went out as one pipeline, and their answers.
struct Batch {
    epoch: Epoch,
    requests: Vec<Sent>,
    answers: RedisResult<Vec<Value>>,
}

impl Line {
    /// Sends `pipeline` when first polled.
    fn run(&mut self, pipeline: Pipeline, requests: Vec<Sent>, patience: Duration) -> Boxed<Batch> {
        self.patience
            .push_back(Instant::now() + patience.max(LEAST_PATIENCE));
        let epoch = self.epoch;
        let mut connection = self.connection.clone();
        Box::pin(async move {
            let answers = connection
                .send_packed_commands(&pipeline, 0, pipeline.len())
                .await;
            Batch {
                epoch,
                requests,
                answers,
            }
        })
    }
}

impl RedisStore {
    pub(crate) async fn connect(server: Server, options: &Options) -> Result<Self, LockError> {
        let link = server.clone().connect(options.io_timeout).await;
        let link = link.map_err(|failure| failure.error)?;
        let mut store = Self {
            server,
            fence_key: scripts::fence_key(&options.namespace),
            io_timeout: options.io_timeout,
            line: None,
            retired: Vec::new(),
            connecting: FuturesUnordered::new(),
            timer: Box::pin(sleep(Duration::ZERO)),
            reconnect_at: None,
            attempts: 0,
            jitter: Jitter::new(rand::random()),
            reason: disconnected(),
            last_epoch: 0,
            running: FuturesUnordered::new(),
            acquires: HashMap::new(),
            events: VecDeque::new(),
            waker: None,
        };
        store.adopt(link);
        Ok(store)
    }

    /// Uses `link` from now on.
    fn adopt(&mut self, link: Link) {
        self.last_epoch += 1;
        self.attempts = 0;
        self.reconnect_at = None;
        self.connecting = FuturesUnordered::new();
        let fresh = Line {
            epoch: self.last_epoch,
            connection: link.connection,
            pushes: link.pushes,
            patience: VecDeque::new(),
        };
        if let Some(silent) = self.line.replace(fresh) {
            self.retired.push(silent);
        }
    }

    fn send(&mut self, batch: Vec<Request>) {
        let Some(line) = &mut self.line else {
            self.refuse(batch);
            return;
        };
        let epoch = line.epoch;
        let mut patience = self.io_timeout;
        let mut pipeline = Pipeline::with_capacity(batch.len());
        let mut requests = Vec::with_capacity(batch.len());
        let mut stray = Vec::new();
        for request in batch {
            pipeline.add_command(scripts::command(&request.op, &self.fence_key));
            patience = patience.min(request.patience);
            let mut ordered = false;
            match &request.op {
                Op::Acquire { .. } => {
                    self.acquires.insert(request.id, epoch);
                }
                Op::Release { key, token, after } => {
                    let places = || after.iter().map(|open| self.acquires.get(open).copied());
                    ordered = places().all(|place| place == Some(epoch));
                    let elsewhere = places().flatten().find(|place| *place != epoch);
                    stray.extend(elsewhere.map(|place| (place, scripts::release(key, *token))));
                }
                Op::Renew(_) => {}
            }
            requests.push(Sent {
                id: request.id,
                op: request.op,
                ordered,
            });
        }
        self.running.push(line.run(pipeline, requests, patience));
        for (epoch, command) in stray {
            self.send_behind(epoch, command);
        }
    }

    /// Sends a removal on a silent connection as well, behind the acquire that is stuck on it: if the server reads
    /// that some day, it reads both.
    fn send_behind(&mut self, epoch: Epoch, command: Cmd) {
        if let Some(line) = self.retired.iter_mut().find(|line| line.epoch == epoch) {
            let mut pipeline = Pipeline::new();
            pipeline.add_command(command);
            self.running
                .push(line.run(pipeline, Vec::new(), self.io_timeout));
        }
    }

    /// Answers at once that there is no connection.
    fn refuse(&mut self, batch: Vec<Request>) {
        for request in batch {
            let failure = self.reason.clone();
            self.events
                .push_back(StoreEvent::Reply(request.id, Err(failure)));
        }
        self.replace();
    }

    fn answered(&mut self, batch: Batch) {
        let known = self.line_of(batch.epoch);
        if let Some(line) = known {
            line.patience.pop_front();
        }
        match batch.answers {
            Ok(answers) => {
                for (sent, answer) in batch.requests.into_iter().zip(answers) {
                    self.acquires.remove(&sent.id);
                    let result = reply::read(&sent.op, answer).map(|reply| sent.complete(reply));
                    self.after(&result);
                    self.events.push_back(StoreEvent::Reply(sent.id, result));
                }
            }
            Err(error) => {
                let failure = reply::broken(&error);
                for sent in batch.requests {
                    self.acquires.remove(&sent.id);
                    self.events
                        .push_back(StoreEvent::Reply(sent.id, Err(failure.clone())));
                }
                self.lost(batch.epoch, failure);
            }
        }
        self.retired.retain(|line| !line.patience.is_empty());
    }

    fn line_of(&mut self, epoch: Epoch) -> Option<&mut Line> {
        let current = self.line.as_mut().filter(|line| line.epoch == epoch);
        current.or_else(|| self.retired.iter_mut().find(|line| line.epoch == epoch))
    }

    /// What an error of the server means for the connection.
    fn after(&mut self, result: &Result<Reply, Failure>) {
        let Err(failure) = result else {
            return;
        };
        match failure.code() {
            // Set-up loads the scripts again.
            "NOSCRIPT" => self.reload_scripts(),
            // Behind the same name there may be a master by now.
            "READONLY" => self.replace(),
            _ => {}
        }
    }

    fn reload_scripts(&mut self) {
        if let Some(line) = &mut self.line {
            self.running
                .push(line.run(scripts::load(), Vec::new(), self.io_timeout));
        }
    }

    /// A connection has ended.
    fn lost(&mut self, epoch: Epoch, failure: Failure) {
        self.retired.retain(|line| line.epoch != epoch);
        if self.line.as_ref().is_some_and(|line| line.epoch == epoch) {
            self.line = None;
            self.reason = not_sent(failure);
            self.replace();
        }
    }

    /// Gets a new connection, unless that is under way.
    fn replace(&mut self) {
        if self.reconnect_at.is_none() {
            self.reconnect_at = Some(Instant::now());
        }
    }

    /// Starts an attempt to connect and plans the next, which comes if this one fails or hangs.
    fn attempt(&mut self) {
        self.connecting
            .push(Box::pin(self.server.clone().connect(self.io_timeout)));
        let longest = if self.attempts < SHORT_RETRIES {
            SHORT_RETRY
        } else {
            LONG_RETRY
        };
        let pause = FIRST_RETRY
            .saturating_mul(1 << self.attempts.min(10))
            .min(longest);
        self.attempts += 1;
        self.reconnect_at = Some(Instant::now() + self.jitter.around(pause));
    }

    fn connected(&mut self, result: Result<Link, Failure>) {
        match result {
            Ok(link) => {
                tracing::info!(server = %self.server, "connected again");
                self.adopt(link);
                self.events.push_back(StoreEvent::Connected);
            }
            Err(failure) => {
                if self.attempts == 1 {
                    tracing::warn!(server = %self.server, error = %failure.error, "cannot connect; trying again");
                }
                self.reason = not_sent(failure);
            }
        }
    }

    /// Does what is due; whether anything was.
    fn advance(&mut self, cx: &mut Context<'_>) -> bool {
        let mut moved = false;
        while let Poll::Ready(Some(batch)) = self.running.poll_next_unpin(cx) {
            self.answered(batch);
            moved = true;
        }
        if let Some(epoch) = self.poll_ended(cx) {
            self.lost(epoch, disconnected());
            moved = true;
        }
        while let Poll::Ready(Some(result)) = self.connecting.poll_next_unpin(cx) {
            self.connected(result);
            moved = true;
        }
        moved | self.poll_timer(cx)
    }

    fn poll_ended(&mut self, cx: &mut Context<'_>) -> Option<Epoch> {
        let line = self.line.as_mut()?;
        while let Poll::Ready(Some(push)) = line.pushes.poll_recv(cx) {
            if push.kind == PushKind::Disconnection {
                return Some(line.epoch);
            }
        }
        None
    }

    fn poll_timer(&mut self, cx: &mut Context<'_>) -> bool {
        let now = Instant::now();
        let mut moved = false;
        if self.reconnect_at.is_some_and(|at| at <= now) {
            self.attempt();
            moved = true;
        }
        let silent_at = self
            .line
            .as_ref()
            .and_then(|line| line.patience.front().copied());
        if self.reconnect_at.is_none() && silent_at.is_some_and(|at| at <= now) {
            tracing::warn!(server = %self.server, "no answer in time; connecting anew");
            self.replace();
            return true;
        }
        let next = self.reconnect_at.or(silent_at);
        if let Some(next) = next {
            if self.timer.deadline() != next {
                self.timer.as_mut().reset(next);
            }
            moved |= self.timer.as_mut().poll(cx).is_ready();
        }
        moved
    }
}

impl LockStore for RedisStore {
    fn submit(&mut self, batch: Vec<Request>) {
        self.send(batch);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<StoreEvent> {
        while self.events.is_empty() {
            if !self.advance(cx) {
                self.waker = Some(cx.waker().clone());
                return Poll::Pending;
            }
        }
        self.events.pop_front().map_or(Poll::Pending, Poll::Ready)
    }
}

fn disconnected() -> Failure {
    reply::failure(
        "io",
        "the server closed the connection; check that it is up".to_owned(),
        Retry::Later,
        true,
    )
}

/// `failure`, which ended a connection or an attempt to make one, as the answer to a request that never left. The
/// next attempt may find another server, so asking again makes sense, except with credentials that were refused.
fn not_sent(failure: Failure) -> Failure {
    let retry = match failure.code() {
        "NOAUTH" | "WRONGPASS" | "NOPERM" => Retry::Never,
        _ => Retry::Later,
    };
    Failure {
        retry,
        executed: false,
        ..failure
    }
}
