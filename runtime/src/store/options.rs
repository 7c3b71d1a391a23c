//! How to connect a store.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use crate::base::clock::Clock;
#[cfg(feature = "redis")]
use crate::error::LockError;
use crate::replicas::Replicas;
#[cfg(feature = "tls")]
use crate::store::redis::wire::tls::Tls;

/// How to connect.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) clock: Clock,
    pub(crate) io_timeout: Duration,
    pub(crate) namespace: String,
    /// After how long of unbroken use a key is left free for clients that know no queue; zero for
    /// never.
    pub(crate) make_way_after: Duration,
    /// What the builder said; a URL may say it too.
    pub(crate) replicas: Option<Replicas>,
    /// The most replicas that were ever seen at once.
    pub(crate) replicas_seen: Arc<AtomicU32>,
    #[cfg(feature = "tls")]
    pub(crate) tls: Tls,
}

impl Options {
    /// The defaults, but for how long to wait for an answer.
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

    /// Refuses what makes no sense for a quorum.
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

    /// With what a URL asks for where the builder did not say it.
    #[cfg(feature = "redis")]
    pub(super) fn or_replicas(mut self, replicas: Option<Replicas>) -> Self {
        self.replicas = self.replicas.or(replicas);
        self
    }
}
