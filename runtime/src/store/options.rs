//! The options of a pool for its store.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use crate::base::clock::Clock;
use crate::error::LockError;
use crate::replicas::Replicas;
use crate::store::login::Logins;
use crate::store::tls::Tls;

/// The options that a store is connected with.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) clock: Clock,
    pub(crate) io_timeout: Duration,
    pub(crate) namespace: String,
    /// Duration of unbroken use after which the store leaves a key free for clients that know no
    /// queue; zero for never.
    pub(crate) make_way_after: Duration,
    /// The builder's setting for `replicas`, which a URL can specify too.
    pub(crate) replicas: Option<Replicas>,
    /// The most replicas that the store has ever seen at once.
    pub(crate) replicas_seen: Arc<AtomicU32>,
    pub(crate) tls: Tls,
    /// The source of credentials, if those of the URL do not count.
    pub(crate) logins: Option<Logins>,
}

impl Options {
    /// Returns the defaults, with this time-out for answers.
    pub(crate) fn new(io_timeout: Duration) -> Self {
        Self {
            clock: Clock::System,
            io_timeout,
            namespace: "lock".to_owned(),
            make_way_after: Duration::ZERO,
            replicas: None,
            replicas_seen: Arc::default(),
            tls: Tls::default(),
            logins: None,
        }
    }

    /// Fails with `advice` if `replicas` is set, for a store without replicas.
    pub(crate) fn refuse_replicas(&self, advice: &str) -> Result<(), LockError> {
        match self.replicas {
            Some(_) => Err(LockError::config(advice)),
            None => Ok(()),
        }
    }

    /// Uses the builder's `replicas`, or else those of the URL.
    #[cfg(feature = "redis")]
    pub(super) fn or_replicas(mut self, replicas: Option<Replicas>) -> Self {
        self.replicas = self.replicas.or(replicas);
        self
    }
}
