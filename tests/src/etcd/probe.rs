//! A probe that reads and takes the locks of an etcd server.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::gateway::Gateway;
use crate::probe::Probe;
use crate::session_server::{Node, SessionProbe};

/// A probe of the locks whose keys in etcd begin with one prefix.
#[derive(Debug)]
pub struct EtcdProbe {
    gateway: Gateway,
    prefix: String,
    namespace: String,
    /// The node of each lock that the probe has taken, by key.
    taken: Mutex<HashMap<String, Node>>,
}

impl EtcdProbe {
    pub(super) fn new(gateway: Gateway, prefix: &str, namespace: &str) -> Self {
        Self {
            gateway,
            prefix: prefix.to_owned(),
            namespace: namespace.to_owned(),
            taken: Mutex::default(),
        }
    }

    fn directory(&self, key: &str) -> String {
        let full = format!("{}{key}", self.namespace);
        let full = full.replace('%', "%25").replace('/', "%2F");
        format!("{}/{full}/", self.prefix)
    }

    /// Returns a node with which the probe can take a lock. Its lease (`session`) exists in etcd,
    /// but its key is not written yet.
    fn own(&self, key: &str, ttl: Duration) -> Node {
        static COUNT: AtomicU32 = AtomicU32::new(1);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        Node {
            path: format!(
                "{}probe-{}-{number}",
                self.directory(key),
                std::process::id()
            ),
            session: self.gateway.grant(ttl.as_secs() + 1),
        }
    }

    fn keep(&self, key: &str, node: Node) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.insert(key.to_owned(), node);
    }
}

impl Probe for EtcdProbe {
    fn exists(&self, key: &str) -> bool {
        !self.nodes(key).is_empty()
    }

    fn take(&self, key: &str, ttl: Duration) -> bool {
        let own = self.own(key, ttl);
        let won = self
            .gateway
            .put_first(&self.directory(key), &own.path, own.session);
        if won {
            self.keep(key, own);
        } else {
            self.gateway.revoke(own.session);
        }
        won
    }

    fn untouched(&self, key: &str) -> bool {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let own = taken.get(key).cloned();
        drop(taken);
        own.is_some_and(|own| self.nodes(key).first() == Some(&own))
    }

    fn steal(&self, key: &str, ttl: Duration) {
        for node in self.nodes(key) {
            self.gateway.delete(&node.path);
        }
        let own = self.own(key, ttl);
        self.gateway.put(&own.path, own.session);
        self.keep(key, own);
    }

    fn give_back(&self, key: &str) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let own = taken.remove(key).expect("the probe holds the key");
        drop(taken);
        assert!(self.gateway.delete(&own.path), "{key}: the probe held it");
        self.gateway.revoke(own.session);
    }
}

impl SessionProbe for EtcdProbe {
    fn nodes(&self, key: &str) -> Vec<Node> {
        self.gateway.list(&self.directory(key))
    }

    fn left(&self) -> Vec<String> {
        let sessions = format!("{}/%/", self.prefix);
        let all = self.gateway.list(&format!("{}/", self.prefix)).into_iter();
        let paths = all.map(|node| node.path);
        paths.filter(|path| !path.starts_with(&sessions)).collect()
    }

    fn revocations(&self) -> Vec<String> {
        let sessions = format!("{}/%/", self.prefix);
        let below = self.gateway.list(&sessions).into_iter();
        let below = below.map(|node| node.path[sessions.len()..].to_owned());
        below.filter(|path| path.contains('/')).collect()
    }

    fn own_node(&self, session: i64) -> String {
        format!("{}/%/{session:016x}", self.prefix)
    }

    fn delete(&self, path: &str) -> bool {
        self.gateway.delete(path)
    }
}
