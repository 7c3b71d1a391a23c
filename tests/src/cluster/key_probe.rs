//! A probe for keys with one prefix in a Redis Cluster. The probe can also take locks, as a client
//! other than leasehold.

use std::time::Duration;

use super::Cluster;
use crate::probe::Probe;
use crate::redis_probe::RedisProbe;

/// A probe that accesses each key on its master. The slots of the cluster must not move, because
/// the probe follows no redirects.
#[derive(Debug)]
pub struct ClusterProbe {
    cluster: &'static Cluster,
    prefix: String,
}

impl ClusterProbe {
    /// Creates a probe for the keys with this prefix.
    pub fn new(cluster: &'static Cluster, prefix: &str) -> Self {
        let prefix = prefix.to_owned();
        Self { cluster, prefix }
    }

    /// Returns the probe of the key's master, and the key as it is on the server.
    fn on(&self, key: &str) -> (&RedisProbe, String) {
        let key = format!("{}{key}", self.prefix);
        (self.cluster.probe_of(&key), key)
    }
}

impl Probe for ClusterProbe {
    fn exists(&self, key: &str) -> bool {
        let (node, key) = self.on(key);
        node.exists(&key)
    }

    fn take(&self, key: &str, ttl: Duration) -> bool {
        let (node, key) = self.on(key);
        node.take(&key, ttl)
    }

    fn untouched(&self, key: &str) -> bool {
        let (node, key) = self.on(key);
        node.untouched(&key)
    }

    fn steal(&self, key: &str, ttl: Duration) {
        let (node, key) = self.on(key);
        node.steal(&key, ttl);
    }

    fn give_back(&self, key: &str) {
        let (node, key) = self.on(key);
        node.give_back(&key);
    }
}
