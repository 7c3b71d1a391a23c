//! Implements the session store's interface for etcd.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;

use super::address::Address;
use super::client::Client;
use super::connection::Shown;
use super::messages::{
    BY_CREATION, DESCENDING, Event, GrantRequest, Header, KeyValue, Operation, PUT, RangeRequest,
    TxnRequest, WatchCreate,
};
use super::names::{self, Names, end_of};
use super::requests::{fence, first, get, head, put};
use super::session::Session;
use super::{classes, failure};
use crate::base::full_key::FullKey;
use crate::base::seeded::seeded;
use crate::base::token::Token;
use crate::fence::Fence;
use crate::owner::Owner;
use crate::store::options::Options;
use crate::store::session::outage::Outage;
use crate::store::session::service::{
    Answer, Entered, EnteredAll, Node, Service, Timeout, Trouble, Turn,
};
use crate::store::{Failure, Retry, StoreEvent};

/// Value of a node that is kept after the release of its lock. It names no owner.
pub(super) const KEPT: &str = "(kept)";

/// Maximum number of nodes that one transaction reads. The server accepts 128 operations.
const LOOKS: usize = 100;

/// An etcd cluster.
pub(crate) struct Etcd {
    pub(super) client: Arc<Client>,
    pub(super) names: Names,
}

impl Etcd {
    pub(super) fn new(
        address: Address,
        options: &Options,
        events: UnboundedSender<StoreEvent>,
    ) -> Self {
        Self {
            names: Names::new(address.prefix()),
            client: Arc::new(Client::new(address, options.io_timeout, events)),
        }
    }

    async fn revoke(&self, lease: i64, patience: Duration) -> Answer<()> {
        let asking = self
            .client
            .ask(|connection| async move { connection.revoke(lease, patience).await });
        asking.await.map(drop)
    }

    /// Returns the latest of the nodes created before `revision` in the directory of `node`.
    async fn before(
        &self,
        node: &Node,
        revision: i64,
        patience: Duration,
    ) -> Answer<Option<KeyValue>> {
        let directory = self.names.directory(&node.key);
        let request = RangeRequest {
            range_end: end_of(&directory),
            key: directory.into(),
            limit: 1,
            sort_order: DESCENDING,
            sort_target: BY_CREATION,
            keys_only: true,
            max_create_revision: revision - 1,
        };
        let asking = self
            .client
            .ask(|connection| async move { connection.range(request, patience).await });
        let answer = asking.await?;
        Ok(answer.kvs.into_iter().next())
    }
}

impl Service for Etcd {
    type Session = Session;

    const NAME: &'static str = "etcd";

    fn classes(&self) -> Vec<Timeout> {
        classes::all()
    }

    fn outage(&self) -> &Outage {
        &self.client.outage
    }

    async fn reach_again(&self) -> bool {
        self.client.connection().await.is_ok()
    }

    async fn open(
        &self,
        timeout: Timeout,
        patience: Duration,
    ) -> Result<(Session, Timeout), Failure> {
        let ttl = i64::try_from(timeout.0.as_secs()).unwrap_or(i64::MAX);
        let asking = self.client.ask(|connection| async move {
            let request = GrantRequest { ttl };
            connection.grant(request, patience).await
        });
        let granted = asking.await.map_err(not_open)?;
        let lasts = u64::try_from(granted.ttl).map_err(|_| failure::garbled())?;
        let key = self.names.session(granted.id);
        let request = TxnRequest {
            success: vec![put(&key, &Owner::written(""), granted.id)],
            ..TxnRequest::default()
        };
        let asking = self.client.txn(request, patience);
        let header = match asking.await {
            Ok(answer) => answer.header.ok_or_else(failure::garbled)?,
            Err(trouble) => {
                // The lease is of no use. If this request fails, the lease ends automatically.
                let _ = self.revoke(granted.id, patience).await;
                return Err(not_open(trouble));
            }
        };
        let epoch = header.revision;
        let session = Session::new(
            Arc::clone(&self.client),
            (granted.id, granted.ttl),
            key,
            epoch,
        );
        Ok((session, Timeout(Duration::from_secs(lasts))))
    }

    /// Sends a keep-alive and then a quorum read. A leader that resumes after a pause may answer a
    /// keep-alive before it detects its successor. The successor does not count this keep-alive,
    /// and ends the lease earlier. So a keep-alive counts only once the same member has answered
    /// the read in the same term: there was then no successor yet.
    async fn heartbeat(&self, session: &Session, patience: Duration) -> Answer<()> {
        let lease = session.lease;
        let asking = self
            .client
            .ask(|connection| async move { connection.keep_alive(lease, patience).await });
        let kept = asking.await?;
        // If the keep-alive no longer renews the lease for its granted lifetime, the lease could
        // end before its locks.
        if !session.is_kept(kept.ttl) {
            return Err(Trouble::Ended);
        }
        if seeded!(HeartbeatBelieved) {
            return Ok(());
        }
        let request = RangeRequest {
            key: session.key.clone().into(),
            keys_only: true,
            ..RangeRequest::default()
        };
        let asking = self
            .client
            .ask(|connection| async move { connection.range(request, patience).await });
        let read = asking.await?;
        if read.kvs.is_empty() {
            return Err(Trouble::Ended);
        }
        match (kept.header, read.header) {
            (Some(kept), Some(read)) if is_one_term(kept, read) => Ok(()),
            (Some(_), Some(_)) => Err(Trouble::Failed(new_leader())),
            _ => Err(failure::garbled().into()),
        }
    }

    /// Watches the session's own key, and the keys below it, which revoke the session's nodes. When
    /// the session's lease ends, the server deletes the session's own key. The deletion proves the
    /// end of the session, so the holders are notified without waiting for the next heartbeat.
    async fn ended(
        &self,
        session: &Session,
        revoked: impl Fn(Token, Fence) + Send + Sync,
    ) -> Answer<()> {
        let own = session.key.as_bytes();
        let what = WatchCreate {
            key: own.to_vec(),
            range_end: end_of(&format!("{}/", session.key)),
            filters: Vec::new(),
        };
        let receive = |found: &KeyValue| {
            if let Some((name, fence)) = names::revoked(&session.key, &found.key) {
                revoked(name, fence);
            }
        };
        let is_gone = |shown: Shown| match shown {
            Shown::Present(found) => {
                found.iter().for_each(receive);
                found.iter().all(|found| found.key != own)
            }
            Shown::Changed(Event { kv: Some(kv), kind }) if *kind == PUT => {
                receive(kv);
                false
            }
            Shown::Changed(event) => event.kv.as_ref().is_some_and(|gone| gone.key == own),
        };
        let gone = AtomicBool::new(false);
        let is_over = |shown: Shown| {
            let is_gone = is_gone(shown);
            gone.fetch_or(is_gone, Ordering::Relaxed);
            is_gone
        };
        let patience = self.client.attempt();
        let watching = self
            .client
            .ask(|connection| async move { connection.watch(what, patience, is_over).await });
        watching.await?;
        if gone.load(Ordering::Relaxed) {
            return Err(Trouble::Ended);
        }
        Ok(())
    }

    async fn close(&self, session: &Session, patience: Duration) -> Answer<()> {
        self.revoke(session.lease, patience).await
    }

    fn name(&self, session: &Session, key: &FullKey, number: u64) -> Option<Token> {
        Some(session.name(key, number))
    }

    async fn enter(
        &self,
        session: &Session,
        node: &Node,
        queue: bool,
        function: &'static str,
        patience: Duration,
    ) -> Answer<Entered> {
        let owner = Owner::written(function);
        self.make(session, node, queue, &owner, patience).await
    }

    async fn enter_all(
        &self,
        session: &Session,
        nodes: &[Node],
        function: &'static str,
        patience: Duration,
    ) -> Answer<EnteredAll> {
        let owner = Owner::written(function);
        self.make_all(session, nodes, &owner, patience).await
    }

    async fn present(
        &self,
        session: &Session,
        nodes: &[(Node, Fence)],
        patience: Duration,
    ) -> Answer<Vec<bool>> {
        let mut present = Vec::with_capacity(nodes.len());
        for nodes in nodes.chunks(LOOKS) {
            let names = nodes
                .iter()
                .map(|(node, _)| self.names.node(session.lease, node));
            let looks = names.map(|name| get(&name));
            let request = TxnRequest {
                success: looks.collect::<Vec<Operation>>(),
                ..TxnRequest::default()
            };
            let asking = self.client.txn(request, patience);
            let answer = asking.await?;
            for (at, (_, made)) in nodes.iter().enumerate() {
                let found = answer.range(at).ok_or_else(failure::garbled)?.kvs.first();
                present.push(match found {
                    Some(found) => {
                        found.lease == session.lease && fence(found.create_revision)? == *made
                    }
                    None => false,
                });
            }
        }
        Ok(present)
    }

    async fn remove(&self, session: &Session, node: &Node, patience: Duration) -> Answer<bool> {
        self.unmake(session, node, patience).await
    }

    /// Moves the node to a separate lease, which does not end with the session.
    async fn keep(
        &self,
        session: &Session,
        node: &Node,
        fence: Fence,
        keep: Duration,
        patience: Duration,
    ) -> Answer<bool> {
        let ttl = i64::try_from(keep.as_secs() + 1).unwrap_or(i64::MAX);
        let asking = self.client.ask(|connection| async move {
            let request = GrantRequest { ttl };
            connection.grant(request, patience).await
        });
        let lease = asking.await?.id;
        let keeping = self.keep_with(session, node, fence, lease, patience);
        let found = match keeping.await {
            Ok(found) => found,
            Err(Trouble::Ended) => return Err(Trouble::Failed(kept_too_late())),
            Err(failed) => return Err(failed),
        };
        if !found {
            // The lease is of no use. If this request fails, the lease ends automatically.
            let _ = self.revoke(lease, patience).await;
        }
        Ok(found)
    }

    async fn turn(&self, session: &Session, node: &Node) -> Answer<Turn> {
        let patience = self.client.attempt();
        let key = self.names.node(session.lease, node);
        let directory = self.names.directory(&node.key);
        loop {
            let place = session.looks.acquire().await;
            let request = TxnRequest {
                success: vec![get(&key), first(&directory)],
                ..TxnRequest::default()
            };
            let asking = self.client.txn(request, patience);
            let answer = asking.await?;
            let (own, all) = (answer.range(0), answer.range(1));
            let own = own.and_then(|own| own.kvs.first());
            let Some(own) = own.filter(|own| own.lease == session.lease) else {
                return Ok(Turn::Gone);
            };
            if let Some(all) = all
                && let Some(first) = all.kvs.first()
                && first.key == own.key
            {
                return Ok(Turn::First(head(first, all.count)?));
            }
            let before = self.before(node, own.create_revision, patience).await?;
            let Some(before) = before else {
                continue;
            };
            let made = before.create_revision;
            self.client
                .ask(|connection| async move {
                    connection.deleted(before.key, made, patience, place).await
                })
                .await?;
        }
    }
}

/// True if the same member has answered both requests in the same term of a leader.
fn is_one_term(one: Header, other: Header) -> bool {
    (one.member_id, one.raft_term) == (other.member_id, other.raft_term)
}

/// Returns the failure of a request for a lock whose session could not be opened.
fn not_open(trouble: Trouble) -> Failure {
    match trouble {
        // The request for a lock was not sent yet, so it cannot have been carried out.
        Trouble::Failed(failure) => Failure {
            executed: false,
            ..failure
        },
        Trouble::Ended => Failure::unavailable(
            "session",
            "the lease ended while the session was opened".to_owned(),
            Retry::Now,
            false,
        ),
    }
}

/// Returns the failure of `keep` if the separate lease ended before the node was moved to it. The
/// session continues.
fn kept_too_late() -> Failure {
    Failure::unavailable(
        "slow",
        "the lease of a kept lock ended before it was kept; the cluster is slow".to_owned(),
        Retry::Now,
        true,
    )
}

fn new_leader() -> Failure {
    Failure::unavailable(
        "no-leader",
        "the cluster has changed its leader; sending the heartbeat again".to_owned(),
        Retry::Now,
        true,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heartbeat_of_a_replaced_leader_does_not_count() {
        let header = |member_id, raft_term| Header {
            cluster_id: 0,
            member_id,
            revision: 0,
            raft_term,
        };
        assert!(is_one_term(header(1, 7), header(1, 7)));
        assert!(!is_one_term(header(1, 7), header(1, 8)));
        assert!(!is_one_term(header(1, 7), header(2, 7)));
    }
}
