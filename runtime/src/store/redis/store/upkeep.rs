//! How the connection is replaced.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use tokio::time::Instant;

use super::{RedisStore, not_sent, reach};
use crate::base::reporter;
use crate::store::redis::wire::connect::OpenedConnection;
use crate::store::redis::wire::connection::{Connection, Generation};
use crate::store::{Failure, StoreEvent};

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

impl RedisStore {
    /// Uses `link` from now on.
    pub(super) fn adopt(&mut self, link: OpenedConnection) {
        self.last_epoch += 1;
        self.reconnect_at = None;
        self.opening = false;
        self.connecting = FuturesUnordered::new();
        if let Some(replica_acks) = &self.replica_acks {
            replica_acks.connected(link.role);
        }
        let fresh = Connection::new(self.last_epoch, link, self.io_timeout);
        if let Some(silent) = self.line.replace(fresh) {
            self.retired.push(silent);
        }
        if mem::take(&mut self.out) {
            let server = self.origin.clone();
            reporter::log(move || tracing::info!(%server, "connected again"));
            self.events.push_back(StoreEvent::Connected);
        }
        let alive = |generation| {
            let mut lines = self.line.iter().chain(&self.retired);
            lines.any(|line| line.generation == generation)
        };
        self.acquires.retain(|_, generation| alive(*generation));
        self.send_held_back();
    }

    /// A connection has ended.
    pub(super) fn lost(&mut self, generation: Generation, failure: Failure) {
        self.retired.retain(|line| line.generation != generation);
        if self
            .line
            .as_ref()
            .is_some_and(|line| line.generation == generation)
        {
            self.line = None;
            self.out = true;
            self.reason = not_sent(failure);
            self.replace();
            self.send_held_back();
        }
    }

    /// Gets a new connection, unless that is under way: at once, but after a pause if the last ones were of no use.
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

    /// Starts an attempt to connect and plans the next, which comes if this one fails or hangs.
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

    pub(super) fn connected(&mut self, result: Result<OpenedConnection, Failure>) {
        match result {
            Ok(link) => self.adopt(link),
            Err(failure) => {
                if self.attempts == 1 {
                    let (server, error) = (self.origin.clone(), failure.error.clone());
                    reporter::log(
                        move || tracing::warn!(%server, %error, "cannot connect; trying again"),
                    );
                }
                self.reason = not_sent(failure);
                self.opening = false;
                self.send_held_back();
            }
        }
    }
}
