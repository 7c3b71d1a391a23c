//! Replaces the store's connection.

use std::iter;
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

/// The pause after the first failure to connect; it doubles with each failure.
const FIRST_RETRY: Duration = Duration::from_millis(25);

/// The longest pause in the first seconds of an outage. A lease of 2 s that must survive an outage
/// of 0.4 of its ttl needs its connection back soon. The store must have it within a few hundred
/// milliseconds of the server's return.
const SHORT_RETRY: Duration = Duration::from_millis(200);

/// The longest pause in a long outage. Leases are lost by then, and connections must not flood a
/// server that comes back.
const LONG_RETRY: Duration = Duration::from_secs(1);
const SHORT_RETRIES: u32 = 30;

/// The limit of one attempt to connect again, even if requests may take longer.
const LONGEST_ATTEMPT: Duration = Duration::from_secs(5);

/// While an attempt hangs, the next begins after a quarter of an attempt's time, within these
/// bounds. So the store soon finds a server that is back, and never runs more than a handful of
/// attempts at once.
const OVERLAP: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(1));

impl RedisStore {
    /// Uses `opened` from now on.
    pub(super) fn adopt(&mut self, opened: OpenedConnection) {
        self.last_generation += 1;
        self.reconnect_at = None;
        self.opening = false;
        self.connecting = FuturesUnordered::new();
        if let Some(replica_acks) = &self.replica_acks {
            replica_acks.connected(opened.role);
        }
        let fresh = Connection::new(self.last_generation, opened, self.io_timeout);
        if let Some(silent) = self.connection.replace(fresh) {
            self.retired.push(silent);
        }
        if mem::take(&mut self.out) {
            let server = self.address.clone();
            reporter::log(move || tracing::info!(%server, "connected again"));
            self.events.push_back(StoreEvent::Connected);
        }
        let alive = |generation| {
            let mut connections = self.connection.iter().chain(&self.retired);
            connections.any(|connection| connection.generation == generation)
        };
        self.acquires.retain(|_, generation| alive(*generation));
        self.send_held_back();
    }

    /// A connection has ended.
    pub(super) fn lost(&mut self, generation: Generation, failure: Failure) {
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
            self.out = true;
            self.reason = not_sent(failure);
            self.replace();
            self.send_held_back();
        }
        for exchange in given_up {
            self.answered(exchange);
        }
    }

    /// Plans a new connection, unless one is planned already: at once, or after a pause if no
    /// request was carried out since the last attempt.
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
        let (address, names) = (self.address.clone(), Arc::clone(&self.names));
        self.connecting.push(Box::pin(reach(address, names, limit)));
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
            Ok(opened) => self.adopt(opened),
            Err(failure) => {
                if self.attempts == 1 {
                    let (server, error) = (self.address.clone(), failure.error.clone());
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
