//! A pool's options for its store.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use crate::base::clock::Clock;
use crate::error::LockError;
use crate::replicas::Replicas;
use crate::store::credentials::Provider;
use crate::store::tls::Tls;

/// Options for connecting a store.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) clock: Clock,
    pub(crate) io_timeout: Duration,
    pub(crate) namespace: String,
    /// Time after which a key in unbroken use is left free for a moment, for clients that do not
    /// use the store's queue. Zero means never.
    pub(crate) make_way_after: Duration,
    /// The builder's `replicas`. A URL can specify `replicas` too.
    pub(crate) replicas: Option<Replicas>,
    /// The largest number of replicas that the store has ever seen at one time. If `replicas` is
    /// `all`, so many must acknowledge a write.
    pub(crate) replicas_seen: Arc<AtomicU32>,
    pub(crate) tls: Tls,
    /// The program's source of credentials, if there is one. It replaces the credentials in the
    /// URL.
    pub(crate) logins: Option<Provider>,
}

impl Options {
    /// Returns the default options, with this time-out for answers.
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

    /// Fails with `advice` if `replicas` is set. Called for a store without replicas.
    pub(crate) fn refuse_replicas(&self, advice: &str) -> Result<(), LockError> {
        match self.replicas {
            Some(_) => Err(LockError::config(advice)),
            None => Ok(()),
        }
    }

    /// Keeps the builder's `replicas`. If the builder has none, uses `replicas` from the URL.
    #[cfg(feature = "redis")]
    pub(super) fn or_replicas(mut self, replicas: Option<Replicas>) -> Self {
        self.replicas = self.replicas.or(replicas);
        self
    }
}
