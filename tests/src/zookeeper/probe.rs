//! A probe for tests: it reads, takes and steals locks in ZooKeeper without the code under test.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::client::Client;
use crate::probe::Probe;
use crate::session_server::{Node, SessionProbe};

/// A probe of the locks under a chroot (the znode that contains the locks of a pool). The probe's
/// own znodes belong to no session. They therefore survive a crash of the server, and stay until
/// the probe deletes them.
#[derive(Debug)]
pub struct ZookeeperProbe {
    client: Client,
    chroot: String,
    namespace: String,
    /// The path of the probe's node in each lock that the probe has taken, by key.
    taken: Mutex<HashMap<String, String>>,
}

impl ZookeeperProbe {
    pub(super) fn new(client: Client, chroot: &str, namespace: &str) -> Self {
        Self {
            client,
            chroot: chroot.to_owned(),
            namespace: namespace.to_owned(),
            taken: Mutex::default(),
        }
    }

    /// The probe's client.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The path of a lock's directory.
    pub fn directory(&self, key: &str) -> String {
        let full = format!("{}{key}", self.namespace);
        let full = full.replace('%', "%25").replace('/', "%2F");
        format!("/{}/{full}", self.chroot)
    }

    /// Adds a node of the probe to the end of the lock's queue. The node's name has the form that
    /// Apache Curator, another client library, uses.
    fn enqueue(&self, key: &str) -> String {
        static COUNT: AtomicU32 = AtomicU32::new(1);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let directory = self.directory(key);
        let id = format!("{:08x}-0000-4000-8000-{number:012x}", std::process::id());
        let name = format!("{directory}/_c_{id}-lock-");
        loop {
            self.client.make_path(&directory);
            // Another client may remove the directory while it is empty, before the node is
            // created. The loop then creates the directory again.
            if let Some(path) = self.client.enqueue(&name) {
                return path;
            }
        }
    }

    fn keep(&self, key: &str, path: String) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.insert(key.to_owned(), path);
    }

    fn is_first(&self, key: &str, path: &str) -> bool {
        let nodes = self.nodes(key);
        nodes.first().is_some_and(|first| first.path == path)
    }
}

impl Probe for ZookeeperProbe {
    fn exists(&self, key: &str) -> bool {
        !self.client.names(&self.directory(key)).is_empty()
    }

    fn take(&self, key: &str, _ttl: Duration) -> bool {
        let path = self.enqueue(key);
        let won = self.is_first(key, &path);
        if won {
            self.keep(key, path);
        } else {
            self.client.delete(&path);
        }
        won
    }

    fn untouched(&self, key: &str) -> bool {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let path = taken.get(key).cloned();
        drop(taken);
        path.is_some_and(|path| self.is_first(key, &path))
    }

    fn steal(&self, key: &str, _ttl: Duration) {
        for node in self.nodes(key) {
            self.client.delete(&node.path);
        }
        let path = self.enqueue(key);
        self.keep(key, path);
    }

    fn give_back(&self, key: &str) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let path = taken.remove(key).expect("the probe holds the key");
        drop(taken);
        assert!(self.client.delete(&path), "{key}: the probe held it");
    }
}

impl SessionProbe for ZookeeperProbe {
    fn nodes(&self, key: &str) -> Vec<Node> {
        let znodes = self.client.list(&self.directory(key)).into_iter();
        let nodes = znodes.map(|znode| Node {
            path: znode.path,
            session: znode.session,
        });
        nodes.collect()
    }

    /// Lists the nodes in the directories of locks, but not in `%`, the directory of sessions. The
    /// directories themselves are not listed, because tests allow empty directories to remain.
    fn left(&self) -> Vec<String> {
        let root = format!("/{}", self.chroot);
        let directories = self.client.names(&root).into_iter();
        let of_locks = directories.filter(|directory| directory != "%");
        let nodes = of_locks.flat_map(|directory| {
            let directory = format!("{root}/{directory}");
            let names = self.client.names(&directory).into_iter();
            names.map(move |name| format!("{directory}/{name}"))
        });
        nodes.collect()
    }

    /// Lists the revocations, which are in one directory for each session. The directories
    /// themselves are not listed, because tests allow empty directories to remain.
    fn revocations(&self) -> Vec<String> {
        let sessions = format!("/{}/%", self.chroot);
        let directories = self.client.names(&sessions).into_iter();
        let of_revocations = directories.filter(|directory| directory.ends_with("-revoked"));
        let nodes = of_revocations.flat_map(|directory| {
            let directory = format!("{sessions}/{directory}");
            let names = self.client.names(&directory).into_iter();
            names.map(move |name| format!("{directory}/{name}"))
        });
        nodes.collect()
    }

    fn own_node(&self, session: i64) -> String {
        format!("/{}/%/{session:016x}", self.chroot)
    }

    fn delete(&self, path: &str) -> bool {
        self.client.delete(path)
    }
}
