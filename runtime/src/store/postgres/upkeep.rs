//! Replaces the store's connection.

use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use tokio::time::Instant;

use super::connection::{self, Connection, Generation, Opened};
use super::failure;
use super::store::PostgresStore;
use crate::base::reporter;
use crate::store::{Failure, StoreEvent};

/// Pause after the first failure to connect. It doubles with each failure.
const FIRST_RETRY: Duration = Duration::from_millis(25);

/// Longest pause in the first seconds of an outage, so that leases survive a short outage.
const SHORT_RETRY: Duration = Duration::from_millis(200);

/// Longest pause in a long outage. A server that comes back must not drown in connections.
const LONG_RETRY: Duration = Duration::from_secs(1);
const SHORT_RETRIES: u32 = 30;

/// Limit for an attempt to connect again, even if requests may take longer.
const LONGEST_ATTEMPT: Duration = Duration::from_secs(5);

/// While an attempt hangs, the next one begins after a quarter of an attempt's time, within these
/// bounds. That is soon enough to find a returned server, with never more than a handful of
/// attempts at once.
const OVERLAP: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(1));

impl PostgresStore {
    /// Uses `opened` from now on.
    pub(super) fn adopt(&mut self, opened: Opened) {
        self.last_generation += 1;
        self.reconnect_at = None;
        self.connecting = FuturesUnordered::new();
        self.connection = Some(Connection::new(self.last_generation, opened));
        if std::mem::take(&mut self.out) {
            let server = self.address.to_string();
            reporter::log(move || tracing::info!(server, "connected again"));
            self.events.push_back(StoreEvent::Connected);
        }
    }

    /// Drops a connection that has ended, or is given up. The calls on it fail at the next poll.
    pub(super) fn lost(&mut self, generation: Generation, failure: Failure) {
        let current = self.connection.as_ref();
        if current.is_none_or(|connection| connection.generation != generation) {
            return;
        }
        self.connection = None;
        self.acquires.clear();
        self.out = true;
        self.reason = failure::not_sent(failure);
        self.replace();
    }

    /// Schedules a new connection, unless one is scheduled already: at once, or after a pause if
    /// the last attempts were of no use.
    pub(super) fn replace(&mut self) {
        if self.reconnect_at.is_none() {
            let pause = if self.attempts == 0 {
                Duration::ZERO
            } else {
                self.pause()
            };
            self.reconnect_at = Some(Instant::now() + pause);
        }
    }

    /// Starts an attempt to connect. Schedules the next one, for the case that this one fails or
    /// hangs.
    pub(super) fn attempt(&mut self) {
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
        let opening = connection::open(self.address.clone(), Some(self.process), limit);
        self.connecting.push(Box::pin(opening));
    }

    pub(super) fn connected(&mut self, result: Result<Opened, Failure>) {
        match result {
            Ok(opened) => self.adopt(opened),
            Err(failure) => {
                if self.attempts == 1 {
                    let (server, error) = (self.address.to_string(), failure.error.clone());
                    reporter::log(
                        move || tracing::warn!(server, %error, "cannot connect; trying again"),
                    );
                }
                self.reason = failure::not_sent(failure);
            }
        }
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
