//! Replaces the connection of a store.

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::time::Instant;

use crate::base::jitter::Jitter;
use crate::base::reporter;
use crate::store::Failure;

/// Pause after the first attempt to connect. It doubles with each further attempt, up to the limits
/// below.
const FIRST_RETRY: Duration = Duration::from_millis(25);

/// Longest pause in the first seconds of an outage. A lease of 2 s must survive an outage of 0.8 s
/// (0.4 of its ttl). At worst, 0.4 s remain for this pause, the new connection and the renewal.
const SHORT_RETRY: Duration = Duration::from_millis(100);

/// Longest pause after `SHORT_RETRIES` attempts, in a long outage. By then, short leases have
/// ended, and longer leases outlast a pause of this length. With shorter pauses, many clients would
/// flood a returning server with connections.
const LONG_RETRY: Duration = Duration::from_secs(1);
const SHORT_RETRIES: u32 = 60;

/// Time limit of one attempt to reconnect, even if `io_timeout` is longer.
const LONGEST_ATTEMPT: Duration = Duration::from_secs(5);

/// While an attempt hangs, the next one begins after a quarter of the attempt's time limit, but
/// within these bounds (minimum, maximum). So the store soon reaches a returning server, with at
/// most about five attempts at the same time.
const OVERLAP: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(1));

type Attempt<T> = Pin<Box<dyn Future<Output = Result<T, Failure>> + Send>>;

/// Manages the attempts to replace a store's connection. `T` is the type of an open connection.
pub(crate) struct Supervisor<T> {
    /// Name of the server, for the log.
    server: String,
    limit: Duration,
    /// The attempts in progress. A new attempt does not wait for an older one that hangs: an
    /// attempt that began during an outage could still hang for its whole time limit after the
    /// outage.
    connecting: FuturesUnordered<Attempt<T>>,
    /// Time of the next attempt, if a connection is needed.
    next: Option<Instant>,
    last: Instant,
    /// Number of attempts since the server last carried out a request.
    attempts: u32,
    out: bool,
    /// True if an attempt has failed since the connection was lost, and the server has not answered
    /// since. Also true before the first connection of a lazy store.
    away: bool,
    reason: Failure,
    /// True if the last attempt failed with a refusal, for example of the password. Further
    /// attempts then begin at most once per [`LONG_RETRY`], because a server may lock a user out
    /// after many refused logins.
    refused: bool,
    jitter: Jitter,
}

impl<T> Supervisor<T> {
    /// Returns a supervisor without attempts. Until the first attempt fails, `reason` explains why
    /// there is no connection.
    pub(crate) fn new(server: String, io_timeout: Duration, reason: Failure) -> Self {
        Self {
            server,
            limit: io_timeout.min(LONGEST_ATTEMPT),
            connecting: FuturesUnordered::new(),
            next: None,
            last: Instant::now(),
            attempts: 0,
            out: false,
            away: false,
            reason,
            refused: false,
            jitter: Jitter::new(rand::random()),
        }
    }

    /// Returns the time of the next attempt, if a connection is needed.
    pub(crate) fn next_attempt(&self) -> Option<Instant> {
        self.next
    }

    /// True after a connection has ended or become silent, until a new one is adopted.
    pub(crate) fn is_out(&self) -> bool {
        self.out
    }

    /// Returns the reason of the outage, while the server is known to be away.
    pub(crate) fn absence(&self) -> Option<&Failure> {
        self.away.then_some(&self.reason)
    }

    /// Returns the reason for the missing connection.
    pub(crate) fn reason(&self) -> &Failure {
        &self.reason
    }

    /// Records that the server has carried out a request. Resets the pauses between attempts,
    /// unless a connection is being replaced.
    pub(crate) fn served(&mut self) {
        if self.next.is_none() {
            self.attempts = 0;
        }
        self.away = false;
    }

    /// True if an attempt is in progress.
    pub(crate) fn is_connecting(&self) -> bool {
        !self.connecting.is_empty()
    }

    /// Marks the server of a lazy store as away until the first connection, and schedules the first
    /// attempt at once.
    pub(crate) fn begins_away(&mut self) {
        self.replace();
        self.away = true;
    }

    /// Records that the server is unreachable, and schedules a new connection.
    pub(crate) fn goes_out(&mut self) {
        self.out = true;
        self.replace();
    }

    /// Records that the connection has ended, and schedules a new one.
    pub(crate) fn lost(&mut self, reason: Failure) {
        self.reason = reason;
        self.goes_out();
    }

    /// Schedules an attempt to connect, unless one is scheduled already. The attempt begins at
    /// once, or after a pause if the server has carried out no request since the last attempt.
    pub(crate) fn replace(&mut self) {
        if self.next.is_none() {
            let pause = if self.attempts == 0 {
                Duration::ZERO
            } else {
                self.pause()
            };
            self.next = Some(Instant::now() + pause);
        }
    }

    /// If the next attempt is due, starts it by calling `open` with its time limit. Postpones it if
    /// the previous attempt began only recently and hangs or was refused. Schedules a further
    /// attempt, in case this one fails or hangs. Returns true if an attempt was due.
    pub(crate) fn attempt<F>(&mut self, now: Instant, open: impl FnOnce(Duration) -> F) -> bool
    where
        F: Future<Output = Result<T, Failure>> + Send + 'static,
    {
        if self.next.is_none_or(|at| now < at) {
            return false;
        }
        let overlap = (self.limit / 4).clamp(OVERLAP.0, OVERLAP.1);
        let begins = self.last + if self.refused { LONG_RETRY } else { overlap };
        if (self.refused || !self.connecting.is_empty()) && now < begins {
            self.next = Some(begins);
            return true;
        }
        let pause = self.pause();
        self.next = Some(now + pause);
        self.last = now;
        self.attempts = self.attempts.saturating_add(1);
        self.connecting.push(Box::pin(open(self.limit)));
        true
    }

    /// Returns the result of an attempt, if one has ended.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Option<Result<T, Failure>> {
        if self.connecting.is_empty() {
            return None;
        }
        match self.connecting.poll_next_unpin(cx) {
            Poll::Ready(ended) => ended,
            Poll::Pending => None,
        }
    }

    /// Ends all attempts, because the store has a new connection. Returns true if the server was
    /// unreachable before.
    pub(crate) fn adopted(&mut self) -> bool {
        self.next = None;
        self.connecting = FuturesUnordered::new();
        (self.away, self.refused) = (false, false);
        let was_out = mem::take(&mut self.out);
        if was_out {
            let server = self.server.clone();
            reporter::log(move || tracing::info!(%server, "connected again"));
        }
        was_out
    }

    /// Records that an attempt has failed. While there is no connection, requests are refused with
    /// `reason`. Returns true if this failure makes the server count as away.
    pub(crate) fn failed(&mut self, reason: Failure) -> bool {
        if self.attempts == 1 || (reason.is_refusal() && !self.refused) {
            let (server, error) = (self.server.clone(), reason.error.clone());
            reporter::log(move || tracing::warn!(%server, %error, "cannot connect; trying again"));
        }
        self.refused = reason.is_refusal();
        self.reason = reason;
        let begins = self.out && !self.away;
        self.away |= begins;
        begins
    }

    /// Records that the first attempt to connect, which the caller made itself, has failed.
    pub(crate) fn first_failed(&mut self, reason: Failure) {
        self.attempts = 1;
        self.lost(reason);
        self.away = true;
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
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;
    use crate::store::Retry;

    fn failure() -> Failure {
        Failure::unavailable("io", "refused".to_owned(), Retry::Later, false)
    }

    /// A store fails repeatedly to replace a connection that still works. Fails if answers on this
    /// connection shorten the pauses between the attempts: the server would get an attempt every
    /// few milliseconds.
    #[tokio::test(start_paused = true)]
    async fn pauses_grow_while_a_working_connection_is_replaced() {
        let mut supervisor =
            Supervisor::<()>::new("server".to_owned(), Duration::from_secs(1), failure());
        let mut cx = Context::from_waker(Waker::noop());
        supervisor.replace();
        for _ in 0..8 {
            let due = supervisor.next_attempt().expect("a connection is needed");
            tokio::time::sleep_until(due).await;
            let open = |_| async { Err(failure()) };
            while !supervisor.attempt(Instant::now(), open) {
                tokio::time::advance(FIRST_RETRY).await;
            }
            let ended = supervisor.poll(&mut cx).expect("it ends at once");
            supervisor.failed(ended.expect_err("it is refused"));
            supervisor.served();
        }
        let next = supervisor.next_attempt().expect("it tries again");
        let pause = next - Instant::now();
        assert!(SHORT_RETRY / 2 <= pause, "{pause:?}");
    }
}
