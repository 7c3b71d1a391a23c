//! Making nodes: what one transaction asks, and what its answer means.
//!
//! Each transaction that makes a node compares the revision of the session's own key, its *epoch*.
//! A transaction without an answer may still lie with a member that was stopped. Once the session's
//! key has been written again, no earlier transaction makes a node: the session is *sealed*. So a
//! node that may be made late is removed for certain.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::failure;
use super::messages::{
    ASCENDING, BY_CREATION, CREATION, Compare, DeleteRequest, KeyValue, MODIFICATION, Operand,
    Operation, PutRequest, RangeRequest, TxnRequest, TxnResponse,
};
use super::names::end_of;
use super::service::Etcd;
use crate::base::seeded::seeded;
use crate::base::token::Token;
use crate::fence::Fence;
use crate::inspect::owner::Owner;
use crate::store::session::service::{Answer, Entered, EnteredAll, Node, Trouble};
use crate::store::{Failure, Retry};

/// How many nodes one transaction makes at most. The server takes 128 operations, and the session's
/// own key is one.
const MOST: usize = 100;

/// How often a transaction is repeated that met another change.
const TRIES: usize = 8;

/// A lease of the server, with the key that is its epoch.
pub(crate) struct Session {
    pub(super) lease: i64,
    pub(super) key: String,
    state: Mutex<State>,
}

struct State {
    /// The revision of the session's key.
    epoch: i64,
    /// Nodes that a transaction without an answer may make yet.
    /// Each with the epoch in which it was doubted last.
    doubts: HashMap<Token, i64>,
}

impl Session {
    pub(super) fn new(lease: i64, key: String, epoch: i64) -> Self {
        let doubts = HashMap::new();
        Self {
            lease,
            key,
            state: Mutex::new(State { epoch, doubts }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// That the session's key is as this process wrote it last.
    fn is_unsealed(&self) -> Compare {
        revision(MODIFICATION, &self.key, self.state().epoch)
    }

    /// Whether the answer shows the session's key as another request of this process wrote it. Its
    /// end is an error.
    fn is_sealed(&self, shown: Option<&KeyValue>) -> Answer<bool> {
        let Some(shown) = shown else {
            return Err(Trouble::Ended);
        };
        let mut state = self.state();
        let sealed = state.epoch < shown.mod_revision;
        state.epoch = shown.mod_revision.max(state.epoch);
        Ok(sealed)
    }

    /// Remembers nodes that may be made late.
    fn doubt<T>(&self, nodes: &[Node], answer: Answer<T>) -> Answer<T> {
        if let Err(Trouble::Failed(failure)) = &answer
            && failure.executed
        {
            let mut state = self.state();
            let epoch = state.epoch;
            let doubted = nodes.iter().map(|node| (node.name, epoch));
            state.doubts.extend(doubted);
        }
        answer
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
        let (key, directory) = (
            self.names.node(session.lease, node),
            self.names.directory(&node.key),
        );
        let condition = if queue {
            revision(CREATION, &key, 0)
        } else {
            is_empty(&directory)
        };
        for _ in 0..TRIES {
            let request = making(session, &condition, &key, &directory, value);
            let asking = self.client.txn(request, patience);
            let nodes = std::slice::from_ref(node);
            let answer = session.doubt(nodes, asking.await)?;
            if !answer.succeeded && session.is_sealed(one(&answer, 0)?)? {
                continue;
            }
            let at = if answer.succeeded { 1 } else { 2 };
            let all = answer.range(at).ok_or_else(failure::garbled)?;
            let is_there = answer.succeeded || one(&answer, 1)?.is_some();
            return Ok(match all.kvs.first() {
                Some(first) if session.is_mine(&key, first) => Entered::First {
                    fence: fence(first.create_revision)?,
                    others: 1 < all.count,
                },
                Some(first) if is_there => Entered::Behind(owner(first)),
                Some(first) => Entered::Held(owner(first)),
                // It has become free since the comparison, which only a change of the epoch does.
                None => continue,
            });
        }
        Err(unsettled())
    }

    pub(super) async fn make_all(
        &self,
        session: &Session,
        nodes: &[Node],
        value: &str,
        patience: Duration,
    ) -> Answer<EnteredAll> {
        if MOST < nodes.len() {
            return Ok(EnteredAll::Apart);
        }
        let keys: Vec<_> = nodes.iter().map(|node| (node, session.lease)).collect();
        let keys: Vec<_> = keys
            .into_iter()
            .map(|(node, lease)| {
                (
                    self.names.node(lease, node),
                    self.names.directory(&node.key),
                )
            })
            .collect();
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
            session.is_sealed(one(&answer, 0)?)?;
            for (at, (key, _)) in keys.iter().enumerate() {
                known[at] = match one(&answer, at + 1)? {
                    None => None,
                    Some(first) if session.is_mine(key, first) => Some(first.create_revision),
                    Some(first) => return Ok(EnteredAll::Held(at, owner(first))),
                };
            }
        }
        Err(unsettled())
    }

    /// Removes a node, so that no earlier request makes it any more.
    ///
    /// A name is given to one node, so the key alone tells it from every other. A deletion costs
    /// the server less than a transaction that compares before it deletes.
    pub(super) async fn unmake(
        &self,
        session: &Session,
        node: &Node,
        patience: Duration,
    ) -> Answer<bool> {
        let doubtful = session.state().doubts.contains_key(&node.name);
        if doubtful && !seeded!(NeverSealed) {
            self.seal(session, patience).await?;
        }
        let key = self.names.node(session.lease, node);
        let mut request = DeleteRequest {
            key: key.into(),
            range_end: Vec::new(),
        };
        if seeded!(DeleteWithoutCompare) {
            let directory = self.names.directory(&node.key);
            request.range_end = end_of(&directory);
            request.key = directory.into();
        }
        let asking = self
            .client
            .ask(|connection| async move { connection.delete(request, patience).await });
        Ok(0 < asking.await?)
    }

    /// Writes the session's key: no earlier request makes a node any more.
    async fn seal(&self, session: &Session, patience: Duration) -> Answer<()> {
        let request = TxnRequest {
            success: vec![put(&session.key, "", session.lease)],
            ..TxnRequest::default()
        };
        let asking = self.client.txn(request, patience);
        let header = asking.await?.header.ok_or_else(failure::garbled)?;
        let mut state = session.state();
        state.epoch = header.revision.max(state.epoch);
        // A request that was made with this epoch is not sealed.
        state.doubts.retain(|_, epoch| header.revision <= *epoch);
        Ok(())
    }
}

/// Makes the node with this key on a condition, and shows which node is the first.
fn making(
    session: &Session,
    condition: &Compare,
    key: &str,
    directory: &str,
    value: &str,
) -> TxnRequest {
    TxnRequest {
        compare: vec![session.is_unsealed(), condition.clone()],
        success: vec![put(key, value, session.lease), first(directory)],
        failure: vec![get(&session.key), get(key), first(directory)],
    }
}

/// A request that makes a node arrives after the node was removed.
///
/// # Panics
///
/// Where the request makes the node.
#[cfg(feature = "__test")]
pub(super) async fn a_late_request_makes_nothing(etcd: &Etcd) {
    use crate::store::session::service::{Service, Timeout};

    let patience = Duration::from_secs(5);
    let opened = etcd.open(Timeout(patience), patience).await;
    let (session, _) = opened.expect("a session opens");
    let node = Node {
        key: "lock:late".into(),
        name: Token::random(crate::base::token::Nonce::new()),
    };
    let (key, directory) = (
        etcd.names.node(session.lease, &node),
        etcd.names.directory(&node.key),
    );
    let late = making(&session, &is_empty(&directory), &key, &directory, "late");
    let epoch = session.state().epoch;
    session.state().doubts.insert(node.name, epoch);
    let removed = etcd.unmake(&session, &node, patience).await;
    assert!(!removed.expect("the server answers"), "there was no node");
    let asking = etcd.client.txn(late, patience);
    let answer = asking.await.expect("the server answers");
    assert!(!answer.succeeded, "the late request has made a node");
    let next = etcd.make(&session, &node, false, "next", patience).await;
    let next = next.expect("the server answers");
    assert!(matches!(next, Entered::First { .. }), "{next:?}");
    let closed = etcd.close(&session, patience).await;
    closed.expect("the server answers");
}

fn all_or_none(
    session: &Session,
    keys: &[(String, String)],
    known: &[Option<i64>],
    value: &str,
) -> TxnRequest {
    let mut request = TxnRequest {
        compare: vec![session.is_unsealed()],
        success: Vec::new(),
        failure: vec![get(&session.key)],
    };
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
fn one(answer: &TxnResponse, at: usize) -> Result<Option<&KeyValue>, Failure> {
    let range = answer.range(at).ok_or_else(failure::garbled)?;
    Ok(range.kvs.first())
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

fn is_empty(directory: &str) -> Compare {
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

fn unsettled() -> Trouble {
    Trouble::Failed(Failure::unavailable(
        "conflict",
        "the request met other changes of the same keys again and again; it is repeated".to_owned(),
        Retry::Later,
        false,
    ))
}
