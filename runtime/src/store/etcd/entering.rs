//! Making and removing nodes: what is asked, and what the answer means.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::client::Client;
use super::epoch::Epoch;
use super::failure;
use super::gathering::Gathering;
use super::messages::{
    ASCENDING, BY_CREATION, CREATION, Compare, DeleteRequest, KeyValue, MODIFICATION, Operand,
    Operation, PutRequest, RangeRequest, Response, TxnRequest, TxnResponse,
};
use super::names::end_of;
use super::node_names::{NodeNames, There};
use super::service::{Etcd, KEPT};
use crate::base::full_key::FullKey;
use crate::base::seeded::seeded;
use crate::base::token::Token;
use crate::fence::Fence;
use crate::inspect::owner::Owner;
use crate::store::Failure;
use crate::store::session::service::{Answer, Entered, EnteredAll, First, Node, Trouble};

/// How many nodes one transaction makes at most. The server takes 128 operations, and the session's
/// own key is one.
const MOST: usize = 100;

/// How often a transaction is repeated that met another change.
const TRIES: usize = 8;

/// A lease of the server, with the key that is its epoch.
pub(crate) struct Session {
    pub(super) lease: i64,
    pub(super) key: String,
    pub(super) epoch: Arc<Epoch>,
    gathering: Gathering,
    names: NodeNames,
    /// Nodes for which a transaction without an answer may be carried out yet, each with the epoch
    /// in which it was doubted last.
    doubts: Mutex<HashMap<Token, i64>>,
    /// Locked while the session is sealed.
    sealing: tokio::sync::Mutex<()>,
}

impl Session {
    /// To be called in the runtime that requests run on.
    pub(super) fn new(client: Arc<Client>, lease: i64, key: String, epoch: i64) -> Self {
        let epoch = Arc::new(Epoch::new(key.clone(), lease, epoch));
        Self {
            lease,
            key,
            gathering: Gathering::begin(client, Arc::clone(&epoch)),
            epoch,
            names: NodeNames::default(),
            doubts: Mutex::default(),
            sealing: tokio::sync::Mutex::default(),
        }
    }

    pub(super) fn doubts(&self) -> MutexGuard<'_, HashMap<Token, i64>> {
        self.doubts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A name for a new node.
    pub(super) fn name(&self, key: &FullKey, number: u64) -> Token {
        self.names.take(key, number)
    }

    /// A request begins that makes the node. Returns false where the node was removed for good.
    fn begins(&self, node: &Node) -> bool {
        self.names.begins(node) || seeded!(NodesOfAnySession)
    }

    /// Remembers nodes for which a transaction may be carried out late.
    fn doubt<T>(&self, nodes: &[Node], answer: Answer<T>) -> Answer<T> {
        if let Err(Trouble::Failed(failure)) = &answer
            && failure.executed
        {
            let epoch = self.epoch.now();
            let doubted = nodes.iter().map(|node| (node.name, epoch));
            self.doubts().extend(doubted);
        }
        answer
    }

    fn is_doubted(&self, node: &Node) -> bool {
        self.doubts().contains_key(&node.name)
    }

    fn is_mine(&self, key: &str, found: &KeyValue) -> bool {
        found.key == key.as_bytes() && (found.lease == self.lease || seeded!(NodesOfAnySession))
    }
}

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
        // The revisions of the nodes that are there already.
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

    /// Removes a node, so that no earlier request makes it any more.
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

    /// A deletion compares the epoch as well: carried out late, it would remove the next node of
    /// this name.
    async fn removed(&self, session: &Session, node: &Node, patience: Duration) -> Answer<bool> {
        if session.is_doubted(node) && !seeded!(NeverSealed) {
            // One that another request writes may be for this node too.
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

    /// Lets the node go on with this lease of its own. Returns false if it is not there.
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

    /// Writes the session's key: no earlier request makes a node any more.
    async fn seal(&self, session: &Session, patience: Duration) -> Answer<()> {
        let asking = self.client.txn(session.epoch.seal(), patience);
        let sealed = session.epoch.sealed(&asking.await?)?;
        // A request that was made with this epoch is not sealed.
        session.doubts().retain(|_, epoch| sealed <= *epoch);
        Ok(())
    }
}

/// Makes the node with this key on a condition, and shows which node is the first.
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

/// The holder, as its node names it.
fn owner(first: &KeyValue) -> Option<Owner> {
    Owner::read(std::str::from_utf8(&first.value).ok()?)
}

/// The first key that the operation at `at` found.
pub(super) fn one(answer: &TxnResponse, at: usize) -> Result<Option<&KeyValue>, Failure> {
    let range = answer.range(at).ok_or_else(failure::garbled)?;
    Ok(range.kvs.first())
}

/// What the first node of a directory says of itself, with `count` nodes in all.
pub(super) fn head(found: &KeyValue, count: i64) -> Result<First, Failure> {
    Ok(First {
        fence: fence(found.create_revision)?,
        others: 1 < count,
    })
}

pub(super) fn fence(revision: i64) -> Result<Fence, Failure> {
    let revision = u64::try_from(revision).map_err(|_| failure::garbled())?;
    Ok(Fence::new(revision))
}

/// The revision that a fence was made of.
pub(super) fn revision_of(fence: Fence) -> Result<i64, Failure> {
    i64::try_from(fence.get()).map_err(|_| failure::garbled())
}

/// That the key was made, or changed last, at `at`; 0 for no such key.
pub(super) fn revision(target: i32, key: &str, at: i64) -> Compare {
    let operand = if target == MODIFICATION {
        Operand::ModRevision(at)
    } else {
        Operand::CreateRevision(at)
    };
    Compare {
        target,
        key: key.into(),
        operand: Some(operand),
        range_end: Vec::new(),
    }
}

pub(super) fn is_empty(directory: &str) -> Compare {
    Compare {
        range_end: end_of(directory),
        ..revision(CREATION, directory, 0)
    }
}

pub(super) fn put(key: &str, value: &str, lease: i64) -> Operation {
    let (key, value) = (key.into(), value.into());
    PutRequest { key, value, lease }.into()
}

pub(super) fn get(key: &str) -> Operation {
    RangeRequest {
        key: key.into(),
        keys_only: true,
        ..RangeRequest::default()
    }
    .into()
}

/// The node that was made first, with its owner.
pub(super) fn first(directory: &str) -> Operation {
    RangeRequest {
        key: directory.into(),
        range_end: end_of(directory),
        limit: 1,
        sort_order: ASCENDING,
        sort_target: BY_CREATION,
        ..RangeRequest::default()
    }
    .into()
}
