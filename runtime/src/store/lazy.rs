//! A wrapper that connects a store on a server in the background.
//!
//! Until the first connection, the wrapper behaves like a store whose server is away. It refuses
//! all requests, so a call without a `wait` fails at once. After the first connection, it forwards
//! all requests to the connected store.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, Sleep, sleep};

use super::backend::Target;
use super::link::{self, supervisor::Supervisor};
use super::options::Options;
use super::{Connecting, Failure, LockStore, Request, Retry, Socket, StoreEvent};
use crate::base::full_key::FullKey;
use crate::base::seeded::seeded;
use crate::error::LockError;

/// Error code of calls made before the first attempt to connect has ended.
const UNCONNECTED: &str = "connecting";

/// A store that is not connected yet, or the connected store.
struct LazyStore {
    target: Target,
    options: Options,
    supervisor: Supervisor<Box<dyn LockStore>>,
    /// Fires when the next attempt to connect is due.
    timer: Pin<Box<Sleep>>,
    events: VecDeque<StoreEvent>,
    store: Option<Box<dyn LockStore>>,
}

/// Returns a future that gives a store for `target` at once. This store then connects in the
/// background.
pub(crate) fn connect(target: Target, options: Options) -> Connecting {
    Box::pin(async move {
        let server = target.to_string();
        let reason = not_yet(&server);
        let mut supervisor = Supervisor::new(server, options.io_timeout, reason);
        supervisor.begins_away();
        Ok(Box::new(LazyStore {
            target,
            options,
            supervisor,
            timer: Box::pin(sleep(Duration::ZERO)),
            events: VecDeque::new(),
            store: None,
        }) as _)
    })
}

impl LazyStore {
    /// True if an attempt to connect has failed.
    fn has_failed(&self) -> bool {
        self.supervisor.reason().code() != UNCONNECTED
    }

    /// Starts an attempt to connect if one is due, and handles the results of ended attempts.
    /// Returns true if there was anything to do.
    fn advance(&mut self, cx: &mut Context<'_>) -> bool {
        let mut moved = false;
        while let Some(result) = self.supervisor.poll(cx) {
            moved = true;
            match result {
                Ok(store) => {
                    self.supervisor.adopted();
                    self.store = Some(store);
                    self.events.push_back(StoreEvent::Connected);
                }
                Err(failure) => drop(self.supervisor.failed(failure)),
            }
        }
        if self.store.is_some() || (self.has_failed() && seeded!(LazyGivesUp)) {
            return moved;
        }
        // While one attempt is in progress, no second one begins, even if the first seems to hang.
        // It may be creating the tables of a database, which takes long.
        if self.supervisor.is_connecting() {
            return moved;
        }
        let (target, options) = (&self.target, &self.options);
        let open = |_| attempt(target.connect(options.clone()));
        moved |= self.supervisor.attempt(Instant::now(), open);
        if let Some(next) = self.supervisor.next_attempt() {
            moved |= link::poll_by(&mut self.timer, next, cx);
        }
        moved
    }
}

impl LockStore for LazyStore {
    fn submit(&mut self, batch: &mut Vec<Request>) {
        if let Some(store) = &mut self.store {
            return store.submit(batch);
        }
        for request in batch.drain(..) {
            let failure = self.supervisor.reason().clone();
            let event = StoreEvent::Reply(request.id, Err(failure));
            self.events.push_back(event);
        }
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<StoreEvent> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Poll::Ready(event);
            }
            if let Some(store) = &mut self.store {
                return store.poll_event(cx);
            }
            if !self.advance(cx) {
                return Poll::Pending;
            }
        }
    }

    fn is_away(&self) -> bool {
        match &self.store {
            Some(store) => store.is_away(),
            // Unlike `absence`, returns true only after a failed attempt: a first attempt that has
            // not ended yet is no sign of an outage.
            None => self.has_failed(),
        }
    }

    fn absence(&self, key: &FullKey) -> Option<LockError> {
        match &self.store {
            Some(store) => store.absence(key),
            None => Some(self.supervisor.absence()?.error.clone()),
        }
    }

    fn sockets(&mut self) -> Option<Vec<Arc<dyn Socket>>> {
        self.store.as_mut()?.sockets()
    }

    fn verifies(&self) -> bool {
        self.target.verifies()
    }
}

/// Runs an attempt to connect as a separate task, so that it takes no time from the threads that
/// poll the store. Dropping the returned future aborts the task.
fn attempt(connecting: Connecting) -> impl Future<Output = Result<Box<dyn LockStore>, Failure>> {
    let task = Task(tokio::spawn(connecting));
    async move {
        match task.await {
            Ok(Ok(store)) => Ok(store),
            Ok(Err(error)) => Err(later(error)),
            Err(_) => Err(later(LockError::unavailable(
                "stopped",
                "the attempt to connect panicked",
            ))),
        }
    }
}

struct Task<T>(JoinHandle<T>);

impl<T> Future for Task<T> {
    type Output = <JoinHandle<T> as Future>::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx)
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn not_yet(server: &str) -> Failure {
    later(LockError::unavailable(
        UNCONNECTED,
        format!("the pool has no connection to {server} yet; it connects in the background"),
    ))
}

/// Returns the failure of a request that was not sent. A retry may succeed after the next attempt
/// to connect.
fn later(error: LockError) -> Failure {
    Failure {
        error,
        retry: Retry::Later,
        executed: false,
    }
}
