//! The nodes of a cluster, including nodes that have recently lost their slots, and the connections
//! to all of them.

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Instant;

use super::map::{Map, NodeId};
use super::router::{Directed, Hint};
use crate::error::LockError;
use crate::store::options::Options;
use crate::store::redis::commands::key_names::KeyNames;
use crate::store::redis::commands::redirect::{Endpoint, Redirect, RequestFlags};
use crate::store::redis::master_address::MasterAddress;
use crate::store::redis::store::RedisStore;
use crate::store::redis::wire::server::Server;
use crate::store::socket::Announced;
use crate::store::{LockStore, OpId, Request, Socket, StoreEvent};

/// Time without a request after which a node without slots is dropped. A node to which a slot is
/// moving has no slots yet, but it stays: redirected requests use it now and then.
const UNUSED: Duration = Duration::from_secs(60);

struct Node {
    endpoint: Endpoint,
    store: Option<RedisStore>,
    outbox: Vec<(Request, RequestFlags)>,
    unanswered: usize,
    last_used: Instant,
}

impl Node {
    fn is_unused(&self) -> bool {
        self.unanswered == 0 && self.last_used.elapsed() > UNUSED
    }

    fn open(&mut self, access: &Access) {
        if self.store.is_none() {
            let (master, names, options) = access.master(&self.endpoint, 0);
            self.store = Some(RedisStore::later(master, names, &options));
        }
    }
}

/// Settings for the connections to all nodes.
pub(super) struct Access {
    /// A server whose credentials and TLS settings apply to all nodes.
    pub(super) like: Server,
    pub(super) names: KeyNames,
    pub(super) options: Options,
}

impl Access {
    /// Returns the server at `endpoint`.
    pub(super) fn server(&self, endpoint: &Endpoint) -> Server {
        self.like.elsewhere(endpoint)
    }

    /// Returns the address, the names of keys and the options for a connection to the master
    /// `endpoint`. If the master will be checked, the check's trial lock is in `slot`, which the
    /// master must have. Otherwise, `slot` does not matter.
    pub(super) fn master(
        &self,
        endpoint: &Endpoint,
        slot: u16,
    ) -> (MasterAddress, KeyNames, Options) {
        // Each master has a separate count of its replicas, which `replicas = all` needs.
        let options = Options {
            replicas_seen: Arc::default(),
            ..self.options.clone()
        };
        let master = self.server(endpoint).into();
        (master, self.names.on_node(slot), options)
    }
}

/// All known nodes.
pub(super) struct Nodes {
    known: BTreeMap<NodeId, Node>,
    /// Numbers are not reused, so an old number never refers to another node.
    next_id: NodeId,
    access: Access,
    announced: Announced,
}

impl Nodes {
    pub(super) fn new(access: Access) -> Self {
        Self {
            known: BTreeMap::new(),
            next_id: 0,
            access,
            announced: Announced::default(),
        }
    }

    pub(super) fn access(&self) -> &Access {
        &self.access
    }

    /// Returns the node at `endpoint`. Adds the node if it is new.
    pub(super) fn find(&mut self, endpoint: &Endpoint) -> NodeId {
        let mut known = self.known.iter_mut();
        if let Some((id, node)) = known.find(|(_, node)| node.endpoint == *endpoint) {
            // The caller will send a request to the node, so `follow` must not drop the node before
            // that.
            node.last_used = Instant::now();
            return *id;
        }
        let id = self.next_id;
        self.next_id += 1;
        let node = Node {
            endpoint: endpoint.clone(),
            store: None,
            outbox: Vec::new(),
            unanswered: 0,
            last_used: Instant::now(),
        };
        self.known.insert(id, node);
        id
    }

    /// Makes `store` the connection to the node.
    pub(super) fn adopt(&mut self, node: NodeId, store: RedisStore) {
        if let Some(node) = self.known.get_mut(&node) {
            node.store = Some(store);
        }
    }

    /// Returns the redirect that the node sent for the request `id`, if any. Adds the node that the
    /// redirect names, if this node is new.
    pub(super) fn hint(&mut self, node: NodeId, id: OpId) -> Option<Hint> {
        let node = self.known.get_mut(&node)?;
        let Redirect { slot, mut to, once } = node.store.as_mut()?.take_redirect(id)?;
        if to.host.is_empty() {
            to.host.clone_from(&node.endpoint.host);
        }
        let node = self.find(&to);
        Some(Hint { slot, node, once })
    }

    /// Opens connections to all nodes with slots. Drops nodes that have neither slots nor pending
    /// requests and were not used for `UNUSED`.
    pub(super) fn follow(&mut self, map: &Map) {
        self.known
            .retain(|id, node| map.names(*id) || !node.is_unused());
        for (id, node) in &mut self.known {
            if map.names(*id) {
                node.open(&self.access);
            }
        }
    }

    /// Passes the requests to the connections, in one batch for each node.
    pub(super) fn send(&mut self, requests: Vec<Directed>) {
        for directed in requests {
            // The node should be present, because `follow` keeps all nodes that have slots or were
            // used recently. Otherwise the request stays unanswered, and the engine retries it.
            let Some(node) = self.known.get_mut(&directed.node) else {
                continue;
            };
            node.open(&self.access);
            node.unanswered += 1;
            node.last_used = Instant::now();
            node.outbox.push((directed.request, directed.flags));
        }
        for node in self.known.values_mut() {
            if let Some(store) = node.store.as_mut().filter(|_| !node.outbox.is_empty()) {
                store.submit_in(mem::take(&mut node.outbox));
            }
        }
    }

    /// Notifies all connections that `acquires` are no longer pending: a node has removed the keys
    /// that they may have set.
    pub(super) fn settle(&mut self, acquires: &[OpId]) {
        if acquires.is_empty() {
            return;
        }
        for store in self
            .known
            .values_mut()
            .filter_map(|node| node.store.as_mut())
        {
            store.settle(acquires);
        }
    }

    /// Returns the next event from any node.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Option<(NodeId, StoreEvent)> {
        for (id, node) in &mut self.known {
            let Some(store) = &mut node.store else {
                continue;
            };
            if let Poll::Ready(event) = store.poll_event(cx) {
                node.unanswered -= usize::from(matches!(event, StoreEvent::Reply(..)));
                return Some((*id, event));
            }
        }
        None
    }

    /// See [`LockStore::sockets`].
    pub(super) fn sockets(&mut self) -> Option<Vec<Arc<dyn Socket>>> {
        let stores = self.known.values();
        let stores = stores.filter_map(|node| node.store.as_ref());
        self.announced.changed(stores.flat_map(RedisStore::wires))
    }

    /// True if at least one node with slots has no working connection. Unlike `are_away`, also
    /// counts a node while the first attempt to connect to it lasts.
    pub(super) fn misses(&self, map: &Map) -> bool {
        let mut away = self.known.iter().filter(|(_, node)| {
            let store = node.store.as_ref();
            store.is_some_and(RedisStore::is_out)
        });
        away.any(|(id, _)| map.names(*id))
    }

    /// True if at least one node with slots cannot be reached. A node counts as reachable while the
    /// first attempt to connect to it lasts.
    pub(super) fn are_away(&self, map: &Map) -> bool {
        let away = |node: &Node| node.store.as_ref().is_some_and(LockStore::is_away);
        let mut away = self.known.iter().filter(|(_, node)| away(node));
        away.any(|(id, _)| map.names(*id))
    }

    /// Returns the error for a call that needs the node now. `None` if the node is not known to be
    /// away.
    pub(super) fn absence(&self, node: NodeId) -> Option<LockError> {
        let away = self.known.get(&node)?.store.as_ref()?.away()?;
        Some(away.error.clone())
    }

    /// Like [`absence`](Self::absence), for any node with slots.
    pub(super) fn any_absence(&self, map: &Map) -> Option<LockError> {
        let mut nodes = self.known.keys().filter(|node| map.names(**node));
        nodes.find_map(|node| self.absence(*node))
    }

    /// Returns the nodes to which the store connects. Each of them can report the slots and nodes
    /// of the cluster.
    pub(super) fn servers(&self) -> impl Iterator<Item = Server> {
        self.known
            .values()
            .filter(|node| node.store.is_some())
            .map(|node| self.access.server(&node.endpoint))
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;
    use crate::store::url_options;

    fn nodes() -> Nodes {
        let (base, options) = url_options::split("redis://127.0.0.1:1");
        Nodes::new(Access {
            like: Server::parse(base, &options).expect("a URL"),
            names: KeyNames::new("lock"),
            options: Options::new(Duration::from_millis(100)),
        })
    }

    fn at(port: u16) -> Endpoint {
        Endpoint {
            host: "127.0.0.1".to_owned(),
            port,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_removed_node_is_forgotten() {
        let mut nodes = nodes();
        let (stays, leaves) = (nodes.find(&at(1)), nodes.find(&at(2)));
        let mut map = Map::new();
        map.set(0, stays);
        map.set(1, leaves);
        nodes.follow(&map);
        assert_eq!(nodes.servers().count(), 2);
        map.set(1, stays);
        nodes.follow(&map);
        assert_eq!(nodes.known.len(), 2, "slots may be on their way to it");
        advance(UNUSED * 2).await;
        nodes.follow(&map);
        assert_eq!(nodes.known.len(), 1);
        assert_eq!(nodes.servers().count(), 1, "its connection is gone");
        assert_eq!(nodes.find(&at(1)), stays);
        let back = nodes.find(&at(2));
        assert!(
            back != stays && back != leaves,
            "numbers are not used again"
        );
    }

    /// A redirect names a node that was unused for a long time. Fails if this node is dropped
    /// before the redirected request is sent to it.
    #[tokio::test(start_paused = true)]
    async fn a_node_named_by_a_redirect_is_kept() {
        let mut nodes = nodes();
        let (stays, named) = (nodes.find(&at(1)), nodes.find(&at(2)));
        let mut map = Map::new();
        map.set(0, stays);
        advance(UNUSED * 2).await;
        assert_eq!(nodes.find(&at(2)), named);
        nodes.follow(&map);
        assert_eq!(nodes.known.len(), 2);
    }
}
