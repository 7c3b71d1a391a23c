//! Keeps one connection to a server open, and the requests on it in order.
//!
//! Requests gather while [`ENOUGH`] SQL calls have no answer, and are then sent together. So the
//! slower the server, the more requests share an SQL call. The engine also collects requests, but
//! for 20 ms at most: with that alone, a slow server got one request per call, and stayed slow.

use std::collections::{HashSet, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::time::{Instant, Sleep, sleep};

use super::address::Address;
use super::calls::{self, Packer};
use super::connection::{self, Connection, Content, Exchange, Generation, Opened};
use super::dial::Boxed;
use super::turns::Listener;
use super::{check, failure};
use crate::base::jitter::Jitter;
use crate::base::reporter;
use crate::base::seeded::seeded;
use crate::base::token::{Nonce, Token};
use crate::check_report::CheckReport;
use crate::error::LockError;
use crate::store::link::{self, supervisor::Supervisor};
use crate::store::options::Options;
use crate::store::socket::Announced;
use crate::store::{Failure, Op, OpId, Reply, Request, Retry, Socket as _, StoreEvent};

mod interface;

/// Mean interval between removals of idle rows. A removal also shows that the connection works.
const SWEEP: Duration = Duration::from_secs(20);

/// Pause before the next removal of idle rows, if there may be more of them.
const SWEEP_ON: Duration = Duration::from_millis(50);

/// Requests gather while this many SQL calls, each with several requests, have no answer. With two,
/// the server can work on one call while the answer of the other is on its way.
const ENOUGH: usize = 2;

/// After an SQL call has waited too long for a locked row, calls skip locked rows for this time.
/// Otherwise, one such row would fail all requests of each call, and delay the calls after it.
const SKIPPING: Duration = Duration::from_secs(1);

/// A request that waits to be sent.
struct Gathered {
    request: Request,
    /// True if this is a release, and all acquires that it undoes precede it on the connection. Set
    /// when the engine submits the release, because `acquires` forgets each answered acquire.
    ordered: bool,
}

/// Locks in one database.
pub(crate) struct PostgresStore {
    address: Arc<Address>,
    /// Identifies the pool in the tables.
    process: Token,
    io_timeout: Duration,
    connection: Option<Connection>,
    /// A new connection, which replaces the present one once no SQL call runs on that one.
    successor: Option<Opened>,
    supervisor: Supervisor<Opened>,
    /// The separate connection for notifications, if there is one.
    listener: Option<Listener>,
    sweep_at: Instant,
    /// Fires when the next work is due, such as the removal of idle rows or a new connection.
    timer: Pin<Box<Sleep>>,
    /// Timer with which `has_looked_after` waits until tokio has polled the sockets again: tokio
    /// does that before a timer fires.
    looked: Pin<Box<Sleep>>,
    jitter: Jitter,
    last_generation: Generation,
    running: FuturesUnordered<Boxed<Exchange>>,
    /// The unanswered acquires of the present connection, sent or still waiting to be sent.
    acquires: HashSet<OpId>,
    gathered: Vec<Gathered>,
    /// SQL calls sent before this time skip rows that other transactions have locked.
    skips_until: Option<Instant>,
    /// True if a request was submitted since the last poll.
    unsent: bool,
    events: VecDeque<StoreEvent>,
    announced: Announced,
}

impl PostgresStore {
    pub(crate) async fn connect(address: Address, options: &Options) -> Result<Self, LockError> {
        if address.migrates() {
            let migrated = connection::migrate(&address, options.io_timeout).await;
            migrated.map_err(|failure| failure.error)?;
        }
        let (address, process) = (Arc::new(address), Token::random(Nonce::new()));
        let opening = connection::open(Arc::clone(&address), Some(process), options.io_timeout);
        let mut opened = opening.await.map_err(|failure| failure.error)?;
        // If the check itself fails, nothing is logged: the first call will report the cause.
        if let Ok(report) = check::examine(&mut opened, &address, options).await {
            report.log();
        }
        let listener = Listener::of(&address, process, options.io_timeout);
        let reason = failure::not_sent(failure::ended());
        let mut store = Self {
            supervisor: Supervisor::new(address.to_string(), options.io_timeout, reason),
            address,
            process,
            listener,
            io_timeout: options.io_timeout,
            connection: None,
            successor: None,
            sweep_at: Instant::now(),
            timer: Box::pin(sleep(Duration::ZERO)),
            looked: Box::pin(sleep(Duration::ZERO)),
            jitter: Jitter::new(rand::random()),
            last_generation: 0,
            running: FuturesUnordered::new(),
            acquires: HashSet::new(),
            gathered: Vec::new(),
            skips_until: None,
            unsent: false,
            events: VecDeque::new(),
            announced: Announced::default(),
        };
        store.sweep_later();
        store.adopt(opened);
        Ok(store)
    }

    /// Checks the server over a separate connection.
    pub(crate) async fn check(
        address: Address,
        options: &Options,
    ) -> Result<CheckReport, LockError> {
        let (address, process) = (Arc::new(address), Token::random(Nonce::new()));
        let opening = connection::open(Arc::clone(&address), Some(process), options.io_timeout);
        let examined = match opening.await {
            Ok(mut opened) => check::examine_all(&mut opened, &address, options).await,
            Err(failure) => return check::unreachable(&address, failure),
        };
        examined.map_err(|failure| failure.error)
    }

    fn sweep_later(&mut self) {
        self.sweep_at = Instant::now() + self.jitter.around(SWEEP);
    }

    /// True if the gathered requests can be sent now, or must be refused for lack of a connection.
    fn may_send(&self) -> bool {
        let is_free = self.running.len() < ENOUGH || seeded!(CallsPileUp);
        self.connection.is_none() || (is_free && self.successor.is_none())
    }

    /// Keeps a request until [`advance`](Self::advance) may send it, or refuses an invalid key.
    fn gather(&mut self, request: Request) {
        if let Some(refusal) = calls::refusal(&request.op) {
            let event = StoreEvent::Reply(request.id, Err(refusal));
            self.events.push_back(event);
            return;
        }
        let mut ordered = false;
        match &request.op {
            op if op.takes() => {
                self.acquires.insert(request.id);
            }
            Op::Give(give) => {
                ordered = give.after.iter().all(|open| self.acquires.contains(open));
            }
            _ => {}
        }
        // This request waits for the earlier answers, so they are due no later than its own answer.
        if let Some(connection) = &mut self.connection
            && !seeded!(GatheredPatiently)
        {
            connection.hurry(request.patience);
        }
        self.gathered.push(Gathered { request, ordered });
    }

    /// Sends the gathered requests. Without a connection, they fail with the reason for its
    /// absence.
    fn send(&mut self) {
        let Some(connection) = &mut self.connection else {
            self.acquires.clear();
            for Gathered { request, .. } in self.gathered.drain(..) {
                let failure = self.supervisor.reason().clone();
                let event = StoreEvent::Reply(request.id, Err(failure));
                self.events.push_back(event);
            }
            return self.supervisor.replace();
        };
        let mut packer = Packer::default();
        for Gathered { request, ordered } in self.gathered.drain(..) {
            packer.add(request, ordered);
        }
        let skips = self.skips_until.is_some_and(|until| Instant::now() < until);
        for call in packer.finish() {
            let call = connection.call(call, self.process, skips);
            self.running.push(call);
        }
    }

    /// Does all due work. Returns true if there was any.
    fn advance(&mut self, cx: &mut Context<'_>) -> bool {
        if !self.gathered.is_empty() && self.may_send() {
            self.send();
        }
        // Polls the calls to pass them to the connection, then the connection to send and receive
        // bytes, then the calls again to get their answers.
        let mut moved = self.poll_running(cx);
        moved |= self.poll_connection(cx);
        moved |= self.poll_running(cx);
        moved |= self.succeed();
        while let Some(result) = self.supervisor.poll(cx) {
            self.connected(result);
            moved = true;
        }
        let mut listener_due = None;
        if let Some(listener) = &mut self.listener {
            moved |= listener.poll(cx, &mut self.events, &mut listener_due);
        }
        moved | self.poll_timer(cx, listener_due)
    }

    /// Makes `opened` the current connection.
    fn adopt(&mut self, opened: Opened) {
        self.last_generation += 1;
        self.connection = Some(Connection::new(self.last_generation, opened));
        if self.supervisor.adopted() {
            self.events.push_back(StoreEvent::Connected);
        }
    }

    /// Uses the successor once no SQL call needs the present connection. Returns true if it did.
    fn succeed(&mut self) -> bool {
        let successor = self.successor.take_if(|_| self.running.is_empty());
        let succeeds = successor.is_some();
        if let Some(opened) = successor {
            let waiting = |id: &OpId| self.gathered.iter().any(|waits| waits.request.id == *id);
            self.acquires.retain(waiting);
            self.adopt(opened);
        }
        succeeds
    }

    /// Drops a connection that has ended, or is given up. The calls on it fail at the next poll.
    fn lost(&mut self, generation: Generation, failure: Failure) {
        let current = self.connection.as_ref();
        if current.is_none_or(|connection| connection.generation != generation) {
            return;
        }
        self.connection = None;
        self.supervisor.lost(failure::not_sent(failure));
        // Refuses the gathered requests, instead of keeping them for the next connection. A
        // gathered release is `ordered` only on the connection of its acquire.
        self.send();
    }

    fn connected(&mut self, result: Result<Opened, Failure>) {
        match result {
            // The old connection still works, so its SQL calls end on it, and each gets its answer.
            Ok(opened) if self.connection.is_some() && !self.supervisor.is_out() => {
                self.supervisor.adopted();
                self.successor = Some(opened);
            }
            Ok(opened) => self.adopt(opened),
            Err(failure) => {
                if self.supervisor.failed(failure::not_sent(failure)) {
                    self.events.push_back(StoreEvent::Away);
                }
            }
        }
    }

    /// True if the server currently notifies the pool when a key is reserved for it.
    fn listens(&self) -> bool {
        let here = self.connection.as_ref();
        here.is_some_and(|connection| connection.listens)
            || self.listener.as_ref().is_some_and(Listener::listens)
    }

    fn poll_running(&mut self, cx: &mut Context<'_>) -> bool {
        let mut moved = false;
        while let Poll::Ready(Some(exchange)) = self.running.poll_next_unpin(cx) {
            self.answered(exchange);
            moved = true;
        }
        moved
    }

    /// Sends and receives bytes. Returns true if the connection has ended.
    fn poll_connection(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(connection) = &mut self.connection else {
            return false;
        };
        let generation = connection.generation;
        match connection.poll(cx, &mut self.events) {
            Ok(()) => false,
            Err(failure) => {
                // Answers that arrived before the connection ended still count.
                self.poll_running(cx);
                self.lost(generation, failure);
                true
            }
        }
    }

    fn answered(&mut self, exchange: Exchange) {
        let generation = exchange.generation;
        let connection = self.connection.as_mut();
        let is_current = connection.is_some_and(|connection| {
            let current = connection.generation == generation;
            if current {
                connection.answered();
            }
            current
        });
        match exchange.content {
            Content::Sweep(Ok(more)) => {
                self.supervisor.served();
                if more {
                    self.sweep_at = Instant::now() + SWEEP_ON;
                }
            }
            Content::Call(call, Ok(rows)) => {
                self.supervisor.served();
                let listens = self.listens();
                for (id, result) in call.replies(&rows, listens) {
                    self.acquires.remove(&id);
                    if leaves_out(&result) {
                        self.skips_until = Some(Instant::now() + SKIPPING);
                    }
                    self.events.push_back(StoreEvent::Reply(id, result));
                }
            }
            Content::Call(call, Err(error)) => {
                let mut failure = self.failure(&error, is_current);
                if failure.code() == failure::LOCKED && !seeded!(LockedRowFailsAll) {
                    let skips = self.skips_until.replace(Instant::now() + SKIPPING);
                    // The requests can be repeated at once, because calls now skip the locked row.
                    if skips.is_none_or(|until| until <= Instant::now()) {
                        failure.retry = Retry::Now;
                    }
                }
                for id in call.ids() {
                    if !failure.executed {
                        self.acquires.remove(&id);
                    }
                    let event = StoreEvent::Reply(id, Err(failure.clone()));
                    self.events.push_back(event);
                }
                // Connects again after an error of the connection, or if the server accepts no
                // writes: after a fail-over, another server is the primary.
                if failure.executed || failure.code() == failure::STANDBY {
                    self.lost(generation, failure);
                }
            }
            // Only a closed connection matters here. If this role may not remove idle rows, another
            // role removes them.
            Content::Sweep(Err(error)) => {
                if error.is_closed() {
                    self.lost(generation, failure::ended());
                }
            }
        }
    }

    /// Returns the failure of an SQL call. If it failed because the store has lost its connection,
    /// returns the reason for that loss.
    fn failure(&self, error: &tokio_postgres::Error, is_current: bool) -> Failure {
        if error.is_closed() && !is_current {
            return Failure {
                executed: true,
                ..self.supervisor.reason().clone()
            };
        }
        failure::of(error)
    }

    /// True if the socket was read after `at`. Until then, the answer may still be in the socket,
    /// because this thread or the listener is late.
    ///
    /// The first call for `at` makes this thread read the socket, even if a listener waits on it. A
    /// later call returns true once `looked` has fired: tokio polls sockets before timers.
    fn has_looked_after(&mut self, at: Instant, cx: &mut Context<'_>) -> bool {
        if self.looked.deadline() != at {
            self.looked.as_mut().reset(at);
            if let Some(connection) = &self.connection
                && !seeded!(SilenceUnread)
            {
                connection.wire().received();
            }
            cx.waker().wake_by_ref();
            return false;
        }
        self.looked.as_mut().poll(cx).is_ready()
    }

    fn poll_timer(&mut self, cx: &mut Context<'_>, listener_due: Option<Instant>) -> bool {
        let now = Instant::now();
        let (address, process) = (&self.address, self.process);
        let open = |limit| connection::open(Arc::clone(address), Some(process), limit);
        let mut moved = self.supervisor.attempt(now, open);
        let silent_at = self.connection.as_ref().and_then(Connection::silent_at);
        if let Some(at) = silent_at.filter(|at| *at <= now)
            && self.has_looked_after(at, cx)
            && let Some(connection) = &self.connection
        {
            let server = self.address.to_string();
            reporter::log(move || tracing::warn!(server, "no answer in time; reconnecting"));
            self.lost(connection.generation, failure::silent());
            return true;
        }
        if let Some(connection) = &mut self.connection
            && connection.renew_at().is_some_and(|at| at <= now)
        {
            connection.is_renewed();
            self.supervisor.replace();
            return true;
        }
        if self.sweep_at <= now {
            self.sweep_later();
            if let Some(connection) = &mut self.connection {
                self.running.push(connection.sweep(self.io_timeout));
            }
            moved = true;
        }
        let next = [
            self.supervisor.next_attempt(),
            silent_at,
            Some(self.sweep_at),
            self.connection.as_ref().and_then(Connection::renew_at),
            listener_due,
        ];
        if let Some(next) = next.into_iter().flatten().min() {
            moved |= link::poll_by(&mut self.timer, next, cx);
        }
        moved
    }
}

/// True if the SQL call skipped a row of this request, because another transaction had locked it.
fn leaves_out(result: &Result<Reply, Failure>) -> bool {
    match result {
        Ok(Reply::RenewedInPart(_)) => true,
        Ok(_) => false,
        Err(failure) => failure.code() == failure::LOCKED,
    }
}
