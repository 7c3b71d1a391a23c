//! Opens a connection to the server, sends and receives its bytes, and reads the server's
//! notifications.
//!
//! The thread that polls the store sends and receives the bytes.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::{FutureExt, join, join3};
use tokio::time::{Instant, timeout};
use tokio_postgres::{AsyncMessage, Client, Error, Row};

use super::address::{Address, Turns};
use super::calls::Call;
use super::dial::{Boxed, IoDriver, dial};
use super::functions::{Functions, Typed};
use super::turns::STAY;
use super::{failure, schema, turns};
use crate::base::token::Token;
use crate::store::socket::Wire;
use crate::store::{Failure, StoreEvent};

/// The number of a connection. Each store counts its connections from 1.
pub(super) type Generation = u64;

/// Minimum time for the server's answer, even if a request's `patience` is shorter, because a
/// commit waits for the disk.
const LEAST_PATIENCE: Duration = Duration::from_millis(500);

/// Maximum time that a call waits for a row locked by another transaction. It is half of
/// [`LEAST_PATIENCE`], so that later calls are answered before the pool drops a silent connection.
const LONGEST_WAIT: Duration = Duration::from_millis(250);

/// Time limit for creating the tables, or for waiting for another process that creates them.
const MIGRATION: Duration = Duration::from_secs(30);

/// A connection before its first request.
pub(super) struct Opened {
    client: Client,
    io_driver: IoDriver,
    functions: Functions,
    listens: bool,
    /// Time at which the connection is replaced, with new credentials.
    renew_at: Option<Instant>,
}

/// The connection in use.
pub(super) struct Connection {
    pub(super) generation: Generation,
    client: Arc<Client>,
    io_driver: IoDriver,
    functions: Functions,
    /// True if the server notifies this session when a key is reserved for its process.
    pub(super) listens: bool,
    renew_at: Option<Instant>,
    /// Deadlines for the answers to the calls under way, in the order of the calls.
    deadlines: VecDeque<Instant>,
    last_answer: Instant,
}

/// A sent call or sweep (a removal of idle rows), with its answer.
pub(super) struct Exchange {
    pub(super) generation: Generation,
    pub(super) content: Content,
}

pub(super) enum Content {
    Call(Box<Call>, Result<Vec<Row>, Error>),
    /// True if there may be more idle rows.
    Sweep(Result<bool, Error>),
}

/// Creates the tables over a separate connection, which it opens within `limit`.
pub(super) async fn migrate(address: &Address, limit: Duration) -> Result<(), Failure> {
    let limit = limit.max(LEAST_PATIENCE);
    let (client, mut io_driver, _) = within(limit, dial(address.hosts(), limit)).await?;
    let migrating = io_driver.drive(schema::migrate(&client));
    within(MIGRATION, migrating).await
}

/// Limits the time of `work`.
fn within<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, Failure>>,
) -> impl Future<Output = Result<T, Failure>> {
    let silent = |_| Err(failure::silent());
    timeout(limit, work).map(move |done| done.unwrap_or_else(silent))
}

/// Connects. Also listens for notifications to `process`, unless the URL has `listen=` or
/// `pooler=1`.
pub(super) async fn open(
    address: Arc<Address>,
    process: Option<Token>,
    limit: Duration,
) -> Result<Opened, Failure> {
    // Allows at least `LEAST_PATIENCE`, because the server first starts a process for each
    // connection.
    let limit = limit.max(LEAST_PATIENCE);
    let opening = async {
        let (client, mut io_driver, renew_at) = dial(address.hosts(), limit).await?;
        let setting_up = Box::pin(set_up(&client, &address, process, limit));
        let (functions, listens) = io_driver.drive(setting_up).await?;
        Ok(Opened {
            client,
            io_driver,
            functions,
            listens,
            renew_at,
        })
    };
    within(limit, opening).await
}

/// Sets up the session. Returns the functions, and true if the server notifies this session.
async fn set_up(
    client: &Client,
    address: &Address,
    process: Option<Token>,
    limit: Duration,
) -> Result<(Functions, bool), Failure> {
    // If another transaction keeps a row locked, the server fails the call after this time. This
    // answer arrives before the pool would drop the connection for a missing answer.
    let wait = (limit / 4).min(LONGEST_WAIT);
    if address.is_pooled() {
        schema::check(client).await?;
        return Ok((Functions::pooled(wait), false));
    }
    let settings = format!("{STAY}; SET lock_timeout = {}", wait.as_millis().max(1));
    let listener = process.filter(|_| matches!(address.turns(), Turns::Here));
    let listening = async {
        match listener {
            Some(process) => turns::listen(client, process).await,
            None => Ok(false),
        }
    };
    // Takes only two round trips: after an outage, leases may end during each further one. The
    // first round trip fails if a pooler has dropped this pool's settings. So the second one, which
    // changes settings, never does so in a session that the pooler shares among clients.
    let (checked, kept) = join(schema::check(client), turns::expect_session(client)).await;
    checked.and(kept)?;
    let (set, listens, functions) = join3(
        client.batch_execute(&settings),
        listening,
        Functions::prepare(client),
    )
    .await;
    set.map_err(|error| failure::of(&error))?;
    let functions = functions.map_err(|error| failure::of(&error))?;
    Ok((functions, listens?))
}

impl Opened {
    /// True if the server notifies this session when a key is reserved for its process.
    pub(super) fn listens(&self) -> bool {
        self.listens
    }

    /// Returns the rows of a statement.
    pub(super) async fn query(
        &mut self,
        statement: &str,
        parameters: &Typed<'_>,
        limit: Duration,
    ) -> Result<Vec<Row>, Failure> {
        let functions = self.functions.clone();
        self.ask(limit, |client| async move {
            functions.query(client, statement, parameters).await
        })
        .await
    }

    /// Runs `work` with the client, within `limit`.
    async fn ask<'a, T, F>(
        &'a mut self,
        limit: Duration,
        work: impl FnOnce(&'a Client) -> F,
    ) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let work = work(&self.client);
        let work = async { work.await.map_err(|error| failure::of(&error)) };
        within(limit, self.io_driver.drive(work)).await
    }

    /// Sends `call`, and returns the rows of its answer.
    pub(super) async fn run(
        &mut self,
        call: &Call,
        process: Token,
        limit: Duration,
    ) -> Result<Vec<Row>, Failure> {
        let functions = self.functions.clone();
        self.ask(limit, |client| async move {
            call.run(client, &functions, process).await
        })
        .await
    }
}

impl Connection {
    pub(super) fn new(generation: Generation, opened: Opened) -> Self {
        Self {
            generation,
            client: Arc::new(opened.client),
            io_driver: opened.io_driver,
            functions: opened.functions,
            listens: opened.listens,
            renew_at: opened.renew_at,
            deadlines: VecDeque::new(),
            last_answer: Instant::now(),
        }
    }

    /// Returns a future that sends the call when it is first polled. With `skips`, the call skips
    /// rows that other transactions have locked.
    pub(super) fn call(&mut self, call: Call, process: Token, skips: bool) -> Boxed<Exchange> {
        self.expect_within(call.patience);
        let (generation, client) = (self.generation, Arc::clone(&self.client));
        let functions = if skips {
            self.functions.skipping()
        } else {
            self.functions.clone()
        };
        Box::pin(async move {
            let answer = call.run(&client, &functions, process).await;
            Exchange {
                generation,
                content: Content::Call(Box::new(call), answer),
            }
        })
    }

    pub(super) fn sweep(&mut self, patience: Duration) -> Boxed<Exchange> {
        self.expect_within(patience);
        let generation = self.generation;
        let (client, functions) = (Arc::clone(&self.client), self.functions.clone());
        Box::pin(async move {
            let content = Content::Sweep(functions.sweep(&client).await);
            Exchange {
                generation,
                content,
            }
        })
    }

    fn expect_within(&mut self, patience: Duration) {
        let deadline = self.hurry(patience);
        self.deadlines.push_back(deadline);
    }

    /// Limits the deadlines of the pending answers to `patience` from now, or to `LEAST_PATIENCE`
    /// if that is longer. Returns the new limit.
    pub(super) fn hurry(&mut self, patience: Duration) -> Instant {
        let deadline = Instant::now() + patience.max(LEAST_PATIENCE);
        for earlier in self.deadlines.iter_mut().rev() {
            if *earlier <= deadline {
                break;
            }
            *earlier = deadline;
        }
        deadline
    }

    /// Returns the time at which this connection must be replaced, with new credentials.
    pub(super) fn renew_at(&self) -> Option<Instant> {
        self.renew_at
    }

    /// Clears `renew_at`, because the next connection, with new credentials, is being opened.
    pub(super) fn is_renewed(&mut self) {
        self.renew_at = None;
    }

    pub(super) fn answered(&mut self) {
        self.deadlines.pop_front();
        self.last_answer = Instant::now();
    }

    /// Returns the time at which the pool drops the connection unless an answer has come before.
    /// `None` if no answer is pending.
    pub(super) fn silent_at(&self) -> Option<Instant> {
        let deadline = self.deadlines.front()?;
        Some(*deadline.max(&(self.last_answer + LEAST_PATIENCE)))
    }

    /// Returns the socket on which any thread can wait for answers.
    pub(super) fn wire(&self) -> &Arc<Wire> {
        self.io_driver.wire()
    }

    /// Sends and receives bytes, and reads the server's notifications. An error means that the
    /// connection has ended.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        events: &mut VecDeque<StoreEvent>,
    ) -> Result<(), Failure> {
        loop {
            match self.io_driver.poll_message(cx) {
                Poll::Pending => return Ok(()),
                Poll::Ready(Ok(AsyncMessage::Notification(notification))) => {
                    events.extend(turns::message(notification.payload()));
                }
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(failure)) => return Err(failure),
            }
        }
    }
}
