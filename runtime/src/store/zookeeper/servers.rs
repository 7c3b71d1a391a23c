//! Connections to the servers of an ensemble, and the servers' bounds for the time of a session.
//!
//! A granted session time is valid only until the connection ends, because the server may be
//! restarted with other settings. So the bounds are read again before each connection is used. To
//! resume a session, the connection is opened before the bounds are read, and a restart in between
//! would end the connection. So the server process that resumes the session is the one that has
//! reported the bounds. Otherwise, a restarted server could shorten the session, and this process
//! would not notice if the server's answer to the handshake was lost.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::address::Address;
use super::classes::Classes;
use super::error::Error;
use super::failure;
use super::handshake::{self, Granted, Ticket};
use super::line::Line;
use crate::base::reporter;
use crate::base::seeded::seeded;
use crate::error::LockError;
use crate::store::session::outage::Outage;

/// Shortest time limit for a server's answer to a handshake, even if the limit of the pool is
/// shorter.
pub(super) const LEAST_HANDSHAKE: Duration = Duration::from_millis(500);

/// The pause before the servers are tried again. Servers without a leader close connections at
/// once, so without a pause the client would flood them.
pub(super) const PAUSE: Duration = Duration::from_millis(100);

/// Pause after the program's source of credentials has failed, before it is called again.
const LOGIN_PAUSE: Duration = Duration::from_secs(1);

/// Maximum number of users with which one connection logs in: the latest ones of this process. Each
/// new password makes another user. The nodes of users before these are assumed to be gone.
const MOST_USERS: usize = 16;

/// Bounds of the time that a server may be silent before a session moves to another server. Within
/// these bounds, this time is a fifth of the session's lifetime.
const LEAST_SILENCE: Duration = Duration::from_secs(1);
const MOST_SILENCE: Duration = Duration::from_secs(3);

/// The servers of an ensemble.
pub(super) struct Servers {
    pub(super) address: Address,
    classes: Mutex<Classes>,
    /// Number of the next server to try, modulo the number of servers.
    next: AtomicUsize,
    pub(super) outage: Outage,
    /// The users of this process so far, as `user:password`, the oldest first.
    digests: Mutex<Vec<String>>,
}

/// A session of this process that continues on another connection.
pub(super) struct Resumed<'a> {
    pub(super) ticket: &'a Ticket,
    pub(super) lasts: Duration,
    /// The path of the session's own znode.
    pub(super) own: &'a str,
}

/// The reason why a server does not serve a session.
enum Refusal {
    /// The server would resume the session only with a shorter time-out than before.
    Shorter,
    Failed(Error),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl Servers {
    pub(super) fn new(address: Address, classes: Classes) -> Self {
        Self {
            address,
            classes: Mutex::new(classes),
            // Random, so that processes that start together begin with different servers.
            next: AtomicUsize::new(usize::from(rand::random::<u16>())),
            outage: Outage::default(),
            digests: Mutex::default(),
        }
    }

    pub(super) fn classes(&self) -> Classes {
        *self.classes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a request has found no server, because of `error`.
    pub(super) fn lost(&self, error: &LockError) {
        if self.outage.lost() {
            let (server, error) = (self.address.to_string(), error.clone());
            reporter::log(move || tracing::warn!(server, %error, "cannot connect; trying again"));
        }
    }

    /// Opens a session at the first server that grants one. Retries until this future is dropped,
    /// except after a refused login.
    pub(super) async fn open(&self, asked: Duration) -> Result<(Line, Granted), Error> {
        loop {
            let mut last = Error::Timeout;
            for _ in 0..self.address.servers().len() {
                match self.reach(asked, None).await {
                    Err(Refusal::Failed(Error::AuthFailed)) => return Err(Error::AuthFailed),
                    Ok(opened) => return Ok(opened),
                    Err(Refusal::Failed(error)) => last = error,
                    Err(Refusal::Shorter) => {}
                }
            }
            self.lost(&failure::of(&last).error);
            tokio::time::sleep(pause(&last)).await;
        }
    }

    /// Resumes a session. Returns `None` if the session is over. Also returns `None` if a server
    /// would shorten the session and no other server resumes it.
    pub(super) async fn resume(&self, session: &Resumed<'_>) -> Option<Line> {
        let begun = Instant::now();
        // After twice its time-out without a connection, the servers have ended the session.
        while begun.elapsed() < session.lasts * 2 {
            let (mut shorter, mut last) = (false, Error::Timeout);
            for _ in 0..self.address.servers().len() {
                match self.reach(session.lasts, Some(session)).await {
                    Ok((line, _)) => return Some(line),
                    Err(Refusal::Failed(Error::SessionExpired)) => return None,
                    Err(Refusal::Shorter) => shorter = true,
                    Err(Refusal::Failed(error)) => last = error,
                }
            }
            if shorter {
                return None;
            }
            self.lost(&failure::of(&last).error);
            tokio::time::sleep(pause(&last)).await;
        }
        None
    }

    async fn reach(
        &self,
        asked: Duration,
        resumed: Option<&Resumed<'_>>,
    ) -> Result<(Line, Granted), Refusal> {
        let servers = self.address.servers();
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        let server = &servers[next % servers.len()];
        let silence = (asked / 5).clamp(LEAST_SILENCE, MOST_SILENCE);
        let connecting = timeout(silence, handshake::connected(server));
        let stream = connecting.await.map_err(|_| Error::Timeout)??;
        let (shortest, longest) = handshake::bounds(server, silence).await?;
        self.learn(shortest, longest);
        if resumed.is_some() && longest < asked && !seeded!(GrantedTimeReadOnce) {
            return Err(Refusal::Shorter);
        }
        let digests = self.digests(silence).await?;
        let ticket = resumed.map(|session| session.ticket);
        let beginning = Line::begin(stream, &digests, asked, ticket, silence);
        let (line, granted) = beginning.await?;
        if let Some(session) = resumed {
            if granted.lasts < session.lasts && !seeded!(GrantedTimeReadOnce) {
                return Err(Refusal::Shorter);
            }
            // The server may not have applied the latest changes yet. This write waits for them,
            // because a server answers a write only after it has applied all earlier writes.
            let touching = timeout(silence, line.touch(session.own));
            touching.await.map_err(|_| Error::Timeout)??;
            line.keeps_its_session();
        }
        Ok((line, granted))
    }

    /// Returns the users with which the next connection logs in: the present one, and the earlier
    /// ones of this process. After a change of the password, the session must still be able to
    /// remove the nodes of the earlier users.
    async fn digests(&self, limit: Duration) -> Result<Vec<String>, Error> {
        let digest = self.address.digest(limit).await;
        let mut digests = self.digests.lock().unwrap_or_else(PoisonError::into_inner);
        let digest = match digest {
            Ok(digest) => digest,
            Err(failure) if digests.is_empty() => {
                return Err(Error::NoCredentials(failure.text()));
            }
            // The program's source of credentials has failed. Continues with the earlier users,
            // which the server accepts, so no session is lost.
            Err(_) => None,
        };
        if let Some(digest) = digest
            && !digests.contains(&digest)
        {
            if MOST_USERS <= digests.len() {
                digests.remove(0);
            }
            digests.push(digest);
        }
        Ok(digests.clone())
    }

    /// Records the tick of a server (its unit of time) if it is longer than the known one. A
    /// restarted server may have another tick.
    fn learn(&self, shortest: Duration, longest: Duration) {
        let tick = self.address.tick;
        let mut classes = self.classes.lock().unwrap_or_else(PoisonError::into_inner);
        *classes = classes.with_tick_of(Classes::new(shortest, longest, tick));
    }
}

/// Returns the pause after an attempt that ended with `error`.
fn pause(error: &Error) -> Duration {
    match error {
        Error::NoCredentials(_) => LOGIN_PAUSE,
        _ => PAUSE,
    }
}
