//! Acquires locks: creates nodes, and waits until each is the first in the directory of its key.

use std::sync::Arc;
use std::time::Duration;

use super::live_session::{LiveSession, OwnNode, ended};
use super::locks::{Lock, LockId};
use super::requests::outgrown;
use super::service::{Entered, EnteredAll, First, Node, Service, Turn};
use super::shared::{Job, Shared};
use crate::base::clock::Instant;
use crate::base::full_key::FullKey;
use crate::fence::Fence;
use crate::owner::Owner;
use crate::store::{CLAIM, Failure, Reply, StoreEvent, Take};

/// Pause after a failed wait for a node to become the first of its directory.
const RETRY: Duration = Duration::from_millis(200);

/// The node with which a token requests its lock.
struct Asking<S: Service> {
    own: OwnNode<S>,
    /// True if an earlier request may have created the node.
    again: bool,
    /// Set if the node is known to be the first of its directory.
    first: Option<First>,
}

impl<S: Service> Shared<S> {
    pub(super) async fn acquire(
        self: &Arc<Self>,
        take: Take,
        patience: Duration,
    ) -> Result<Reply, Failure> {
        let (ttl, function, queue) = (take.ttl, take.function, take.queue);
        let id = (take.key, take.token);
        let began = self.clock.now();
        let session = self.session(ttl, patience).await?;
        let Asking { own, again, first } = self.asks(&id, &session, began + ttl, queue);
        if !own.session.fits(ttl) {
            return Err(outgrown(S::NAME));
        }
        let session = &own.session;
        let entered = if let Some(first) = first {
            Ok(Entered::First(first))
        } else {
            let entering =
                self.service
                    .enter(&session.server, &own.node, queue, function, patience);
            self.or_ended(session, entering.await)
        };
        match entered {
            Ok(Entered::First(First { fence, others })) => {
                self.is_first(&id, &own, fence)?;
                self.covers(session, began, ttl, patience).await?;
                self.has_it_still(&id, &own)?;
                Ok(acquired(fence, others))
            }
            Ok(Entered::Behind { fence, owner }) => {
                let is_place = self.is_place(&id, &own, fence, queue);
                if is_place {
                    self.waits_for_its_turn(&id.0, &own);
                } else {
                    self.remove_for_good(own);
                }
                Ok(held(is_place && queue, owner))
            }
            Ok(Entered::Held(owner)) => {
                let mut state = self.state();
                state.locks.remove(&id);
                state.places.remove_node(&id.0, &own);
                drop(state);
                if again {
                    // Removed with retries, because an unanswered earlier request of this token may
                    // still create the node.
                    self.remove_for_good(own);
                }
                Ok(held(false, owner))
            }
            Err(failure) => {
                if !failure.executed && !again {
                    let mut state = self.state();
                    state.locks.remove(&id);
                    state.places.remove_node(&id.0, &own);
                }
                Err(failure)
            }
        }
    }

    /// Returns the node with which the token requests its lock. This is the token's own node, the
    /// node with which this process already waits (its place), or a new node.
    fn asks(
        self: &Arc<Self>,
        id: &LockId,
        session: &Arc<LiveSession<S>>,
        until: Instant,
        queue: bool,
    ) -> Asking<S> {
        let mut guard = self.state();
        let state = &mut *guard;
        let (key, token) = id;
        if let Some(lock) = state.locks.get(id) {
            let own = lock.node.clone();
            state.locks.renew(id, until);
            let (again, first) = (true, None);
            return Asking { own, again, first };
        }
        let (mut given_up, mut own, mut first) = (None, None, None);
        if let Some(place) = state.places.get_mut(key) {
            if place.node.is_of(session) {
                let before = std::mem::replace(&mut place.asked_by, *token);
                own = Some(place.node.clone());
                first = place.first;
                // A node can serve only one token. If the token that last used the place has an
                // unanswered request, that request is forgotten.
                state.locks.remove(&(key.clone(), before));
            } else {
                given_up = state.give_up_place(key);
            }
        }
        let again = own.is_some();
        let own = own.unwrap_or_else(|| self.new_node(session, id));
        if queue && !again {
            state.places.insert(key.clone(), own.clone(), *token);
        }
        state.locks.ask(id.clone(), own.clone(), until);
        drop(guard);
        self.earlier.notify_one();
        if let Some(node) = given_up {
            // The place belongs to another session, which serves other ttls or is over.
            self.remove_for_good(node);
        }
        Asking { own, again, first }
    }

    /// Records that the token's node is not the first of its directory. Returns true if the node is
    /// the place of this process. During the request, the place may have been given up and its node
    /// removed. The request has then created the node again, which now becomes the place again.
    fn is_place(&self, id: &LockId, own: &OwnNode<S>, fence: Fence, queue: bool) -> bool {
        let mut state = self.state();
        let asked = state.locks.remove(id);
        let (key, token) = id;
        let revoked = |asked: &Lock<_>| asked.is_revoked_at(fence);
        if asked.as_ref().is_some_and(revoked) {
            state.places.remove_node(key, own);
            return false;
        }
        if queue && asked.is_some() && state.places.get_mut(key).is_none() {
            state.places.insert(key.clone(), own.clone(), *token);
        }
        let place = state.places.get_mut(key).filter(|place| place.node == *own);
        place.map(|place| place.fence = Some(fence)).is_some()
    }

    /// Grants the lock to the token, because its node is the first. The node now belongs to the
    /// token alone, so it is no longer the place of this process.
    fn is_first(&self, id: &LockId, own: &OwnNode<S>, fence: Fence) -> Result<(), Failure> {
        let mut state = self.state();
        state.places.remove_node(&id.0, own);
        if state.locks.granted(id, fence) {
            return Ok(());
        }
        Err(ended(S::NAME))
    }

    /// Fails if the token lost its node while the session was being confirmed.
    fn has_it_still(&self, id: &LockId, own: &OwnNode<S>) -> Result<(), Failure> {
        let state = self.state();
        let lock = state.locks.get(id);
        if lock.is_some_and(|lock| lock.node == *own) {
            return Ok(());
        }
        Err(ended(S::NAME))
    }

    /// Spawns a task that notifies the engine when the waiting node `own` is the first of its
    /// directory.
    fn waits_for_its_turn(self: &Arc<Self>, key: &FullKey, own: &OwnNode<S>) {
        let waits = {
            let mut state = self.state();
            let place = state.places.get_mut(key);
            place.map(|place| place.waits.is_some())
        };
        if waits != Some(false) {
            return;
        }
        let shared = Arc::clone(self);
        let (waited_for, waiting) = (key.clone(), own.clone());
        let handle = self.spawn(async move { shared.turn(waited_for, waiting).await });
        let mut state = self.state();
        if let Some(place) = state.places.get_mut(key)
            && place.node == *own
        {
            place.waits = Some(handle);
        } else {
            handle.abort();
        }
    }

    async fn turn(self: &Arc<Self>, key: FullKey, own: OwnNode<S>) {
        loop {
            match self.service.turn(&own.session.server, &own.node).await {
                Ok(Turn::First(first)) => {
                    self.state().places.has_its_turn(&key, &own, first);
                    break;
                }
                Ok(Turn::Gone) => {
                    // Another client has removed the node. The event `Turn` makes the engine repeat
                    // its request, which gets a new place.
                    let was_place = self.state().places.remove_node(&key, &own);
                    if was_place {
                        // An unanswered earlier request may still create the node again.
                        self.remove_for_good(own);
                        self.emit(StoreEvent::Turn(key));
                    }
                    return;
                }
                Err(_) => tokio::time::sleep(RETRY).await,
            }
            if own.session.is_over() {
                return;
            }
        }
        self.emit(StoreEvent::Turn(key.clone()));
        tokio::time::sleep(CLAIM).await;
        self.submit(Job::Unclaim(key.clone(), own.node.number), vec![key]);
    }

    /// Gives up a place whose node is the first of its directory, if no call has claimed the place
    /// in time. The next process in the queue then gets the lock.
    pub(super) async fn unclaim(self: &Arc<Self>, key: &FullKey, number: u64) {
        let own = {
            let mut state = self.state();
            let place = state.places.get_mut(key);
            let own = place.map(|place| place.node.clone());
            let own = own.filter(|own| own.node.number == number);
            own.and_then(|_| state.give_up_place(key))
        };
        if let Some(own) = own {
            self.removed_or_later(own).await;
        }
    }

    pub(super) async fn acquire_all(
        self: &Arc<Self>,
        keys: Vec<LockId>,
        ttl: Duration,
        function: &'static str,
        patience: Duration,
    ) -> Result<Reply, Failure> {
        let began = self.clock.now();
        let session = self.session(ttl, patience).await?;
        let asked = keys.iter();
        let asked = asked.map(|id| self.asks(id, &session, began + ttl, false));
        let asked = asked.map(|asking| (asking.own, asking.again));
        let (nodes, again): (Vec<OwnNode<S>>, Vec<bool>) = asked.unzip();
        if !nodes.iter().all(|node| node.is_of(&session)) {
            return Ok(Reply::Apart);
        }
        let names: Vec<Node> = nodes.iter().map(|own| own.node.clone()).collect();
        let entering = self
            .service
            .enter_all(&session.server, &names, function, patience);
        let entered = self.or_ended(&session, entering.await);
        let nothing = match &entered {
            Ok(EnteredAll::First(_)) => false,
            Ok(EnteredAll::Held(..) | EnteredAll::Apart) => true,
            Err(failure) => !failure.executed,
        };
        if nothing {
            let mut state = self.state();
            for (id, _) in keys.iter().zip(again).filter(|(_, again)| !again) {
                state.locks.remove(id);
            }
        }
        match entered? {
            EnteredAll::Apart => Ok(Reply::Apart),
            EnteredAll::Held(at, owner) => Ok(Reply::HeldAmong {
                at,
                left: None,
                owner: owner.map(Arc::new),
            }),
            EnteredAll::First(fences) => {
                for ((id, own), fence) in keys.iter().zip(&nodes).zip(&fences) {
                    self.is_first(id, own, *fence)?;
                }
                self.covers(&session, began, ttl, patience).await?;
                for (id, own) in keys.iter().zip(&nodes) {
                    self.has_it_still(id, own)?;
                }
                let acquired = fences.into_iter().map(|fence| acquired(fence, false));
                Ok(Reply::AcquiredAll(acquired.collect()))
            }
        }
    }
}

fn acquired(fence: Fence, others: bool) -> Reply {
    Reply::Acquired {
        fence: Some(fence),
        // No fences can be reserved, because the server has one counter for the fences of all keys.
        // The next numbers may go to other keys.
        reserved_fences: 0,
        wanted: Some(others),
    }
}

/// Returns `Held` without an end of the lease, because a node exists until its holder removes it or
/// its session ends.
fn held(queued: bool, owner: Option<Owner>) -> Reply {
    Reply::Held {
        left: None,
        queued,
        owner: owner.map(Arc::new),
    }
}
