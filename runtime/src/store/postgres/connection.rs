//! One connection to the server: opening it, its bytes, and what the server sends unasked.
//!
//! The thread that polls the store moves the bytes, as for Redis.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, timeout};
use tokio_postgres::tls::NoTlsStream;
use tokio_postgres::{AsyncMessage, Client, Error, NoTls, Row, Socket};

use super::address::Address;
use super::calls::{Call, Statements};
use super::{failure, schema};
use crate::base::full_key::FullKey;
use crate::base::token::Token;
use crate::store::{Failure, StoreEvent};

pub(super) type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Counts the connections of a store.
pub(super) type Generation = u64;

/// The server gets this much for an answer, however impatient a request is: a commit waits for the
/// disk.
const LEAST_PATIENCE: Duration = Duration::from_millis(500);

/// How long a call may wait for a row that another call has locked.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// How long it may take to make the tables, or to wait for another process that makes them.
const MIGRATION: Duration = Duration::from_secs(30);

/// No end by idleness; PostgreSQL 13 does not know that setting.
const STAY: &str =
    "SELECT set_config(name, '0', false) FROM pg_settings WHERE name = 'idle_session_timeout'";

/// A connection on which nothing was asked yet.
pub(super) struct Opened {
    client: Client,
    wire: Wire,
    statements: Statements,
}

/// The connection in use.
pub(super) struct Connection {
    pub(super) generation: Generation,
    client: Arc<Client>,
    wire: Wire,
    statements: Statements,
    /// By when each call under way must have been answered, in the order of the calls.
    deadlines: VecDeque<Instant>,
    last_answer: Instant,
}

type Wire = tokio_postgres::Connection<Socket, NoTlsStream>;

/// What was sent, with its answer.
pub(super) struct Exchange {
    pub(super) generation: Generation,
    pub(super) content: Content,
}

pub(super) enum Content {
    Call(Box<Call>, Result<Vec<Row>, Error>),
    /// Whether there may be more to sweep.
    Sweep(Result<bool, Error>),
}

/// The channel on which the server tells `process` of its turns.
pub(super) fn channel(process: Token) -> String {
    format!("leasehold_{}", process.hex())
}

/// Makes the tables, over a connection of its own.
pub(super) async fn migrate(address: &Address) -> Result<(), Failure> {
    let migrating = async {
        let connecting = address.config().connect(NoTls).await;
        let (client, mut wire) = connecting.map_err(|error| failure::of(&error))?;
        drive(&mut wire, schema::migrate(&client)).await
    };
    timeout(MIGRATION, migrating)
        .await
        .unwrap_or_else(|_| Err(failure::silent()))
}

/// Connects, and listens for `process`.
pub(super) async fn open(
    address: Arc<Address>,
    process: Token,
    limit: Duration,
) -> Result<Opened, Failure> {
    let opening = async {
        let connecting = address.config().connect(NoTls).await;
        let (client, mut wire) = connecting.map_err(|error| failure::of(&error))?;
        let setting_up = set_up(&client, process, limit);
        let statements = drive(&mut wire, setting_up).await?;
        Ok(Opened {
            client,
            wire,
            statements,
        })
    };
    timeout(limit, opening)
        .await
        .unwrap_or_else(|_| Err(failure::silent()))
}

async fn set_up(client: &Client, process: Token, limit: Duration) -> Result<Statements, Failure> {
    let of = |error: Error| failure::of(&error);
    schema::check(client).await?;
    // A wait for a row ends before the connection counts as silent.
    let wait = (limit / 4).min(LONGEST_WAIT).as_millis().max(1);
    let channel = channel(process);
    let listen = format!("{STAY}; SET lock_timeout = {wait}; LISTEN {channel}");
    client.batch_execute(&listen).await.map_err(of)?;
    Statements::prepare(client).await.map_err(of)
}

/// Does `work`, and moves the bytes of the connection meanwhile.
async fn drive<T>(
    wire: &mut Wire,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let mut work = pin!(work);
    poll_fn(|cx| {
        loop {
            if let Poll::Ready(done) = work.as_mut().poll(cx) {
                return Poll::Ready(done);
            }
            match wire.poll_message(cx) {
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(failure::of(&error))),
                Poll::Ready(None) => return Poll::Ready(Err(failure::ended())),
                Poll::Pending => return work.as_mut().poll(cx),
            }
        }
    })
    .await
}

impl Opened {
    /// Does `work` with the client.
    pub(super) async fn ask<'a, T, F>(
        &'a mut self,
        limit: Duration,
        work: impl FnOnce(&'a Client) -> F,
    ) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let work = work(&self.client);
        let work = async { work.await.map_err(|error| failure::of(&error)) };
        timeout(limit, drive(&mut self.wire, work))
            .await
            .unwrap_or_else(|_| Err(failure::silent()))
    }

    /// Makes one call.
    pub(super) async fn run(
        &mut self,
        call: &Call,
        process: Token,
        limit: Duration,
    ) -> Result<Vec<Row>, Failure> {
        let statements = self.statements.clone();
        self.ask(limit, |client| async move {
            call.run(client, &statements, process).await
        })
        .await
    }
}

impl Connection {
    pub(super) fn new(generation: Generation, opened: Opened) -> Self {
        Self {
            generation,
            client: Arc::new(opened.client),
            wire: opened.wire,
            statements: opened.statements,
            deadlines: VecDeque::new(),
            last_answer: Instant::now(),
        }
    }

    /// Sends the call when the future is first polled.
    pub(super) fn call(&mut self, call: Call, process: Token) -> Boxed<Exchange> {
        self.expect_within(call.patience);
        let generation = self.generation;
        let (client, statements) = (Arc::clone(&self.client), self.statements.clone());
        Box::pin(async move {
            let answer = call.run(&client, &statements, process).await;
            Exchange {
                generation,
                content: Content::Call(Box::new(call), answer),
            }
        })
    }

    pub(super) fn sweep(&mut self, patience: Duration) -> Boxed<Exchange> {
        self.expect_within(patience);
        let generation = self.generation;
        let (client, statements) = (Arc::clone(&self.client), self.statements.clone());
        Box::pin(async move {
            let content = Content::Sweep(statements.sweep(&client).await);
            Exchange {
                generation,
                content,
            }
        })
    }

    fn expect_within(&mut self, patience: Duration) {
        let deadline = Instant::now() + patience.max(LEAST_PATIENCE);
        for earlier in self.deadlines.iter_mut().rev() {
            if *earlier <= deadline {
                break;
            }
            *earlier = deadline;
        }
        self.deadlines.push_back(deadline);
    }

    pub(super) fn answered(&mut self) {
        self.deadlines.pop_front();
        self.last_answer = Instant::now();
    }

    /// When this connection will have been silent for too long, if no answer comes.
    pub(super) fn silent_at(&self) -> Option<Instant> {
        let deadline = self.deadlines.front()?;
        Some(*deadline.max(&(self.last_answer + LEAST_PATIENCE)))
    }

    /// Moves bytes, and takes what the server sent unasked. The error is the connection's end.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        events: &mut VecDeque<StoreEvent>,
    ) -> Result<(), Failure> {
        loop {
            match self.wire.poll_message(cx) {
                Poll::Pending => return Ok(()),
                Poll::Ready(Some(Ok(AsyncMessage::Notification(told)))) => {
                    events.extend(message(told.payload()));
                }
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(Some(Err(error))) => return Err(failure::of(&error)),
                Poll::Ready(None) => return Err(failure::ended()),
            }
        }
    }
}

/// Half of a token, and the key.
fn revoked(text: &str) -> Option<StoreEvent> {
    let (lease, key) = text.split_at_checked(16)?;
    Some(StoreEvent::Revoked {
        key: FullKey::from(key),
        lease: u64::from_str_radix(lease, 16).ok()?,
    })
}

/// What a message says: `t` for a turn, `w` for a wanted lock, and then the key; `r` for a lock
/// that was taken away.
fn message(text: &str) -> Option<StoreEvent> {
    let event = match text.as_bytes().first()? {
        b't' => StoreEvent::Turn,
        b'w' => StoreEvent::Wanted,
        b'r' => return revoked(&text[1..]),
        _ => return None,
    };
    Some(event(FullKey::from(&text[1..])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_a_key() {
        assert!(
            matches!(message("tlock:é"), Some(StoreEvent::Turn(key)) if key == FullKey::from("lock:é"))
        );
        assert!(
            matches!(message("wlock:a"), Some(StoreEvent::Wanted(key)) if key == FullKey::from("lock:a"))
        );
        assert!(message("").is_none() && message("élan").is_none());
    }
}
