//! What a store is connected with.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use crate::base::clock::Clock;
#[cfg(feature = "__remote")]
use crate::error::LockError;
use crate::replicas::Replicas;
#[cfg(feature = "tls")]
use crate::store::tls::Tls;

/// What a store is connected with.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) clock: Clock,
    pub(crate) io_timeout: Duration,
    pub(crate) namespace: String,
    /// After how long of unbroken use the store leaves a key free for clients that know no queue;
    /// zero for never.
    pub(crate) make_way_after: Duration,
    /// What the builder was given. A URL can give it too.
    pub(crate) replicas: Option<Replicas>,
    /// The most replicas that the store has ever seen at once.
    pub(crate) replicas_seen: Arc<AtomicU32>,
    #[cfg(feature = "tls")]
    pub(crate) tls: Tls,
}

impl Options {
    /// The defaults, with this time-out for answers.
    pub(crate) fn new(io_timeout: Duration) -> Self {
        Self {
            clock: Clock::System,
            io_timeout,
            namespace: "lock".to_owned(),
            make_way_after: Duration::ZERO,
            replicas: None,
            replicas_seen: Arc::default(),
            #[cfg(feature = "tls")]
            tls: Tls::default(),
        }
    }

    /// Refuses the options that a quorum of independent nodes cannot have.
    #[cfg(feature = "redis")]
    pub(super) fn for_independent_nodes(&self) -> Result<(), LockError> {
        #[cfg(feature = "tls")]
        self.tls.refuse()?;
        if self.replicas.is_some() {
            return Err(LockError::config(
                "the nodes of `redlock://` are independent, so `replicas` makes no sense there; leave it out",
            ));
        }
        Ok(())
    }

    /// Refuses the options of stores on Redis.
    #[cfg(feature = "postgres")]
    pub(super) fn for_postgres(&self) -> Result<(), LockError> {
        if self.replicas.is_some() {
            return Err(LockError::config(
                "`replicas` is for Redis; for `postgres://` set `synchronous_standby_names` on the server, and every lock waits for its standbys",
            ));
        }
        Ok(())
    }

    /// Refuses the options of stores on Redis.
    #[cfg(feature = "etcd")]
    pub(super) fn for_etcd(&self) -> Result<(), LockError> {
        if self.replicas.is_some() {
            return Err(LockError::config(
                "`replicas` is for Redis; a lock at `etcd://` is on most members of the cluster before it counts, so leave it out",
            ));
        }
        Ok(())
    }

    /// Refuses the options of stores on Redis.
    #[cfg(feature = "zookeeper")]
    pub(super) fn for_zookeeper(&self) -> Result<(), LockError> {
        #[cfg(feature = "tls")]
        self.tls.refuse()?;
        if self.replicas.is_some() {
            return Err(LockError::config(
                "`replicas` is for Redis; a lock at `zookeeper://` is on most servers of the ensemble before it counts, so leave it out",
            ));
        }
        Ok(())
    }

    /// The builder's `replicas`, or else those of the URL.
    #[cfg(feature = "redis")]
    pub(super) fn or_replicas(mut self, replicas: Option<Replicas>) -> Self {
        self.replicas = self.replicas.or(replicas);
        self
    }
}
