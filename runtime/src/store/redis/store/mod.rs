//! Keeps a connection to one server open, and sends requests on it in order.
//!
//! The store replaces a connection that ends, or that leaves a request unanswered for longer than
//! the request's patience. The engine has its own time-outs and never waits for the replacement.
//! The connection manager of the crate `redis` is not enough: it never replaces a connection that
//! falls silent without an error. A command on such a connection can block for many seconds.
//!
//! [`requests`] sends requests and reads their answers.

use std::collections::VecDeque;
use std::iter;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Context;
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep};

use self::relogin::Relogin;
use super::check;
use super::commands::key_names::KeyNames;
use super::commands::redirect::{Redirect, RequestFlags};
use super::commands::{failure, reply};
use super::master_address::MasterAddress;
use super::replication::ReplicaAcks;
use super::server_info::Info;
use super::wire::connect::OpenedConnection;
use super::wire::connection::{Connection, Exchange, Generation, Stamp};
use crate::base::id_map::IdMap;
use crate::base::reporter;
use crate::base::seeded::seeded;
use crate::check_report::CheckReport;
use crate::error::LockError;
use crate::store::link::{self, supervisor::Supervisor};
use crate::store::options::Options;
use crate::store::socket::{Announced, Wire};
use crate::store::{Failure, LockStore, OpId, Request, Retry, Socket, StoreEvent};

mod interface;
mod relogin;
mod requests;

/// Locks on one server.
pub(crate) struct RedisStore {
    address: MasterAddress,
    names: Arc<KeyNames>,
    io_timeout: Duration,
    connection: Option<Connection>,
    /// Replaced connections, such as silent ones. The store still accepts answers that arrive on
    /// them.
    retired: Vec<Connection>,
    supervisor: Supervisor<OpenedConnection>,
    /// Elapses when the store must connect, or must check whether the current connection is silent.
    timer: Pin<Box<Sleep>>,
    relogin: Relogin,
    /// True while the first attempt to connect is under way. Requests that arrive during the
    /// attempt wait for its end.
    opening: bool,
    last_generation: Generation,
    /// The connection on which each pending acquire was sent. A failed acquire that may have been
    /// carried out keeps its entry, because the request that removes its key must follow on the
    /// same connection.
    acquires: IdMap<OpId, SentAcquire>,
    /// Flags of requests that are not sent yet, if they differ from the default.
    flags: IdMap<OpId, RequestFlags>,
    /// In a cluster: the node to which the server redirected a request.
    redirects: IdMap<OpId, Redirect>,
    /// Number of replicas that must acknowledge each lock.
    replica_acks: Option<ReplicaAcks>,
    /// The pipeline whose `WAIT` for replicas is unanswered.
    waiting: Option<Stamp>,
    /// Requests that arrived while a `WAIT` was unanswered, or during the first attempt to connect.
    held_back: Vec<Request>,
    events: VecDeque<StoreEvent>,
    announced: Announced,
    /// True if there may be bytes to send before the next event is returned.
    unsent: bool,
}

impl RedisStore {
    pub(crate) async fn connect(
        address: impl Into<MasterAddress>,
        options: &Options,
    ) -> Result<Self, LockError> {
        let (store, connected) = Self::start(address.into(), options).await;
        connected.map_err(|failure| failure.error)?;
        Ok(store)
    }

    /// Connects. If that fails, the store keeps trying. It refuses requests until it has a
    /// connection.
    pub(crate) async fn start(
        address: MasterAddress,
        options: &Options,
    ) -> (Self, Result<(), Failure>) {
        Self::start_as(address, KeyNames::of(options), options).await
    }

    /// Like `start`, but with the given names of keys and channels.
    pub(crate) async fn start_as(
        address: MasterAddress,
        names: KeyNames,
        options: &Options,
    ) -> (Self, Result<(), Failure>) {
        let names = Arc::new(names);
        let opened = reach(address.clone(), Arc::clone(&names), options.io_timeout).await;
        let mut store = Self::unconnected(address, names, options);
        let checked = match opened {
            Ok(mut opened) => {
                let (address, names) = (&store.address, &store.names);
                let examined = check::examine(&mut opened, address, names, options).await;
                examined.map(|report| {
                    report.log();
                    opened
                })
            }
            Err(failure) => Err(failure),
        };
        let connected = match checked {
            Ok(opened) => {
                store.adopt(opened);
                Ok(())
            }
            Err(failure) => {
                store.supervisor.first_failed(not_sent(failure.clone()));
                Err(failure)
            }
        };
        (store, connected)
    }

    /// Returns a store that begins to connect when it is first polled for an event. Requests wait
    /// until this attempt has succeeded or failed.
    pub(crate) fn later(address: MasterAddress, names: KeyNames, options: &Options) -> Self {
        let mut store = Self::unconnected(address, Arc::new(names), options);
        store.opening = true;
        store.supervisor.goes_out();
        store
    }

    fn unconnected(address: MasterAddress, names: Arc<KeyNames>, options: &Options) -> Self {
        Self {
            supervisor: Supervisor::new(address.to_string(), options.io_timeout, disconnected()),
            address,
            names,
            io_timeout: options.io_timeout,
            connection: None,
            retired: Vec::new(),
            timer: Box::pin(sleep(Duration::ZERO)),
            relogin: Relogin::default(),
            opening: false,
            last_generation: 0,
            acquires: IdMap::default(),
            flags: IdMap::default(),
            redirects: IdMap::default(),
            replica_acks: ReplicaAcks::new(options),
            waiting: None,
            held_back: Vec::new(),
            events: VecDeque::new(),
            announced: Announced::default(),
            unsent: false,
        }
    }

    /// Returns the number of the current connection, and its server's `INFO`. A restart of the
    /// server ends the connection, so the `INFO` describes the process that runs now.
    pub(crate) fn peer(&self) -> Option<(Generation, Option<&Info>)> {
        let connection = self.connection.as_ref()?;
        Some((connection.generation, connection.info.as_ref()))
    }

    /// Returns the sockets on which answers arrive.
    pub(crate) fn wires(&self) -> impl Iterator<Item = &Arc<Wire>> + Clone {
        wires_of(self.connection.as_ref(), &self.retired)
    }

    /// True if the store currently has no working connection.
    pub(crate) fn is_out(&self) -> bool {
        self.supervisor.is_out() || self.connection.is_none()
    }

    /// Returns the reason of the outage, while the server is known to be away. It is not away while
    /// the current connection answers, even if no new one can be opened.
    pub(crate) fn away(&self) -> Option<&Failure> {
        let answers = self.connection.as_ref().is_some_and(|connection| {
            let silent_at = connection.silent_at();
            silent_at.is_none_or(|at| Instant::now() < at)
        });
        self.supervisor.absence().filter(|_| !answers)
    }

    /// Like [`submit`](LockStore::submit), for a node of a cluster.
    pub(crate) fn submit_in(&mut self, requests: Vec<(Request, RequestFlags)>) {
        let unusual = requests
            .iter()
            .filter(|(_, flags)| *flags != RequestFlags::default());
        self.flags
            .extend(unusual.map(|(request, flags)| (request.id, *flags)));
        let mut requests = requests.into_iter().map(|(request, _)| request).collect();
        self.submit(&mut requests);
    }

    /// Stops tracking acquires whose removal was carried out, here or on another node.
    pub(crate) fn settle(&mut self, acquires: &[OpId]) {
        for acquire in acquires {
            self.acquires.remove(acquire);
        }
    }

    /// Removes and returns the redirect of a request that a node refused with `MOVED` or `ASK`.
    pub(crate) fn take_redirect(&mut self, id: OpId) -> Option<Redirect> {
        self.redirects.remove(&id)
    }

    /// Checks the server over a separate connection.
    pub(crate) async fn check(
        address: MasterAddress,
        options: &Options,
    ) -> Result<CheckReport, LockError> {
        Self::check_as(address, KeyNames::of(options), options).await
    }

    /// Like `check`, but with the given names of keys and channels.
    pub(crate) async fn check_as(
        address: MasterAddress,
        names: KeyNames,
        options: &Options,
    ) -> Result<CheckReport, LockError> {
        let names = Arc::new(names);
        let opened = reach(address.clone(), Arc::clone(&names), options.io_timeout).await;
        let examined = match opened {
            Ok(mut opened) => check::examine(&mut opened, &address, &names, options).await,
            Err(failure) => Err(failure),
        };
        examined.map_err(|failure| failure.error)
    }

    /// Does all work that is possible now. Returns true if there was any.
    fn advance(&mut self, cx: &mut Context<'_>) -> bool {
        self.move_bytes(cx);
        let mut moved = false;
        while let Some(exchange) = self.next_exchange() {
            self.answered(exchange);
            moved = true;
        }
        if let Some(connection) = &mut self.connection {
            while let Some(push) = connection.take_push() {
                self.events.extend(reply::message(&push));
            }
        }
        // Detects the end of a connection on which no exchange is pending. If exchanges are
        // pending, they fail, which shows the end.
        let ended = self
            .connection
            .as_ref()
            .filter(|connection| connection.has_ended());
        if let Some(generation) = ended.map(|connection| connection.generation) {
            self.lost(generation, disconnected());
            moved = true;
        }
        while let Some(result) = self.supervisor.poll(cx) {
            self.connected(result);
            moved = true;
        }
        moved |= self.poll_relogin(cx);
        moved | self.poll_timer(cx)
    }

    /// Makes `opened` the current connection.
    fn adopt(&mut self, opened: OpenedConnection) {
        self.last_generation += 1;
        self.opening = false;
        if let Some(replica_acks) = &self.replica_acks {
            replica_acks.connected(opened.role);
        }
        self.relogin = Relogin::at(opened.renew_login_at);
        let fresh = Connection::new(self.last_generation, opened, self.io_timeout);
        if let Some(silent) = self.connection.replace(fresh) {
            self.retired.push(silent);
        }
        if self.supervisor.adopted() {
            self.events.push_back(StoreEvent::Connected);
        }
        let alive = |generation| {
            let mut connections = self.connection.iter().chain(&self.retired);
            connections.any(|connection| connection.generation == generation)
        };
        self.acquires.retain(|_, sent| alive(sent.generation));
        self.send_held_back();
    }

    /// Handles the end of a connection.
    fn lost(&mut self, generation: Generation, failure: Failure) {
        let mut given_up = Vec::new();
        if let Some(at) = self
            .retired
            .iter()
            .position(|connection| connection.generation == generation)
        {
            let mut connection = self.retired.remove(at);
            given_up.extend(iter::from_fn(|| connection.give_up()));
        }
        let is_current = |connection: &mut Connection| connection.generation == generation;
        if let Some(mut connection) = self.connection.take_if(is_current) {
            given_up.extend(iter::from_fn(|| connection.give_up()));
            self.supervisor.lost(not_sent(failure));
            self.send_held_back();
        }
        for exchange in given_up {
            self.answered(exchange);
        }
    }

    fn connected(&mut self, result: Result<OpenedConnection, Failure>) {
        match result.and_then(|opened| opened.if_it_leads(self.names.in_cluster())) {
            Ok(opened) => self.adopt(opened),
            Err(failure) => {
                if self.supervisor.failed(not_sent(failure)) {
                    self.events.push_back(StoreEvent::Away);
                }
                self.opening = false;
                self.send_held_back();
            }
        }
    }

    fn next_exchange(&mut self) -> Option<Exchange> {
        let current = self.connection.as_mut().and_then(Connection::next_exchange);
        let retired = || self.retired.iter_mut().find_map(Connection::next_exchange);
        current.or_else(retired)
    }

    fn move_bytes(&mut self, cx: &mut Context<'_>) {
        for connection in self.connection.iter_mut().chain(&mut self.retired) {
            connection.move_bytes(cx);
        }
    }

    fn poll_timer(&mut self, cx: &mut Context<'_>) -> bool {
        let now = Instant::now();
        let (address, names) = (&self.address, &self.names);
        let open = |limit| reach(address.clone(), Arc::clone(names), limit);
        let mut moved = self.supervisor.attempt(now, open);
        let (silent_at, idle_at) = match &self.connection {
            Some(connection) => (connection.silent_at(), connection.idle_at()),
            None => (None, None),
        };
        if self.supervisor.next_attempt().is_none() && silent_at.is_some_and(|at| at <= now) {
            let server = self.address.clone();
            reporter::log(move || tracing::warn!(%server, "no answer in time; reconnecting"));
            // Perhaps answers have arrived, but the listener that waits for them is late. So the
            // store reads all received bytes, while it opens a new connection.
            if let Some(connection) = &self.connection
                && !seeded!(SilenceUnread)
            {
                connection.wire().received();
            }
            self.supervisor.goes_out();
            return true;
        }
        if idle_at.is_some_and(|at| at <= now) {
            if let Some(connection) = &mut self.connection {
                connection.ping(self.io_timeout);
            }
            self.unsent = true;
            return true;
        }
        // A retired connection is dropped if its oldest exchange stays unanswered for too long, and
        // the current one if it stays silent for too long.
        let retired = self.retired.iter().filter_map(|connection| {
            let at = connection.gives_up_at()?;
            Some((at, connection.generation))
        });
        let current = self.connection.iter().filter_map(|connection| {
            let at = connection.drops_at()?;
            Some((at, connection.generation))
        });
        let gives_up = retired.chain(current).min();
        if let Some((at, generation)) = gives_up
            && at <= now
        {
            self.lost(generation, failure::silent());
            return true;
        }
        let gives_up_at = gives_up.map(|(at, _)| at);
        let next = self.supervisor.next_attempt().or(silent_at).or(idle_at);
        let times = next
            .into_iter()
            .chain(gives_up_at)
            .chain(self.relogin_due());
        if let Some(next) = times.min() {
            moved |= link::poll_by(&mut self.timer, next, cx);
        }
        moved
    }
}

fn wires_of<'a>(
    connection: Option<&'a Connection>,
    retired: &'a [Connection],
) -> impl Iterator<Item = &'a Arc<Wire>> + Clone {
    connection.into_iter().chain(retired).map(Connection::wire)
}

/// An acquire that was sent, and whose outcome may still matter.
struct SentAcquire {
    /// The connection on which it was sent.
    generation: Generation,
    /// True if the removal of its key was sent, too.
    is_undone: bool,
}

/// Opens a connection that listens for messages to this process, if the server permits that.
async fn reach(
    address: MasterAddress,
    names: Arc<KeyNames>,
    limit: Duration,
) -> Result<OpenedConnection, Failure> {
    let mut opened = address.connect(limit).await?;
    opened.listen(&names.channel(), limit).await?;
    Ok(opened)
}

fn disconnected() -> Failure {
    Failure::unavailable(
        "io",
        "the server closed the connection; check that it is up".to_owned(),
        Retry::Later,
        true,
    )
}

/// Turns the failure of a connection, or of an attempt to connect, into the failure of a request
/// that was never sent. The request may be retried, because the next attempt may reach another
/// server. Only refused credentials keep their retry policy.
fn not_sent(failure: Failure) -> Failure {
    let retry = match failure.code() {
        "NOAUTH" | "WRONGPASS" | "NOPERM" => failure.retry,
        _ => Retry::Later,
    };
    Failure {
        retry,
        executed: false,
        ..failure
    }
}
