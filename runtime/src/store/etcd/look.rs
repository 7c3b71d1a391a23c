//! Inspects the locks of a cluster.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use tokio::sync::mpsc::unbounded_channel;

use super::address::Address;
use super::failure;
use super::messages::{
    ASCENDING, BY_CREATION, CREATION, DeleteRequest, KeyValue, Operation, RangeRequest, TxnRequest,
};
use super::names::{end_of, own, revocation};
use super::requests::{fence, put, revision, revision_of};
use super::service::{Etcd, KEPT};
use crate::base::full_key::FullKey;
use crate::base::token::Token;
use crate::owner::Owner;
use crate::store::Failure;
use crate::store::options::Options;
use crate::store::session::look::{Directories, Look, Seen};
use crate::store::session::service::{Answer, Service, Trouble};
use crate::store::source::{MOST_TOLD, Place};

/// Maximum number of nodes in an answer: a holder, and the waiting nodes.
const MOST: usize = MOST_TOLD + 1;

/// Maximum number of concurrent requests for the remaining times of leases.
const AT_ONCE: usize = 32;

/// Inspects the locks of a cluster over a dedicated connection.
pub(crate) struct EtcdLook {
    etcd: Etcd,
    limit: Duration,
}

impl EtcdLook {
    pub(crate) fn new(address: Address, options: &Options) -> Self {
        let (sender, _events) = unbounded_channel();
        Self {
            etcd: Etcd::new(address, options, sender),
            limit: options.io_timeout,
        }
    }

    async fn range(&self, request: RangeRequest) -> Answer<Vec<KeyValue>> {
        let limit = self.limit;
        let asking = self
            .etcd
            .client
            .ask(|connection| async move { connection.range(request, limit).await });
        Ok(asking.await?.kvs)
    }

    /// Returns the first `MOST` keys from `key` to `range_end`, in key order.
    async fn keys(&self, key: Vec<u8>, range_end: Vec<u8>) -> Answer<Vec<KeyValue>> {
        self.range(RangeRequest {
            key,
            range_end,
            limit: most(),
            ..RangeRequest::default()
        })
        .await
    }

    /// Returns the nodes of a directory, in the order of their creation.
    async fn directory(&self, directory: &str) -> Answer<Vec<KeyValue>> {
        self.range(RangeRequest {
            key: directory.into(),
            range_end: end_of(directory),
            limit: most(),
            sort_order: ASCENDING,
            sort_target: BY_CREATION,
            ..RangeRequest::default()
        })
        .await
    }

    fn seen(&self, found: &KeyValue) -> Result<Seen, Failure> {
        // Another program may have created this node, with any name and value.
        let end = self.etcd.names.parts(beginning(&found.key));
        let end = end.map(|(_, end)| end);
        let value = std::str::from_utf8(&found.value).unwrap_or_default();
        let (owner, is_kept) = (Owner::read(value), value == KEPT);
        Ok(Seen {
            own: end.and_then(own).filter(|_| is_kept || owner.is_some()),
            path: name_of(&found.key),
            fence: fence(found.create_revision)?,
            owner,
            is_kept,
            since: None,
            ends: None,
        })
    }

    /// Returns the nodes of some directories. Requests the remaining time of a lease only for the
    /// first node of each directory, which may be the holder's.
    async fn all_seen(&self, directories: &[&[KeyValue]]) -> Answer<Vec<Vec<Seen>>> {
        let firsts = directories.iter().filter_map(|nodes| nodes.first());
        let mut leases: Vec<_> = firsts.map(|first| first.lease).collect();
        leases.sort_unstable();
        leases.dedup();
        let limit = self.limit;
        let asked = leases.into_iter().map(|lease| async move {
            let asking = self
                .etcd
                .client
                .ask(|connection| async move { connection.time_to_live(lease, limit).await });
            // Without an answer, the lock is shown without its end.
            (lease, asking.await.ok().flatten())
        });
        let rest: BTreeMap<_, _> = stream::iter(asked).buffered(AT_ONCE).collect().await;
        let mut all = Vec::with_capacity(directories.len());
        for nodes in directories {
            let seen = nodes.iter().map(|found| self.seen(found));
            let mut seen: Vec<Seen> = seen.collect::<Result<_, _>>()?;
            if let (Some(first), Some(found)) = (seen.first_mut(), nodes.first()) {
                first.ends = rest.get(&found.lease).copied().flatten();
            }
            all.push(seen);
        }
        Ok(all)
    }
}

fn most() -> i64 {
    i64::try_from(MOST).unwrap_or(i64::MAX)
}

impl Look for EtcdLook {
    const NAME: &'static str = <Etcd as Service>::NAME;

    async fn nodes(&mut self, key: &FullKey) -> Answer<Vec<Seen>> {
        let found = self.directory(&self.etcd.names.directory(key)).await?;
        let seen = self.all_seen(&[&found]).await?;
        Ok(seen.into_iter().next().unwrap_or_default())
    }

    /// A page contains only complete directories. The read keys are sorted, so the keys of a
    /// directory follow each other. If the last directory is cut off, it becomes the first of the
    /// next page.
    async fn directories(
        &mut self,
        first: &str,
        wanted: impl Fn(&str) -> bool + Send + Sync,
        Place(place): Place,
    ) -> Answer<Directories> {
        let first = self.etcd.names.beginning(first);
        let from = if place.is_empty() {
            first.clone().into_bytes()
        } else {
            key_of(&place)
        };
        let found = self.keys(from, end_of(&first)).await?;
        let is_cut = found.len() == MOST;
        let mut pages: Vec<(String, String, Vec<KeyValue>)> = Vec::new();
        let last = found.last().map(|last| last.key.clone());
        for found in found {
            // Skips keys below the prefix that belong to no lock. The end of a key may be invalid
            // UTF-8, because another program may have written the key.
            let path = beginning(&found.key);
            let Some((key, end)) = self.etcd.names.parts(path) else {
                continue;
            };
            let directory = path[..path.len() - end.len()].to_owned();
            match pages.last_mut() {
                Some((last, _, nodes)) if *last == directory => nodes.push(found),
                _ => pages.push((directory, key, vec![found])),
            }
        }
        let mut next = None;
        if is_cut {
            if 1 < pages.len() {
                let last = pages.pop();
                next = last.map(|(directory, ..)| directory.into_bytes());
            } else if let Some((directory, _, nodes)) = pages.last_mut() {
                *nodes = self.directory(directory).await?;
                next = Some(end_of(directory));
            } else if let Some(mut last) = last {
                last.push(0);
                next = Some(last);
            }
        }
        let next = next.map(|key| Place(name_of(&key)));
        pages.retain(|(_, key, _)| wanted(key));
        for (_, _, nodes) in &mut pages {
            nodes.sort_unstable_by_key(|node| node.create_revision);
        }
        let nodes: Vec<_> = pages.iter().map(|(_, _, nodes)| nodes.as_slice()).collect();
        let seen = self.all_seen(&nodes).await?;
        let keys = pages.into_iter().map(|(_, key, _)| key);
        let found = keys.zip(seen).collect();
        Ok(Directories { found, next })
    }

    /// Writes a revocation: a key that asks the node's session to remove the node. This key is
    /// attached to the session's lease, so it ends with the session even if this process dies.
    async fn revoke(&mut self, node: &Seen, session: i64, name: Token) -> Answer<bool> {
        let key = revocation(&self.etcd.names.session(session), name, node.fence);
        let request = TxnRequest {
            compare: vec![revision(
                CREATION,
                key_of(&node.path),
                revision_of(node.fence)?,
            )],
            success: vec![put(&key, "", session)],
            failure: Vec::new(),
        };
        match self.etcd.client.txn(request, self.limit).await {
            Ok(answer) => Ok(answer.succeeded),
            Err(Trouble::Ended) => Ok(false),
            Err(trouble) => Err(trouble),
        }
    }

    async fn gone(&mut self, node: &Seen) -> Answer<()> {
        let (path, limit) = (key_of(&node.path), self.limit);
        let made = revision_of(node.fence)?;
        let watching = self
            .etcd
            .client
            .ask(|connection| async move { connection.deleted(path, made, limit, ()).await });
        watching.await?;
        // The watch may have ended while the node still exists, so the node's key is read.
        let own = RangeRequest {
            key: key_of(&node.path),
            ..RangeRequest::default()
        };
        let found = self.range(own).await?;
        if found.iter().any(|found| found.create_revision == made) {
            return Err(failure::silent().into());
        }
        Ok(())
    }

    async fn remove(&mut self, node: &Seen) -> Answer<()> {
        let request = TxnRequest {
            compare: vec![revision(
                CREATION,
                key_of(&node.path),
                revision_of(node.fence)?,
            )],
            success: vec![delete(key_of(&node.path))],
            failure: Vec::new(),
        };
        self.etcd.client.txn(request, self.limit).await.map(drop)
    }

    async fn forget(&mut self, node: &Seen, session: i64, name: Token) -> Answer<()> {
        let key = revocation(&self.etcd.names.session(session), name, node.fence);
        let request = TxnRequest {
            success: vec![delete(key.into())],
            ..TxnRequest::default()
        };
        self.etcd.client.txn(request, self.limit).await.map(drop)
    }
}

/// Returns the part of a key before the first byte that is invalid UTF-8.
fn beginning(key: &[u8]) -> &str {
    let text = key.utf8_chunks().next();
    text.map_or("", |chunk| chunk.valid())
}

/// Converts a key to text, one character for each byte. `Seen::path` and `Place` are texts, but a
/// key may have any bytes.
fn name_of(key: &[u8]) -> String {
    key.iter().map(|byte| char::from(*byte)).collect()
}

/// Converts a text from `name_of` back to its key.
fn key_of(name: &str) -> Vec<u8> {
    name.chars().filter_map(|c| u8::try_from(c).ok()).collect()
}

fn delete(key: Vec<u8>) -> Operation {
    DeleteRequest {
        key,
        range_end: Vec::new(),
    }
    .into()
}
