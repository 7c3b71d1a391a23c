//! State and tasks that the requests of a pool share.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::{AbortHandle, JoinSet};

use super::lanes::{Lanes, Running};
use super::live_session::{LiveSession, OwnNode};
use super::locks::{LockId, Locks};
use super::places::{Place, Places};
use super::service::{Node, Service, Trouble};
use super::sessions::Sessions;
use crate::base::clock::Clock;
use crate::base::full_key::FullKey;
use crate::base::reporter;
use crate::base::seeded::seeded;
use crate::base::token::{Nonce, Token};
use crate::fence::Fence;
use crate::store::{Request, StoreEvent};

/// Bounds of the pause between attempts to remove a node or to close a session.
const FIRST_RETRY: Duration = Duration::from_millis(50);
const LONGEST_RETRY: Duration = Duration::from_secs(1);

/// A job, which begins when all earlier jobs for its keys are over.
#[derive(Debug)]
pub(super) enum Job {
    Request(Request),
    /// Ends an expired lease.
    Expire(LockId),
    /// Gives up the waiting node with this number. The node has become the first of its directory,
    /// but no call has taken the lock with it in time.
    Unclaim(FullKey, u64),
}

pub(super) struct Shared<S: Service> {
    pub(super) service: S,
    pub(super) clock: Clock,
    pub(super) io_timeout: Duration,
    pub(super) sessions: Sessions<S>,
    nonce: Nonce,
    /// Number of nodes created so far.
    nodes: AtomicU64,
    runtime: Handle,
    events: UnboundedSender<StoreEvent>,
    state: Mutex<State<S>>,
    /// Wake-up of the task that ends expired leases, sent for each new lease: it may end before all
    /// others.
    pub(super) earlier: Notify,
}

/// Mutable state of the requests, under one mutex.
pub(super) struct State<S: Service> {
    pub(super) lanes: Lanes<Job>,
    pub(super) locks: Locks<OwnNode<S>>,
    pub(super) places: Places<OwnNode<S>>,
    tasks: JoinSet<()>,
}

impl<S: Service> State<S> {
    /// Gives up the place of this process in the queue of `key`, and forgets an unanswered request
    /// that uses the node of this place. Returns the node, which the caller must remove.
    pub(super) fn give_up_place(&mut self, key: &FullKey) -> Option<OwnNode<S>> {
        let place = self.places.remove(key)?;
        let id = (key.clone(), place.asked_by);
        let lock = self.locks.get(&id);
        if lock.is_some_and(|lock| lock.node == place.node) && !seeded!(PlaceGivenTwice) {
            self.locks.remove(&id);
        }
        Some(place.node.clone())
    }
}

impl<S: Service> Shared<S> {
    /// Creates the state. Call this in the runtime that will run the requests.
    pub(super) fn new(
        service: S,
        clock: Clock,
        io_timeout: Duration,
        events: UnboundedSender<StoreEvent>,
    ) -> Self {
        let sessions = Sessions::new(service.classes());
        Self {
            service,
            clock,
            io_timeout,
            sessions,
            nonce: Nonce::new(),
            nodes: AtomicU64::new(0),
            runtime: Handle::current(),
            events,
            state: Mutex::new(State {
                lanes: Lanes::default(),
                locks: Locks::default(),
                places: Places::default(),
                tasks: JoinSet::new(),
            }),
            earlier: Notify::new(),
        }
    }

    /// Locks the state. The guard must not be held across an `await`.
    pub(super) fn state(&self) -> MutexGuard<'_, State<S>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn emit(&self, event: StoreEvent) {
        // Fails only after the store was dropped. Then no engine reads events.
        let _ = self.events.send(event);
    }

    /// Returns a node with a name that no other node has. Does not yet create it on the server.
    pub(super) fn new_node(&self, session: &Arc<LiveSession<S>>, id: &LockId) -> OwnNode<S> {
        let (key, token) = id;
        let number = self.nodes.fetch_add(1, Ordering::Relaxed);
        let name = if seeded!(NodesOfAnySession) {
            *token
        } else {
            let given = self.service.name(&session.server, key, number);
            given.unwrap_or_else(|| Token::random(self.nonce))
        };
        OwnNode {
            session: Arc::clone(session),
            node: Node {
                key: key.clone(),
                name,
                number,
            },
        }
    }

    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        let mut state = self.state();
        while state.tasks.try_join_next().is_some() {}
        state.tasks.spawn_on(task, &self.runtime)
    }

    /// Ends all tasks.
    pub(super) fn stop(&self) {
        self.state().tasks.abort_all();
    }

    /// Appends a job to the lanes (queues) of its keys. Starts the job if it is the first in all of
    /// these lanes.
    pub(super) fn submit(self: &Arc<Self>, job: Job, keys: Vec<FullKey>) {
        let running = self.state().lanes.enter(job, keys);
        if let Some(running) = running {
            self.run(running);
        }
    }

    fn run(self: &Arc<Self>, running: Running<Job>) {
        let shared = Arc::clone(self);
        self.spawn(async move {
            let Running { id, job, keys } = running;
            shared.carry_out(job).await;
            let next = shared.state().lanes.leave(id, &keys);
            for running in next {
                shared.run(running);
            }
        });
    }

    /// Ends the session, and reports all of its locks as lost.
    pub(super) fn session_ended(&self, session: &Arc<LiveSession<S>>) {
        if !session.end() {
            return;
        }
        let mut state = self.state();
        let lost = state.locks.remove_all(|node| node.is_of(session));
        let places = state.places.remove_all(|node| node.is_of(session));
        let held = lost.into_iter().filter(|(_, lock)| lock.fence.is_some());
        let held: Vec<_> = held.map(|(id, _)| id).collect();
        let count = held.len();
        if !held.is_empty() && !seeded!(LostSessionUnreported) {
            // Sent while `state` is locked, because `reply` also locks it to send an answer. So
            // `reply` has either reported these locks as taken before this event, or will report a
            // failure.
            self.emit(StoreEvent::Lost(held));
        }
        drop(state);
        reporter::log(move || {
            tracing::warn!(store = S::NAME, locks = count, "a session has ended");
        });
        for key in places {
            self.emit(StoreEvent::Turn(key));
        }
    }

    /// Handles the revocation of a node of the session. If a token holds its lock with this node,
    /// reports the revocation to the engine. If the node waits in the queue and no token uses it,
    /// removes the node, and makes the engine request another place in the queue.
    pub(super) fn revoked(
        self: &Arc<Self>,
        session: &Arc<LiveSession<S>>,
        name: Token,
        fence: Fence,
    ) {
        let mut state = self.state();
        let is_of = |own: &OwnNode<S>| own.is_of(session) || seeded!(RevocationOfAnySession);
        let is_this = |own: &OwnNode<S>| own.node.name == name && is_of(own);
        if let Some((key, token)) = state.locks.revoke(is_this, fence) {
            if !seeded!(RevocationUnseen) {
                let lease = token.half();
                // Sent while `state` is locked, for the same reason as `Lost` in `session_ended`.
                self.emit(StoreEvent::Revoked { key, lease });
            }
            return;
        }
        // If a token requests the lock with this node, the reply to that request shows the
        // revocation, so the node is not given up here.
        let is_asked = state.locks.any(is_this) || seeded!(RevokedPlaceKept);
        let is_place =
            |place: &Place<OwnNode<S>>| is_this(&place.node) && place.fence == Some(fence);
        let key = state.places.key_of(is_place).filter(|_| !is_asked);
        let given_up = key.and_then(|key| Some((state.give_up_place(&key)?, key)));
        drop(state);
        if let Some((own, key)) = given_up {
            self.remove_for_good(own);
            self.emit(StoreEvent::Turn(key));
        }
    }

    /// Closes a session that this process no longer uses, so that the server removes the session's
    /// nodes soon. Retries without limit.
    pub(super) async fn close(&self, session: &LiveSession<S>) {
        let mut pause = FIRST_RETRY;
        while let Err(Trouble::Failed(_)) =
            self.service.close(&session.server, self.io_timeout).await
        {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_RETRY);
        }
    }

    /// Removes a node. Retries without limit, because a remaining node blocks its key until the
    /// session ends.
    pub(super) fn remove_for_good(self: &Arc<Self>, node: OwnNode<S>) {
        let shared = Arc::clone(self);
        self.spawn(async move {
            let mut pause = FIRST_RETRY;
            let OwnNode { session, node } = node;
            let patience = shared.io_timeout;
            while let Err(Trouble::Failed(_)) = shared
                .service
                .remove(&session.server, &node, patience)
                .await
            {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_RETRY);
            }
        });
    }
}
