//! Creates and removes nodes, which are keys in the directory of a lock: builds the requests, and
//! interprets the answers.

use std::time::Duration;

use super::failure;
use super::messages::{CREATION, Compare, DeleteRequest, Operation, Response, TxnRequest};
use super::names::end_of;
use super::node_names::There;
use super::requests::{fence, first, get, head, is_empty, one, owner, put, revision, revision_of};
use super::service::{Etcd, KEPT};
use super::session::Session;
use crate::base::seeded::seeded;
use crate::fence::Fence;
use crate::store::session::service::{Answer, Entered, EnteredAll, Node};

/// Maximum number of nodes that one transaction creates. The server accepts 128 operations, and one
/// of them is for the session's own key.
const MOST: usize = 100;

/// Maximum number of tries for a transaction that conflicts with other changes.
const TRIES: usize = 8;

impl Etcd {
    pub(super) async fn make(
        &self,
        session: &Session,
        node: &Node,
        queue: bool,
        value: &str,
        patience: Duration,
    ) -> Answer<Entered> {
        if !session.begins(node) {
            return Err(failure::unsettled().into());
        }
        let entered = self.entered(session, node, queue, value, patience).await;
        let there = match &entered {
            Ok(Entered::Held(_)) => There::AsBefore,
            answer => There::after(answer, There::Maybe),
        };
        session.names.ends(node, there);
        entered
    }

    async fn entered(
        &self,
        session: &Session,
        node: &Node,
        queue: bool,
        value: &str,
        patience: Duration,
    ) -> Answer<Entered> {
        let (key, directory) = (
            self.names.node(session.lease, node),
            self.names.directory(&node.key),
        );
        let condition = if queue {
            revision(CREATION, &key, 0)
        } else {
            is_empty(&directory)
        };
        let request = making(condition, &key, &directory, value, session.lease);
        let asking = session.gathering.ask(directory, request, patience);
        let nodes = std::slice::from_ref(node);
        let Response::Txn(answer) = session.doubt(nodes, asking.await)? else {
            return Err(failure::garbled().into());
        };
        let made = if answer.succeeded {
            Some(answer.put(0).ok_or_else(failure::garbled)?.revision)
        } else {
            one(&answer, 0)?.map(|own| own.create_revision)
        };
        let all = answer.range(1).ok_or_else(failure::garbled)?;
        let first = all.kvs.first().ok_or_else(failure::garbled)?;
        Ok(if session.is_mine(&key, first) {
            Entered::First(head(first, all.count)?)
        } else if let Some(made) = made {
            let (fence, owner) = (fence(made)?, owner(first));
            Entered::Behind { fence, owner }
        } else {
            Entered::Held(owner(first))
        })
    }

    pub(super) async fn make_all(
        &self,
        session: &Session,
        nodes: &[Node],
        value: &str,
        patience: Duration,
    ) -> Answer<EnteredAll> {
        for (at, node) in nodes.iter().enumerate() {
            if !session.begins(node) {
                let begun = nodes[..at].iter();
                begun.for_each(|node| session.names.ends(node, There::AsBefore));
                return Err(failure::unsettled().into());
            }
        }
        let entered = self.entered_all(session, nodes, value, patience).await;
        let there = match &entered {
            Ok(EnteredAll::Held(..) | EnteredAll::Apart) => There::AsBefore,
            answer => There::after(answer, There::Maybe),
        };
        for node in nodes {
            session.names.ends(node, there);
        }
        entered
    }

    async fn entered_all(
        &self,
        session: &Session,
        nodes: &[Node],
        value: &str,
        patience: Duration,
    ) -> Answer<EnteredAll> {
        if MOST < nodes.len() {
            return Ok(EnteredAll::Apart);
        }
        let keys = nodes.iter().map(|node| {
            (
                self.names.node(session.lease, node),
                self.names.directory(&node.key),
            )
        });
        let keys: Vec<_> = keys.collect();
        // The creation revision of each node that an earlier request has already created. A try
        // that does not expect such a node fails, and its answer contains the revision.
        let mut known: Vec<Option<i64>> = vec![None; nodes.len()];
        for _ in 0..TRIES {
            let request = all_or_none(session, &keys, &known, value);
            let asking = self.client.txn(request, patience);
            let answer = session.doubt(nodes, asking.await)?;
            if answer.succeeded {
                let header = answer.header.ok_or_else(failure::garbled)?;
                let fences = known
                    .iter()
                    .map(|known| fence(known.unwrap_or(header.revision)));
                return Ok(EnteredAll::First(fences.collect::<Result<_, _>>()?));
            }
            session.epoch.learn(&answer)?;
            for (at, (key, _)) in keys.iter().enumerate() {
                known[at] = match one(&answer, at + 1)? {
                    None => None,
                    Some(first) if session.is_mine(key, first) => Some(first.create_revision),
                    Some(first) => return Ok(EnteredAll::Held(at, owner(first))),
                };
            }
        }
        Err(failure::unsettled().into())
    }

    /// Removes a node. After a success, no earlier request can create the node.
    pub(super) async fn unmake(
        &self,
        session: &Session,
        node: &Node,
        patience: Duration,
    ) -> Answer<bool> {
        if !session.names.begins(node) {
            return Ok(false);
        }
        let removed = self.removed(session, node, patience).await;
        let gone = if session.is_doubted(node) {
            There::Maybe
        } else {
            There::No
        };
        session.names.ends(node, There::after(&removed, gone));
        removed
    }

    /// Removes a node. The deletion is carried out only if the session's epoch is unchanged.
    /// Otherwise, a late deletion could remove a newer node, which reuses the name.
    async fn removed(&self, session: &Session, node: &Node, patience: Duration) -> Answer<bool> {
        if session.is_doubted(node) && !seeded!(NeverSealed) {
            // An earlier request may still create this node, and a seal of the session prevents
            // that. If another removal is sealing the session now, waits for its seal, which may
            // cover this node, too.
            let _one = session.sealing.lock().await;
            if session.is_doubted(node) {
                self.seal(session, patience).await?;
            }
        }
        let key = self.names.node(session.lease, node);
        let directory = self.names.directory(&node.key);
        let mut request = DeleteRequest {
            key: key.into(),
            range_end: Vec::new(),
        };
        if seeded!(DeleteWithoutCompare) {
            request.range_end = end_of(&directory);
            request.key = directory.clone().into();
        }
        let asking = session.gathering.ask(directory, request.into(), patience);
        let nodes = std::slice::from_ref(node);
        match session.doubt(nodes, asking.await)? {
            Response::Delete(deletion) => Ok(0 < deletion.deleted),
            _ => Err(failure::garbled().into()),
        }
    }

    /// Moves the node from its session to the separate lease `lease`. Returns false if the node
    /// does not exist.
    pub(super) async fn keep_with(
        &self,
        session: &Session,
        node: &Node,
        fence: Fence,
        lease: i64,
        patience: Duration,
    ) -> Answer<bool> {
        if !session.names.begins(node) {
            return Ok(false);
        }
        let key = self.names.node(session.lease, node);
        let kept = async {
            let request = TxnRequest {
                compare: vec![revision(CREATION, &key, revision_of(fence)?)],
                success: vec![put(&key, KEPT, lease)],
                failure: Vec::new(),
            };
            Ok(self.client.txn(request, patience).await?.succeeded)
        };
        let kept = kept.await;
        session.names.ends(node, There::after(&kept, There::Maybe));
        kept
    }

    /// Writes the session's key. After that, no earlier request can create a node.
    async fn seal(&self, session: &Session, patience: Duration) -> Answer<()> {
        let asking = self.client.txn(session.epoch.seal(), patience);
        let sealed = session.epoch.sealed(&asking.await?)?;
        // Nodes doubted in the new epoch or later stay doubted. Their requests contain that epoch,
        // so this seal does not stop them, and they may still create the nodes.
        session.doubts().retain(|_, epoch| sealed <= *epoch);
        Ok(())
    }
}

/// Builds the operation that creates the node with this key if `condition` is met. The operation
/// also reads the first node of the directory.
pub(super) fn making(
    condition: Compare,
    key: &str,
    directory: &str,
    value: &str,
    lease: i64,
) -> Operation {
    TxnRequest {
        compare: vec![condition],
        success: vec![put(key, value, lease), first(directory)],
        failure: vec![get(key), first(directory)],
    }
    .into()
}

fn all_or_none(
    session: &Session,
    keys: &[(String, String)],
    known: &[Option<i64>],
    value: &str,
) -> TxnRequest {
    let mut request = session.epoch.unsealed(Vec::new());
    for ((key, directory), known) in keys.iter().zip(known) {
        if let Some(known) = known {
            request.compare.push(revision(CREATION, key, *known));
        } else {
            request.compare.push(is_empty(directory));
            request.success.push(put(key, value, session.lease));
        }
        request.failure.push(first(directory));
    }
    request
}
