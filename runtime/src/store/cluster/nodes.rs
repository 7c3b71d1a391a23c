//! The nodes that are in use or were lately, and the connections to them.

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Instant;

use super::map::{Map, NodeId};
use super::router::{Directed, Hint};
use crate::store::options::Options;
use crate::store::redis::commands::key_names::KeyNames;
use crate::store::redis::commands::redirect::{Endpoint, Redirect, RequestFlags};
use crate::store::redis::master_address::MasterAddress;
use crate::store::redis::store::RedisStore;
use crate::store::redis::wire::server::Server;
use crate::store::redis::wire::socket::Told;
use crate::store::{LockStore, OpId, Request, Socket, StoreEvent};

/// A node without slots is forgotten when it was not used for so long. One that slots are on their way to is asked now and then.
const UNUSED: Duration = Duration::from_secs(60);

struct Node {
    endpoint: Endpoint,
    store: Option<RedisStore>,
    outbox: Vec<(Request, RequestFlags)>,
    /// So many requests have not been answered.
    unanswered: usize,
    last_used: Instant,
}

impl Node {
    fn is_unused(&self) -> bool {
        self.unanswered == 0 && self.last_used.elapsed() > UNUSED
    }

    fn open(&mut self, access: &Access) {
        if self.store.is_none() {
            let (origin, names, options) = access.seat(&self.endpoint, 0);
            self.store = Some(RedisStore::later(origin, names, &options));
        }
    }
}

/// How nodes are reached and spoken to.
pub(super) struct Access {
    /// A node like all others: credentials, and whether with TLS.
    pub(super) like: Server,
    pub(super) names: KeyNames,
    pub(super) options: Options,
}

impl Access {
    /// How to reach `endpoint`.
    pub(super) fn server(&self, endpoint: &Endpoint) -> Server {
        self.like.elsewhere(endpoint)
    }

    /// What is needed to connect to `endpoint` as a node that has `slot`.
    pub(super) fn seat(
        &self,
        endpoint: &Endpoint,
        slot: u16,
    ) -> (MasterAddress, KeyNames, Options) {
        // `all` means each master's own replicas.
        let options = Options {
            replicas_seen: Arc::default(),
            ..self.options.clone()
        };
        let origin = self.server(endpoint).into();
        (origin, self.names.on_node(slot), options)
    }
}

/// All nodes.
pub(super) struct Nodes {
    known: BTreeMap<NodeId, Node>,
    /// No number is used again: an old one must not name another node.
    next_id: NodeId,
    access: Access,
    told: Told,
}

impl Nodes {
    pub(super) fn new(access: Access) -> Self {
        Self {
            known: BTreeMap::new(),
            next_id: 0,
            access,
            told: Told::default(),
        }
    }

    pub(super) fn access(&self) -> &Access {
        &self.access
    }

    /// The node at `endpoint`.
    pub(super) fn find(&mut self, endpoint: &Endpoint) -> NodeId {
        let mut known = self.known.iter();
        if let Some((id, _)) = known.find(|(_, node)| node.endpoint == *endpoint) {
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

    /// Uses `store` for the node.
    pub(super) fn adopt(&mut self, node: NodeId, store: RedisStore) {
        if let Some(node) = self.known.get_mut(&node) {
            node.store = Some(store);
        }
    }

    /// What a node meant when it sent a request elsewhere.
    pub(super) fn hint(&mut self, node: NodeId, id: OpId) -> Option<Hint> {
        let node = self.known.get_mut(&node)?;
        let Redirect { slot, mut to, once } = node.store.as_mut()?.take_redirect(id)?;
        if to.host.is_empty() {
            to.host.clone_from(&node.endpoint.host);
        }
        let node = self.find(&to);
        Some(Hint { slot, node, once })
    }

    /// Connects to the nodes that have slots and forgets those that have none and nothing to answer.
    pub(super) fn follow(&mut self, map: &Map) {
        self.known
            .retain(|id, node| map.names(*id) || !node.is_unused());
        for (id, node) in &mut self.known {
            if map.names(*id) {
                node.open(&self.access);
            }
        }
    }

    /// Hands requests to the connections, those for one node together.
    pub(super) fn send(&mut self, requests: Vec<Directed>) {
        for directed in requests {
            // Those that the map names, or a node has just named, are never forgotten.
            let Some(node) = self.known.get_mut(&directed.node) else {
                continue;
            };
            node.open(&self.access);
            node.unanswered += 1;
            node.last_used = Instant::now();
            node.outbox.push((directed.request, directed.manner));
        }
        for node in self.known.values_mut() {
            if let Some(store) = node.store.as_mut().filter(|_| !node.outbox.is_empty()) {
                store.submit_in(mem::take(&mut node.outbox));
            }
        }
    }

    /// The removal of these acquires was carried out by one of the nodes.
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

    /// The next thing that a node says.
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
        self.told.news(stores.flat_map(RedisStore::wires))
    }

    /// Whether a node that has slots is away, as far as is known.
    pub(super) fn misses(&self, map: &Map) -> bool {
        let mut away = self.known.iter().filter(|(_, node)| {
            let store = node.store.as_ref();
            store.is_some_and(RedisStore::is_out)
        });
        away.any(|(id, _)| map.names(*id))
    }

    /// The nodes that can be asked about the cluster.
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
    use crate::store::redis::url_options;

    fn nodes() -> Nodes {
        let (base, query) = url_options::split("redis://127.0.0.1:1");
        Nodes::new(Access {
            like: Server::parse(base, &query).expect("a URL"),
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
    async fn a_node_that_has_left_is_forgotten() {
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
}
