//! Keeps one connection to a server up, and the requests on it in order.
//!
//! The crate `redis` has supervisors of its own, but a connection that is swallowed without an error is never replaced
//! by them, and after a cut a command can block for many seconds. Here a connection is replaced when it
//! ends, or when a request on it has gone unanswered for its patience; the engine has its own time-outs and never waits for that.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use redis::{Cmd, Pipeline, PushKind, Value};
use tokio::time::{Instant, Sleep, sleep};

use super::bundle::{self, Bundle, Packer};
use super::copies::{self, Copies};
use super::info::Info;
use super::line::{Batch, Boxed, Content, Epoch, Line, Sent};
use super::names::Names;
use super::origin::Origin;
use super::scripts;
use super::server::Link;
use super::{checkup, reply};
use crate::counted::CountedMap;
use crate::engine::Jitter;
use crate::store::target::Options;
use crate::store::{Failure, LockStore, Op, OpId, Reply, Request, Retry, StoreEvent};
use crate::{CheckReport, LockError};

/// The pause after the first failure to connect; it doubles with each.
const FIRST_RETRY: Duration = Duration::from_millis(25);

/// The longest pause in the first seconds of an outage. A lease of 2 s survives an outage of 0.4 of its ttl
/// only if its connection is back within a few hundred milliseconds of the server.
const SHORT_RETRY: Duration = Duration::from_millis(200);

/// The longest pause in a long outage: leases are lost by then, and a server that comes back must not drown
/// in connections.
const LONG_RETRY: Duration = Duration::from_secs(1);
const SHORT_RETRIES: u32 = 30;

/// How long an attempt to connect again may take, however long requests may.
const LONGEST_ATTEMPT: Duration = Duration::from_secs(5);

/// While an attempt hangs, the next begins after a quarter of an attempt's time, within these bounds: soon enough to
/// find a server that is back, and never more than a handful at once.
const OVERLAP: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(1));

/// Locks on one server.
pub(crate) struct RedisStore {
    origin: Origin,
    names: Arc<Names>,
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
    last_attempt: Instant,
    /// Attempts to connect since the server last did what it was asked.
    attempts: u32,
    /// Whether requests have been refused or unanswered for want of a connection.
    out: bool,
    jitter: Jitter,
    /// Why there is no connection.
    reason: Failure,
    last_epoch: Epoch,
    running: FuturesUnordered<Boxed<Batch>>,
    /// The acquires under way, and where; and those that did not count but may have been carried out.
    acquires: CountedMap<OpId, Epoch>,
    /// Replicas that must confirm what is written.
    copies: Option<Copies>,
    /// The connection that waits for replicas now.
    waiting: Option<Epoch>,
    /// What came meanwhile.
    held_back: Vec<Request>,
    events: VecDeque<StoreEvent>,
    waker: Option<Waker>,
}

impl RedisStore {
    pub(crate) async fn connect(
        origin: impl Into<Origin>,
        options: &Options,
    ) -> Result<Self, LockError> {
        let (store, connected) = Self::start(origin.into(), options).await;
        connected.map_err(|failure| failure.error)?;
        Ok(store)
    }

    /// Connects; a store that could not goes on trying, and answers until then that it has no connection.
    pub(crate) async fn start(origin: Origin, options: &Options) -> (Self, Result<(), Failure>) {
        let names = Arc::new(Names::new(&options.namespace));
        let link = reach(origin.clone(), Arc::clone(&names), options.io_timeout).await;
        let mut store = Self::unconnected(origin, names, options);
        let connected = match link {
            Ok(mut link) => {
                let (origin, names) = (&store.origin, &store.names);
                // Without an answer there is nothing to say: the first call will tell.
                if let Ok(report) = checkup::examine(&mut link, origin, names, options).await {
                    report.log();
                }
                store.adopt(link);
                Ok(())
            }
            Err(failure) => {
                store.out = true;
                store.attempts = 1;
                store.reason = not_sent(failure.clone());
                store.replace();
                Err(failure)
            }
        };
        (store, connected)
    }

    fn unconnected(origin: Origin, names: Arc<Names>, options: &Options) -> Self {
        Self {
            origin,
            names,
            io_timeout: options.io_timeout,
            line: None,
            retired: Vec::new(),
            connecting: FuturesUnordered::new(),
            timer: Box::pin(sleep(Duration::ZERO)),
            reconnect_at: None,
            last_attempt: Instant::now(),
            attempts: 0,
            out: false,
            jitter: Jitter::new(rand::random()),
            reason: disconnected(),
            last_epoch: 0,
            running: FuturesUnordered::new(),
            acquires: CountedMap::default(),
            copies: Copies::new(options),
            waiting: None,
            held_back: Vec::new(),
            events: VecDeque::new(),
            waker: None,
        }
    }

    /// The present connection's number, and what the server at its other end said of itself. That is the same process as long
    /// as the connection lasts.
    pub(crate) fn peer(&self) -> Option<(Epoch, Option<&Info>)> {
        let line = self.line.as_ref()?;
        Some((line.epoch, line.info.as_ref()))
    }

    /// Looks at the server over a connection of its own.
    pub(crate) async fn check(origin: Origin, options: &Options) -> Result<CheckReport, LockError> {
        let names = Arc::new(Names::new(&options.namespace));
        let link = reach(origin.clone(), Arc::clone(&names), options.io_timeout).await;
        let examined = match link {
            Ok(mut link) => checkup::examine(&mut link, &origin, &names, options).await,
            Err(failure) => Err(failure),
        };
        examined.map_err(|failure| failure.error)
    }

    /// Uses `link` from now on.
    fn adopt(&mut self, link: Link) {
        self.last_epoch += 1;
        self.reconnect_at = None;
        self.connecting = FuturesUnordered::new();
        if let Some(copies) = &self.copies {
            copies.connected(link.role);
        }
        let fresh = Line::new(self.last_epoch, link, self.io_timeout);
        if let Some(silent) = self.line.replace(fresh) {
            self.retired.push(silent);
        }
        if std::mem::take(&mut self.out) {
            tracing::info!(server = %self.origin, "connected again");
            self.events.push_back(StoreEvent::Connected);
        }
        let alive = |epoch| {
            let mut lines = self.line.iter().chain(&self.retired);
            lines.any(|line| line.epoch == epoch)
        };
        self.acquires.retain(|_, epoch| alive(*epoch));
        self.send_held_back();
    }

    fn send(&mut self, batch: Vec<Request>) {
        let Some(line) = &mut self.line else {
            self.refuse(batch);
            return;
        };
        let (epoch, listening) = (line.epoch, line.listening);
        if self.waiting == Some(epoch) {
            self.held_back.extend(batch);
            return;
        }
        let mut patience = self.io_timeout;
        let mut packer = Packer::new(bundle::MOST);
        let mut concerns_copies = false;
        let mut stray = Vec::new();
        for request in batch {
            concerns_copies |= Copies::concern(&request.op);
            patience = patience.min(request.patience);
            let mut ordered = false;
            match &request.op {
                Op::Acquire { .. } | Op::Join { .. } => {
                    self.acquires.insert(request.id, epoch);
                }
                Op::Release { after, .. } | Op::Part { after, .. } => {
                    let places = || after.iter().map(|open| self.acquires.get(open).copied());
                    ordered = places().all(|place| place == Some(epoch));
                    let elsewhere = places().flatten().find(|place| *place != epoch);
                    let again =
                        |place| (place, scripts::command(&request.op, &self.names, listening));
                    stray.extend(elsewhere.map(again));
                }
                Op::Renew(_) | Op::Stay(_) | Op::Leave { .. } => {}
            }
            packer.add(Sent {
                id: request.id,
                op: request.op,
                ordered,
                listening,
            });
        }
        let bundles = packer.finish();
        let mut pipeline = Pipeline::with_capacity(bundles.len() + 1);
        for bundle in &bundles {
            let ops: Vec<_> = bundle.iter().map(|sent| &sent.op).collect();
            pipeline.add_command(scripts::together(&ops, &self.names, listening));
        }
        if let Some(copies) = self.copies.as_ref().filter(|_| concerns_copies) {
            pipeline.add_command(copies.command(patience));
            self.waiting = Some(epoch);
        }
        let content = Content::Requests(bundles);
        self.running.push(line.run(pipeline, content, patience));
        for (epoch, command) in stray {
            self.send_behind(epoch, command);
        }
    }

    /// Sends what waited for the connection, if nothing holds it up any more.
    fn send_held_back(&mut self) {
        if !self.held_back.is_empty() {
            let batch = std::mem::take(&mut self.held_back);
            self.send(batch);
        }
    }

    /// Sends a removal on a silent connection as well, behind the acquire that is stuck on it: if the server reads
    /// that some day, it reads both.
    fn send_behind(&mut self, epoch: Epoch, command: Cmd) {
        if let Some(line) = self.retired.iter_mut().find(|line| line.epoch == epoch) {
            self.running.push(line.send(command, self.io_timeout));
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
        if let Some(line) = self.line_of(batch.epoch) {
            line.answered(&batch);
        }
        if self.waiting == Some(batch.epoch) && matches!(batch.content, Content::Requests(_)) {
            self.waiting = None;
        }
        match (batch.content, batch.answers) {
            (Content::Requests(bundles), Ok(answers)) => {
                self.requests_answered(bundles, answers);
            }
            (Content::Scripts, Ok(answers)) => self.scripts_loaded(batch.epoch, answers),
            (Content::Other, Ok(_)) => {}
            (content, Err(error)) => {
                let failure = reply::broken(&error);
                if let Content::Requests(bundles) = content {
                    for sent in bundles.into_iter().flatten() {
                        self.reply(sent.id, Err(failure.clone()));
                    }
                }
                self.lost(batch.epoch, failure);
            }
        }
        self.retired.retain(|line| !line.is_quiet());
        self.send_held_back();
    }

    fn requests_answered(&mut self, bundles: Vec<Bundle>, mut answers: Vec<Value>) {
        // First of all, as what is sent now can still see which acquires went before it on this connection.
        self.send_held_back();
        // Behind the requests' answers there is that of the replicas, if they were asked.
        let copies = answers.drain(bundles.len().min(answers.len())..).next();
        let mut requests = bundles.iter().flatten();
        let verdict = match &self.copies {
            Some(judge) if requests.any(|sent| Copies::concern(&sent.op)) => judge.judge(copies),
            _ => Ok(()),
        };
        for (bundle, answer) in bundles.into_iter().zip(answers) {
            self.bundle_answered(bundle, answer, &verdict);
        }
    }

    fn bundle_answered(&mut self, bundle: Bundle, answer: Value, verdict: &Result<(), Failure>) {
        let ops: Vec<_> = bundle.iter().map(|sent| &sent.op).collect();
        let replies = reply::read_all(&ops, answer);
        for (sent, reply) in bundle.into_iter().zip(replies) {
            let result = reply
                .map(|reply| sent.complete(reply))
                .and_then(|reply| copies::counted(reply, verdict));
            self.after(&result);
            if let (Op::Release { after, .. } | Op::Part { after, .. }, Ok(_)) = (&sent.op, &result)
            {
                for settled in after {
                    self.acquires.remove(settled);
                }
            }
            self.reply(sent.id, result);
        }
    }

    fn reply(&mut self, id: OpId, result: Result<Reply, Failure>) {
        // An acquire that was carried out and does not count stays known, so that its removal can be seen to go behind it.
        if !matches!(&result, Err(failure) if failure.executed) {
            self.acquires.remove(&id);
        }
        self.events.push_back(StoreEvent::Reply(id, result));
    }

    /// A server that refuses the scripts is of no use: connecting anew finds another one, or the reason.
    fn scripts_loaded(&mut self, epoch: Epoch, answers: Vec<Value>) {
        if let Err(failure) = scripts::check_loaded(answers) {
            self.lost(epoch, failure);
        }
    }

    fn line_of(&mut self, epoch: Epoch) -> Option<&mut Line> {
        let current = self.line.as_mut().filter(|line| line.epoch == epoch);
        current.or_else(|| self.retired.iter_mut().find(|line| line.epoch == epoch))
    }

    /// What an answer means for the connection.
    fn after(&mut self, result: &Result<Reply, Failure>) {
        let Err(failure) = result else {
            self.attempts = 0;
            return;
        };
        match failure.code() {
            "NOSCRIPT" => {
                let load = self
                    .line
                    .as_mut()
                    .and_then(|line| line.load_scripts(self.io_timeout));
                self.running.extend(load);
            }
            // Behind the same name there may be a master by now.
            "READONLY" => self.replace(),
            _ => {}
        }
    }

    /// A connection has ended.
    fn lost(&mut self, epoch: Epoch, failure: Failure) {
        self.retired.retain(|line| line.epoch != epoch);
        if self.line.as_ref().is_some_and(|line| line.epoch == epoch) {
            self.line = None;
            self.out = true;
            self.reason = not_sent(failure);
            self.replace();
            self.send_held_back();
        }
    }

    /// Gets a new connection, unless that is under way: at once, but after a pause if the last ones were of no use.
    fn replace(&mut self) {
        if self.reconnect_at.is_none() {
            let pause = if self.attempts == 0 {
                Duration::ZERO
            } else {
                self.pause()
            };
            self.reconnect_at = Some(Instant::now() + pause);
        }
    }

    /// Starts an attempt to connect and plans the next, which comes if this one fails or hangs.
    fn attempt(&mut self) {
        let now = Instant::now();
        let limit = self.io_timeout.min(LONGEST_ATTEMPT);
        let next = self.last_attempt + (limit / 4).clamp(OVERLAP.0, OVERLAP.1);
        if !self.connecting.is_empty() && now < next {
            self.reconnect_at = Some(next);
            return;
        }
        let pause = self.pause();
        self.reconnect_at = Some(now + pause);
        self.last_attempt = now;
        self.attempts = self.attempts.saturating_add(1);
        let (origin, names) = (self.origin.clone(), Arc::clone(&self.names));
        self.connecting.push(Box::pin(reach(origin, names, limit)));
    }

    fn pause(&mut self) -> Duration {
        let longest = if self.attempts < SHORT_RETRIES {
            SHORT_RETRY
        } else {
            LONG_RETRY
        };
        let pause = FIRST_RETRY.saturating_mul(1 << self.attempts.min(10));
        self.jitter.around(pause.min(longest))
    }

    fn connected(&mut self, result: Result<Link, Failure>) {
        match result {
            Ok(link) => self.adopt(link),
            Err(failure) => {
                if self.attempts == 1 {
                    tracing::warn!(server = %self.origin, error = %failure.error, "cannot connect; trying again");
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
        if let Some(epoch) = self.poll_pushes(cx) {
            self.lost(epoch, disconnected());
            moved = true;
        }
        while let Poll::Ready(Some(result)) = self.connecting.poll_next_unpin(cx) {
            self.connected(result);
            moved = true;
        }
        moved | self.poll_timer(cx)
    }

    /// Takes what the server sent unasked; the connection whose end it was.
    fn poll_pushes(&mut self, cx: &mut Context<'_>) -> Option<Epoch> {
        let line = self.line.as_mut()?;
        while let Poll::Ready(Some(push)) = line.pushes.poll_recv(cx) {
            if push.kind == PushKind::Disconnection {
                return Some(line.epoch);
            }
            self.events.extend(reply::message(&push));
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
        let (silent_at, idle_at) = match &self.line {
            Some(line) => (line.silent_at(), line.idle_at()),
            None => (None, None),
        };
        if self.reconnect_at.is_none() && silent_at.is_some_and(|at| at <= now) {
            tracing::warn!(server = %self.origin, "no answer in time; connecting anew");
            self.out = true;
            self.replace();
            return true;
        }
        if idle_at.is_some_and(|at| at <= now) {
            let ping = self.line.as_mut().map(|line| line.ping(self.io_timeout));
            self.running.extend(ping);
            return true;
        }
        if let Some(next) = self.reconnect_at.or(silent_at).or(idle_at) {
            // An earlier one is left as it is: to move a timer costs more than to wake once for nothing.
            if next < self.timer.deadline() || self.timer.is_elapsed() {
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
            if !self.advance(cx) && self.events.is_empty() {
                self.waker = Some(cx.waker().clone());
                return Poll::Pending;
            }
        }
        self.events.pop_front().map_or(Poll::Pending, Poll::Ready)
    }
}

/// A connection that listens for this process's turns, if the server lets it.
async fn reach(origin: Origin, names: Arc<Names>, limit: Duration) -> Result<Link, Failure> {
    let mut link = origin.connect(limit).await?;
    link.listen(&names.channel(), limit).await;
    Ok(link)
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
