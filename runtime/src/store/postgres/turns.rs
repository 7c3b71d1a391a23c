//! Receives notifications of the pool's turns: times when a key is reserved for it.
//!
//! A session that listens for its process creates a *beacon*: a row in the table `beacons`. The
//! beacon is lit as long as the session exists. A release skips a waiting process if its beacons
//! are no longer lit.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::join;
use tokio::time::{Instant, timeout};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, Error};

use super::address::{Address, Turns};
use super::dial::{Boxed, Dialed, IoDriver, dial};
use super::failure;
use super::hosts::Hosts;
use crate::base::digits::hexadecimal;
use crate::base::full_key::FullKey;
use crate::base::jitter::Jitter;
use crate::base::token::Token;
use crate::store::{Failure, StoreEvent};

/// Mean pause before another attempt to connect.
const RETRY: Duration = Duration::from_millis(500);

/// Pause after a failed attempt to replace a session that still works, and minimum pause after a
/// refused login.
const RENEW: Duration = Duration::from_secs(1);

/// Mean interval between checks that the connection works.
const LOOK: Duration = Duration::from_secs(20);

/// Query for two settings of the pool's session. They have other values if a pooler has dropped the
/// settings that the pool requested.
const SESSION: &str = "SELECT pg_catalog.current_setting('plan_cache_mode') AS plans, \
    pg_catalog.current_setting('default_transaction_isolation') AS isolation";

/// Prevents the server from ending an idle session. Changes the setting only if it exists, because
/// PostgreSQL 13 does not have it.
pub(super) const STAY: &str =
    "SELECT set_config(name, '0', false) FROM pg_settings WHERE name = 'idle_session_timeout'";

/// Fails if a pooler has dropped the settings of the session.
pub(super) async fn expect_session(client: &Client) -> Result<(), Failure> {
    let session = client.query_typed_one(SESSION, &[]).await;
    let set = session.and_then(|row| Ok([row.try_get("plans")?, row.try_get("isolation")?]));
    match set {
        Ok::<[String; 2], _>(set) if set == ["force_generic_plan", "read committed"] => Ok(()),
        Ok(_) => Err(failure::unfit(failure::POOLER.to_owned())),
        Err(error) => Err(failure::of(&error)),
    }
}

/// Makes the session listen for notifications to `process`, and lights the beacon of `process`.
/// Returns false if the server refuses `LISTEN`.
pub(super) async fn listen(client: &Client, process: Token) -> Result<bool, Failure> {
    let listen = format!("LISTEN leasehold_{}", process.hex());
    let me: (&(dyn ToSql + Sync), Type) = (&process, Type::UUID);
    let light = client.query_typed("SELECT leasehold.light($1)", std::slice::from_ref(&me));
    let (listening, lit) = join(client.batch_execute(&listen), light).await;
    // Some servers do not support LISTEN. That is not an error, because the connection works.
    if listening.is_err() {
        return Ok(false);
    }
    lit.map_err(|error| failure::of(&error))?;
    Ok(true)
}

/// Parses the message about a revoked lock: one half of its token (`Token::half`), and the key.
fn revoked(text: &str) -> Option<StoreEvent> {
    let (lease, key) = text.split_at_checked(16)?;
    Some(StoreEvent::Revoked {
        key: FullKey::from(key),
        lease: hexadecimal(lease)?,
    })
}

/// Parses a message: a letter, and then a key. `t`: the key is reserved for this process. `w`:
/// another process waits for the key. `r`: the lock was taken away by force; half of its token
/// precedes the key.
pub(crate) fn message(text: &str) -> Option<StoreEvent> {
    let event = match text.as_bytes().first()? {
        b't' => StoreEvent::Turn,
        b'w' => StoreEvent::Wanted,
        b'r' => return revoked(&text[1..]),
        _ => return None,
    };
    Some(event(FullKey::from(&text[1..])))
}

/// A connection that only receives notifications. It is replaced when it ends.
pub(super) struct Listener {
    hosts: Arc<Hosts>,
    process: Token,
    limit: Duration,
    state: State,
    jitter: Jitter,
}

enum State {
    Connecting(Boxed<Result<Dialed, Failure>>),
    Listening(Box<Session>),
    Waiting(Instant),
}

struct Session {
    client: Arc<Client>,
    io_driver: IoDriver,
    /// Time of the next check of the connection.
    look_at: Instant,
    /// The unanswered check, and its deadline.
    look: Option<(Boxed<Result<(), Error>>, Instant)>,
    /// Time at which the session is replaced, with new credentials.
    renew_at: Option<Instant>,
    /// The next session, while it is being connected. The present session listens until the next
    /// one does, so that the process always has a beacon.
    successor: Option<Boxed<Result<Dialed, Failure>>>,
}

impl Listener {
    /// Returns `None` if the URL specifies no separate connection for notifications.
    pub(super) fn of(address: &Address, process: Token, limit: Duration) -> Option<Self> {
        let Turns::Beside(hosts) = address.turns() else {
            return None;
        };
        let hosts = Arc::new(Hosts::clone(hosts));
        Some(Self {
            state: State::Connecting(connect(Arc::clone(&hosts), process, limit)),
            hosts,
            process,
            limit,
            jitter: Jitter::new(rand::random()),
        })
    }

    /// Connects once, for a check.
    pub(super) async fn try_out(
        address: &Address,
        process: Token,
        limit: Duration,
    ) -> Result<(), Failure> {
        match address.turns() {
            Turns::Beside(hosts) => {
                let hosts = Arc::new(Hosts::clone(hosts));
                connect(hosts, process, limit).await.map(drop)
            }
            Turns::Here | Turns::Nowhere => Ok(()),
        }
    }

    /// True if the server currently notifies this process.
    pub(super) fn listens(&self) -> bool {
        matches!(self.state, State::Listening(_))
    }

    /// Does all due work, and reads the messages from the server. Returns true if the state has
    /// changed. `next` becomes the time of the next due work, if that is earlier.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        events: &mut VecDeque<StoreEvent>,
        next: &mut Option<Instant>,
    ) -> bool {
        let now = Instant::now();
        let state = match &mut self.state {
            State::Waiting(until) if *until <= now => {
                let hosts = Arc::clone(&self.hosts);
                Some(State::Connecting(connect(hosts, self.process, self.limit)))
            }
            State::Waiting(_) => None,
            State::Connecting(connecting) => match connecting.as_mut().poll(cx) {
                Poll::Pending => None,
                Poll::Ready(Ok(dialed)) => {
                    let look_at = now + self.jitter.around(LOOK);
                    Some(State::Listening(Box::new(Session::new(dialed, look_at))))
                }
                Poll::Ready(Err(failure)) => {
                    let pause = self.jitter.around(RETRY);
                    let refused = failure.is_refusal().then_some(RENEW);
                    Some(State::Waiting(now + pause + refused.unwrap_or_default()))
                }
            },
            State::Listening(session) => {
                let pause = self.jitter.around(LOOK);
                session.renew(now, || {
                    connect(Arc::clone(&self.hosts), self.process, self.limit)
                });
                let lives = session.is_alive(cx, events, now, (self.limit, pause));
                (!lives).then(|| State::Waiting(now + self.jitter.around(RETRY)))
            }
        };
        let moved = state.is_some();
        if let Some(state) = state {
            self.state = state;
        }
        let due = match &self.state {
            State::Waiting(until) => Some(*until),
            State::Connecting(_) => None,
            State::Listening(session) => {
                let look = session.look.as_ref();
                let look = look.map_or(session.look_at, |(_, limit)| *limit);
                Some(session.renew_at.map_or(look, |at| at.min(look)))
            }
        };
        *next = next.iter().copied().chain(due).min();
        moved
    }
}

impl Session {
    fn new((client, io_driver, renew_at): Dialed, look_at: Instant) -> Self {
        Self {
            client: Arc::new(client),
            io_driver,
            look_at,
            look: None,
            renew_at,
            successor: None,
        }
    }

    /// Begins to connect the next session, if the credentials of this one must be renewed.
    fn renew(&mut self, now: Instant, connect: impl FnOnce() -> Boxed<Result<Dialed, Failure>>) {
        if self.renew_at.is_some_and(|at| at <= now) {
            self.renew_at = None;
            self.successor = Some(connect());
        }
    }

    /// If the next session is connected, replaces this one with it and returns true. If the attempt
    /// to connect it has failed, schedules another attempt.
    fn succeed(&mut self, cx: &mut Context<'_>, now: Instant) -> bool {
        let Some(successor) = &mut self.successor else {
            return false;
        };
        match successor.as_mut().poll(cx) {
            Poll::Pending => false,
            Poll::Ready(Ok(dialed)) => {
                *self = Self::new(dialed, self.look_at);
                true
            }
            Poll::Ready(Err(_)) => {
                (self.successor, self.renew_at) = (None, Some(now + RENEW));
                false
            }
        }
    }

    /// Sends and receives bytes, and reads messages. Returns false if the connection has ended, or
    /// does not answer a check within `limit`. The next check follows after `pause`.
    fn is_alive(
        &mut self,
        cx: &mut Context<'_>,
        events: &mut VecDeque<StoreEvent>,
        now: Instant,
        (limit, pause): (Duration, Duration),
    ) -> bool {
        if self.look.is_none() && self.look_at <= now {
            let client = Arc::clone(&self.client);
            let asking = Box::pin(async move { client.batch_execute("").await });
            self.look = Some((asking, now + limit));
        }
        // Polls the check to send it, then the connection, and then the check again for its answer.
        let lives = self.looks_well(cx, now, pause)
            && self.receives(cx, events)
            && self.looks_well(cx, now, pause);
        // Reads all messages of the present session before the next one takes over, and then those
        // of the next one.
        lives && (!self.succeed(cx, now) || self.receives(cx, events))
    }

    fn looks_well(&mut self, cx: &mut Context<'_>, now: Instant, pause: Duration) -> bool {
        let Some((asking, limit)) = &mut self.look else {
            return true;
        };
        match asking.as_mut().poll(cx) {
            Poll::Pending => now < *limit,
            Poll::Ready(answer) => {
                self.look = None;
                self.look_at = now + pause;
                answer.is_ok()
            }
        }
    }

    fn receives(&mut self, cx: &mut Context<'_>, events: &mut VecDeque<StoreEvent>) -> bool {
        loop {
            match self.io_driver.poll_message(cx) {
                Poll::Pending => return true,
                Poll::Ready(Ok(AsyncMessage::Notification(notification))) => {
                    events.extend(message(notification.payload()));
                }
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(_)) => return false,
            }
        }
    }
}

fn connect(hosts: Arc<Hosts>, process: Token, limit: Duration) -> Boxed<Result<Dialed, Failure>> {
    Box::pin(async move {
        let connecting = async {
            let (client, mut io_driver, renew_at) = dial(&hosts, limit).await?;
            let listening = async {
                expect_session(&client).await?;
                let (set, listens) =
                    join(client.batch_execute(STAY), listen(&client, process)).await;
                set.map_err(|error| failure::of(&error))?;
                listens
            };
            if io_driver.drive(listening).await? {
                Ok((client, io_driver, renew_at))
            } else {
                Err(failure::deaf())
            }
        };
        timeout(limit, connecting)
            .await
            .unwrap_or_else(|_| Err(failure::silent()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_contain_a_key() {
        assert!(
            matches!(message("tlock:é"), Some(StoreEvent::Turn(key)) if key == FullKey::from("lock:é"))
        );
        assert!(
            matches!(message("wlock:a"), Some(StoreEvent::Wanted(key)) if key == FullKey::from("lock:a"))
        );
        for foreign in ["", "élan", "r", "r+123456789abcdeflock:a"] {
            assert!(message(foreign).is_none(), "{foreign}");
        }
    }
}
