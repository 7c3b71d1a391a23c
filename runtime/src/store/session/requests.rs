//! Passes each request to its function, and renews leases.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::live_session::{LiveSession, OwnNode, ended};
use super::locks::{Lock, LockId};
use super::service::{Answer, Node, Service, Trouble};
use super::shared::{Job, Shared};
use crate::base::clock::Instant;
use crate::base::seeded::seeded;
use crate::error::LockError;
use crate::fence::Fence;
use crate::store::{
    Failure, Give, GiveKind, Op, OpId, Renewal, Reply, Request, Retry, StoreEvent, TakeKind,
};

/// Least time to wait for the confirmation of a session, even if the request's `patience` is
/// shorter.
const LEAST_PATIENCE: Duration = Duration::from_secs(1);

/// A renewal whose token holds its lock. `at` is the index of the renewal in the batch.
struct Due<S: Service> {
    at: usize,
    id: LockId,
    node: OwnNode<S>,
    fence: Fence,
    ttl: Duration,
}

impl<S: Service> Shared<S> {
    pub(super) async fn carry_out(self: &Arc<Self>, job: Job) {
        match job {
            Job::Request(Request { id, op, patience }) => {
                let asked = asked_by(&op);
                let result = self.answer(op, patience).await;
                self.reply(id, &asked, result);
            }
            Job::Expire(id) => self.expire(&id).await,
            Job::Unclaim(key, number) => self.unclaim(&key, number).await,
        }
    }

    /// Sends the reply to a request. The locks that the request has taken may have been lost
    /// already, because their session has ended or they were taken away by force. The reply is then
    /// a failure, because no event can report the loss of locks that the engine does not have yet.
    fn reply(self: &Arc<Self>, id: OpId, asked: &[LockId], result: Result<Reply, Failure>) {
        let mut state = self.state();
        let is_taken = matches!(result, Ok(Reply::Acquired { .. } | Reply::AcquiredAll(_)));
        let is_gone = |id| state.locks.get(id).is_none_or(Lock::is_revoked);
        let is_gone = is_taken && asked.iter().any(is_gone);
        // A request takes all of its locks or none. So if one lock is lost, the other locks of the
        // request are given up, too.
        let left = asked.iter().filter(|_| is_gone);
        let left: Vec<_> = left.filter_map(|id| state.locks.remove(id)).collect();
        let result = if is_gone { Err(gone(S::NAME)) } else { result };
        self.emit(StoreEvent::Reply(id, result));
        drop(state);
        for lock in left {
            self.remove_for_good(lock.node);
        }
    }

    async fn answer(self: &Arc<Self>, op: Op, patience: Duration) -> Result<Reply, Failure> {
        match op {
            Op::Take(take) => match take.kind {
                TakeKind::Lock { .. } => self.acquire(take, patience).await,
                TakeKind::Share { .. } => Err(no_shares(S::NAME)),
                TakeKind::Recall => Err(no_results(S::NAME)),
            },
            Op::TakeAll {
                keys,
                ttl,
                function,
            } => self.acquire_all(keys, ttl, function, patience).await,
            // A downgrade to a share is ignored: the lock stays exclusive.
            Op::Keep { renewals, .. } => self.renew(renewals, patience).await,
            Op::Give(Give {
                kind: GiveKind::Record(_),
                ..
            })
            | Op::Forget { .. } => Err(no_results(S::NAME)),
            Op::Give(give) => {
                self.release((give.key, give.token), give.keep, patience)
                    .await
            }
            Op::Adopt { .. } => Err(no_adoption(S::NAME)),
            Op::Leave { key } => self.leave_queue(&key, patience).await,
        }
    }

    /// Waits until the session is confirmed for a lease of `ttl` that began at `began`.
    pub(super) async fn covers(
        &self,
        session: &Arc<LiveSession<S>>,
        began: Instant,
        ttl: Duration,
        patience: Duration,
    ) -> Result<(), Failure> {
        if seeded!(SessionUnconfirmed) && !session.is_over() {
            return Ok(());
        }
        let patience = patience.max(LEAST_PATIENCE) + self.service.confirmed_within();
        let confirmed = session.is_confirmed_until(began + ttl);
        match timeout(patience, confirmed).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(ended(S::NAME)),
            Err(_) => Err(unconfirmed(S::NAME)),
        }
    }

    /// Converts the error of an answer to a failure. Ends the session if the answer reports its
    /// end.
    pub(super) fn or_ended<T>(
        &self,
        session: &Arc<LiveSession<S>>,
        answer: Answer<T>,
    ) -> Result<T, Failure> {
        answer.map_err(|trouble| match trouble {
            Trouble::Failed(failure) => failure,
            Trouble::Ended => {
                self.session_ended(session);
                ended(S::NAME)
            }
        })
    }

    /// Renews leases: confirms each session once, and checks that each node still exists.
    async fn renew(
        self: &Arc<Self>,
        renewals: Vec<Renewal>,
        patience: Duration,
    ) -> Result<Reply, Failure> {
        let began = self.clock.now();
        // For each renewal: true if renewed, false if the token holds no lock, and `None` without
        // an answer.
        let mut kept = vec![Some(false); renewals.len()];
        let mut trouble = None;
        let mut sessions: Vec<Vec<Due<S>>> = Vec::new();
        for due in self.due(renewals) {
            kept[due.at] = None;
            let mut known = sessions.iter_mut();
            match known.find(|group| group[0].node.is_of(&due.node.session)) {
                Some(group) => group.push(due),
                None => sessions.push(vec![due]),
            }
        }
        for group in sessions {
            match self.renew_of(&group, began, patience).await {
                Ok(present) => {
                    for (due, present) in group.iter().zip(present) {
                        kept[due.at] = Some(self.renewed(due, present, began));
                    }
                }
                Err(failure) if failure.code() == "session" => {
                    for due in &group {
                        kept[due.at] = Some(false);
                    }
                }
                Err(failure) => trouble = Some(failure),
            }
        }
        match trouble {
            None => Ok(Reply::Renewed(
                kept.into_iter().map(|kept| kept == Some(true)).collect(),
            )),
            Some(failure) if kept.iter().all(Option::is_none) => Err(failure),
            Some(_) => Ok(Reply::RenewedInPart(kept)),
        }
    }

    /// Returns the renewals whose tokens hold the lock of their key.
    fn due(&self, renewals: Vec<Renewal>) -> Vec<Due<S>> {
        let state = self.state();
        let due = renewals.into_iter().enumerate();
        let due = due.filter_map(|(at, Renewal { key, token, ttl })| {
            let id = (key, token);
            let lock = state.locks.get(&id)?;
            Some(Due {
                at,
                node: lock.node.clone(),
                fence: lock.fence?,
                id,
                ttl,
            })
        });
        due.collect()
    }

    /// Waits until the session is confirmed for all leases of `group`. Returns true for each node
    /// that still exists.
    async fn renew_of(
        &self,
        group: &[Due<S>],
        began: Instant,
        patience: Duration,
    ) -> Result<Vec<bool>, Failure> {
        let session = &group[0].node.session;
        let longest = group.iter().map(|due| due.ttl).max().unwrap_or_default();
        if !session.fits(longest) {
            return Err(outgrown(S::NAME));
        }
        let nodes = group.iter().map(|due| (due.node.node.clone(), due.fence));
        let nodes: Vec<(Node, Fence)> = nodes.collect();
        let looking = self.service.present(&session.server, &nodes, patience);
        let covered = self.covers(session, began, longest, patience);
        let (present, covered) = futures_util::future::join(looking, covered).await;
        covered?;
        self.or_ended(session, present)
    }

    /// Renews the lease if its node exists and still belongs to the token. Returns true if the
    /// lease was renewed.
    fn renewed(self: &Arc<Self>, due: &Due<S>, present: bool, began: Instant) -> bool {
        let mut state = self.state();
        let lock = state.locks.get(&due.id);
        let Some(lock) = lock.filter(|lock| lock.node == due.node) else {
            return false;
        };
        if present {
            return state.locks.renew(&due.id, began + due.ttl);
        }
        if lock.is_kept() {
            // The release has moved the node to another lease, or will report that it is gone.
            return false;
        }
        // Another client has removed the node, but an earlier request may still create it again.
        state.locks.remove(&due.id);
        drop(state);
        self.remove_for_good(due.node.clone());
        false
    }
}

/// Returns the failure of a request whose locks were lost before the reply.
fn gone(name: &str) -> Failure {
    Failure::unavailable(
        "session",
        format!(
            "the lock at `{name}://` disappeared again, because its session ended or it was \
             released by force; requesting it again"
        ),
        Retry::Now,
        false,
    )
}

/// Returns the locks that a request tries to take.
fn asked_by(op: &Op) -> Vec<LockId> {
    match op {
        Op::Take(take) => vec![(take.key.clone(), take.token)],
        Op::TakeAll { keys, .. } => keys.clone(),
        _ => Vec::new(),
    }
}

fn no_shares(name: &str) -> Failure {
    refused(format!(
        "`{name}://` does not support shared locks or permits; take an exclusive lock, or use \
         `redis://…` or `postgres://…`"
    ))
}

fn no_results(name: &str) -> Failure {
    refused(format!(
        "`replay` is not supported by `{name}://`, which keeps no results; use it on a pool with \
         `redis://` or `postgres://`"
    ))
}

fn no_adoption(name: &str) -> Failure {
    refused(format!(
        "a lock of `{name}://` cannot be adopted, because it ends with a session of its process; hand locks over on a pool with \
         `redis://` or `postgres://`"
    ))
}

/// Returns the failure for a ttl that is too long for the session of the lock. A lock stays in its
/// first session.
pub(super) fn outgrown(name: &str) -> Failure {
    refused(format!(
        "a lock at `{name}://` keeps its ttl: its session was opened for a shorter one"
    ))
}

fn refused(reason: String) -> Failure {
    Failure {
        error: LockError::config(reason),
        retry: Retry::Never,
        executed: false,
    }
}

fn unconfirmed(name: &str) -> Failure {
    Failure::unavailable(
        "timeout",
        format!(
            "no heartbeat of the session at `{name}://` was answered in time; check that the server is up and reachable"
        ),
        Retry::Later,
        true,
    )
}
