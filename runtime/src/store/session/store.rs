//! The lock store of a server with sessions: takes requests, and returns answers and events.

use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::time::timeout;

use super::live_session::{LONGEST_SLEEP, pause_until};
use super::reaching::reach_again;
use super::service::Service;
use super::shared::{Job, Shared};
use crate::base::full_key::FullKey;
use crate::error::LockError;
use crate::store::options::Options;
use crate::store::{LockStore, Op, Request, StoreEvent};

/// Locks at a server with sessions.
///
/// The requests run as tasks on the runtime that the store was connected in. So leases end and
/// heartbeats are sent even while the engine does not poll for events.
pub(crate) struct SessionStore<S: Service> {
    shared: Arc<Shared<S>>,
    events: UnboundedReceiver<StoreEvent>,
}

impl<S: Service> SessionStore<S> {
    /// Creates the store. Call this in the runtime that will run the requests. The service and the
    /// requests send their events through `sender`, and the store reads them from `events`.
    pub(crate) fn new(
        service: S,
        options: &Options,
        sender: UnboundedSender<StoreEvent>,
        events: UnboundedReceiver<StoreEvent>,
    ) -> Self {
        let shared = Shared::new(service, options.clock, options.io_timeout, sender);
        let shared = Arc::new(shared);
        shared.spawn(end_leases(Arc::clone(&shared)));
        shared.spawn(reach_again(Arc::clone(&shared)));
        Self { shared, events }
    }
}

impl<S: Service> Drop for SessionStore<S> {
    fn drop(&mut self) {
        self.shared.stop();
    }
}

impl<S: Service> LockStore for SessionStore<S> {
    fn is_away(&self) -> bool {
        self.shared.service.outage().is_out()
    }

    fn absence(&self, _key: &FullKey) -> Option<LockError> {
        self.shared.service.outage().absence()
    }

    fn submit(&mut self, batch: &mut Vec<Request>) {
        for request in batch.drain(..) {
            let keys = keys(&request.op);
            self.shared.submit(Job::Request(request), keys);
        }
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<StoreEvent> {
        match self.events.poll_recv(cx) {
            Poll::Ready(Some(event)) => Poll::Ready(event),
            // `None` cannot occur, because `shared` has a sender.
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }
}

/// Returns the request's keys. While the request runs, no other request for one of these keys may
/// run. A renewal returns no keys, so it never waits for other requests.
fn keys(op: &Op) -> Vec<FullKey> {
    match op {
        Op::Keep { .. } => Vec::new(),
        op => op.keys().cloned().collect(),
    }
}

/// Ends expired leases until the store is dropped.
async fn end_leases<S: Service>(shared: Arc<Shared<S>>) {
    loop {
        let now = shared.clock.now();
        let (over, next) = {
            let mut state = shared.state();
            (state.locks.over(now), state.locks.next_due())
        };
        for id in over {
            let key = id.0.clone();
            shared.submit(Job::Expire(id), vec![key]);
        }
        // Checks again at least once a second: a renewal can prolong a lease that `over` has
        // returned, and the lease may then end before `next`. Wakes up early if a new lease may end
        // before all others.
        let pause = next.map_or(LONGEST_SLEEP, |next| pause_until(shared.clock, next));
        let _ = timeout(pause, shared.earlier.notified()).await;
    }
}
