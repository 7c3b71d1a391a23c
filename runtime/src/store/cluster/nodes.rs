//! The nodes that were ever seen, and the connections to those that are in use.

use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Instant;

use super::map::{Map, NodeId};
use super::router::{Directed, Hint};
use crate::store::redis::{Endpoint, Manner, Names, Origin, Redirect, RedisStore, Server};
use crate::store::target::Options;
use crate::store::{LockStore, OpId, Request, StoreEvent};

/// A node without slots is left when it was not used for so long. One that slots are on their way to is asked now and then.
const UNUSED: Duration = Duration::from_secs(60);

struct Node {
    endpoint: Endpoint,
    store: Option<RedisStore>,
    outbox: Vec<(Request, Manner)>,
    /// So many requests have not been answered.
    open: usize,
    last_used: Instant,
}

impl Node {
    fn is_unused(&self) -> bool {
        self.open == 0 && self.last_used.elapsed() > UNUSED
    }
}

/// How nodes are reached and spoken to.
pub(super) struct Access {
    /// A node like all others: credentials, and whether with TLS.
    pub(super) like: Server,
    pub(super) names: Names,
    pub(super) options: Options,
}

impl Access {
    /// How to reach `endpoint`.
    pub(super) fn server(&self, endpoint: &Endpoint) -> Server {
        self.like.elsewhere(endpoint)
    }

    /// What is needed to connect to `endpoint` as a node that has `slot`.
    pub(super) fn seat(&self, endpoint: &Endpoint, slot: u16) -> (Origin, Names, Options) {
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
    nodes: Vec<Node>,
    access: Access,
}

impl Nodes {
    pub(super) fn new(access: Access) -> Self {
        Self {
            nodes: Vec::new(),
            access,
        }
    }

    pub(super) fn access(&self) -> &Access {
        &self.access
    }

    /// The node at `endpoint`.
    pub(super) fn find(&mut self, endpoint: &Endpoint) -> NodeId {
        let known = self
            .nodes
            .iter()
            .position(|node| node.endpoint == *endpoint);
        known.unwrap_or_else(|| {
            self.nodes.push(Node {
                endpoint: endpoint.clone(),
                store: None,
                outbox: Vec::new(),
                open: 0,
                last_used: Instant::now(),
            });
            self.nodes.len() - 1
        })
    }

    /// Uses `store` for the node.
    pub(super) fn adopt(&mut self, node: NodeId, store: RedisStore) {
        self.nodes[node].store = Some(store);
    }

    /// What a node meant when it sent a request elsewhere.
    pub(super) fn hint(&mut self, node: NodeId, id: OpId) -> Option<Hint> {
        let said = self.nodes[node].store.as_mut()?.take_redirect(id)?;
        let Redirect { slot, mut to, once } = said;
        if to.host.is_empty() {
            to.host.clone_from(&self.nodes[node].endpoint.host);
        }
        let node = self.find(&to);
        Some(Hint { slot, node, once })
    }

    /// Connects to the nodes that have slots and leaves those that have none and nothing to answer.
    pub(super) fn follow(&mut self, map: &Map) {
        for id in 0..self.nodes.len() {
            if map.names(id) {
                self.open(id);
            } else if self.nodes[id].is_unused() {
                self.nodes[id].store = None;
            }
        }
    }

    fn open(&mut self, id: NodeId) {
        if self.nodes[id].store.is_none() {
            let (origin, names, options) = self.access.seat(&self.nodes[id].endpoint, 0);
            self.nodes[id].store = Some(RedisStore::later(origin, names, &options));
        }
    }

    /// Hands requests to the connections, those for one node together.
    pub(super) fn send(&mut self, requests: Vec<Directed>) {
        for directed in requests {
            self.open(directed.node);
            let node = &mut self.nodes[directed.node];
            node.open += 1;
            node.last_used = Instant::now();
            node.outbox.push((directed.request, directed.manner));
        }
        for node in &mut self.nodes {
            if let Some(store) = node.store.as_mut().filter(|_| !node.outbox.is_empty()) {
                store.submit_in(mem::take(&mut node.outbox));
            }
        }
    }

    /// The next thing that a node says.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Option<(NodeId, StoreEvent)> {
        for (id, node) in self.nodes.iter_mut().enumerate() {
            let Some(store) = &mut node.store else {
                continue;
            };
            if let Poll::Ready(event) = store.poll_event(cx) {
                node.open -= usize::from(matches!(event, StoreEvent::Reply(..)));
                return Some((id, event));
            }
        }
        None
    }

    /// Whether a node that has slots is away, as far as is known.
    pub(super) fn misses(&self, map: &Map) -> bool {
        let mut away = self.nodes.iter().enumerate().filter(|(_, node)| {
            let store = node.store.as_ref();
            store.is_some_and(RedisStore::is_out)
        });
        away.any(|(id, _)| map.names(id))
    }

    /// The nodes that can be asked about the cluster.
    pub(super) fn servers(&self) -> impl Iterator<Item = Server> {
        self.nodes
            .iter()
            .filter(|node| node.store.is_some())
            .map(|node| self.access.server(&node.endpoint))
    }
}
