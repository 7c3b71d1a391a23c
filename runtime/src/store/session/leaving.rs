//! Releases locks, ends leases, and leaves queues.

use std::sync::Arc;
use std::time::Duration;

use super::live_session::{OwnNode, pause_until};
use super::locks::{Lock, LockId};
use super::service::{Service, Trouble};
use super::shared::Shared;
use crate::base::clock::Instant;
use crate::base::full_key::FullKey;
use crate::base::seeded::seeded;
use crate::store::{Failure, Reply};

/// Longest time that other requests for a key wait until an expired or unclaimed node is removed.
/// After that, the removal continues in the background.
const FIRST_REMOVAL: Duration = Duration::from_secs(1);

impl<S: Service> Shared<S> {
    pub(super) async fn release(
        self: &Arc<Self>,
        id: LockId,
        keep: Option<Duration>,
        patience: Duration,
    ) -> Result<Reply, Failure> {
        let began = self.clock.now();
        let Some(lock) = self.begin_release(&id, keep.map(|keep| began + keep)) else {
            // The token has no unanswered acquire and no node.
            return Ok(released(false));
        };
        let (session, node) = (&lock.node.session, &lock.node.node);
        let answer = match (keep, lock.fence) {
            (Some(keep), Some(fence)) => {
                self.service
                    .keep(&session.server, node, fence, keep, patience)
                    .await
            }
            // Without a fence, the token never had the lock. So there is nothing to keep, and the
            // token's node is removed.
            _ => self.service.remove(&session.server, node, patience).await,
        };
        let found = match self.or_ended(session, answer) {
            Ok(found) => found,
            Err(failure) if failure.code() == "session" => false,
            Err(failure) => return Err(failure),
        };
        self.state().locks.remove(&id);
        if !found && keep.is_some() {
            // The node was not found, so nothing was kept. But an unanswered earlier request may
            // still create the node.
            self.remove_for_good(lock.node);
        } else if let (Some(keep), Some(_)) = (keep, lock.fence) {
            let (shared, kept) = (Arc::clone(self), lock.node.clone());
            self.spawn(async move {
                let end = began + keep;
                while shared.clock.now() < end {
                    tokio::time::sleep(pause_until(shared.clock, end)).await;
                }
                shared.remove_for_good(kept);
            });
        }
        Ok(released(found))
    }

    /// Returns the lock that `id` has or requests, before its release.
    fn begin_release(&self, id: &LockId, kept_until: Option<Instant>) -> Option<Lock<OwnNode<S>>> {
        let mut guard = self.state();
        let state = &mut *guard;
        let lock = state.locks.get(id).cloned()?;
        // No other token may get the node during its removal.
        if !seeded!(ReleasedPlaceKept) {
            state.places.remove_node(&id.0, &lock.node);
        }
        // If the answer is lost, the server may have kept the node. The end of the lease must not
        // remove the node earlier.
        if let Some(kept_until) = kept_until.filter(|_| lock.fence.is_some()) {
            state.locks.keep(id, kept_until);
        }
        Some(lock)
    }

    /// Removes the node of an expired lease.
    pub(super) async fn expire(self: &Arc<Self>, id: &LockId) {
        let now = self.clock.now();
        let over = {
            let mut state = self.state();
            // The lease may have been renewed or released in the meantime.
            let lock = state.locks.get(id);
            let over = lock.is_some_and(|lock| lock.until <= now);
            let lock = over.then(|| state.locks.remove(id)).flatten();
            if let Some(lock) = &lock {
                state.places.remove_node(&id.0, &lock.node);
            }
            lock
        };
        if let Some(lock) = over
            && !seeded!(LeaseNeverEnds)
        {
            self.removed_or_later(lock.node).await;
        }
    }

    /// Removes a node, so that the next request for its key does not find it. If the server does
    /// not answer in time, the removal continues in the background, and the next request begins.
    pub(super) async fn removed_or_later(self: &Arc<Self>, own: OwnNode<S>) {
        let (session, node) = (&own.session, &own.node);
        let removing = self.service.remove(&session.server, node, FIRST_REMOVAL);
        if let Err(Trouble::Failed(_)) = removing.await {
            self.remove_for_good(own);
        }
    }

    /// Gives up the place of this process in the queue of `key`.
    pub(super) async fn leave_queue(
        self: &Arc<Self>,
        key: &FullKey,
        patience: Duration,
    ) -> Result<Reply, Failure> {
        let own = self.state().give_up_place(key);
        let Some(own) = own else {
            return Ok(Reply::Left);
        };
        let (session, node) = (&own.session, &own.node);
        let removing = self.service.remove(&session.server, node, patience);
        match removing.await {
            Ok(_) | Err(Trouble::Ended) => Ok(Reply::Left),
            Err(Trouble::Failed(failure)) => {
                // The engine does not repeat a request to leave the queue, so the store must retry
                // the removal. Otherwise, the processes behind this process would wait for its
                // node.
                self.remove_for_good(own);
                Err(failure)
            }
        }
    }
}

fn released(found: bool) -> Reply {
    Reply::Released {
        found,
        // Requests for one key are carried out in order, and a removal is final.
        ordered: true,
    }
}
